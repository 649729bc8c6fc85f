"""The bi-encoder: any sentence-transformers model, with the fastest sound backend of the machine.

    CUDA                                torch, bfloat16
    a CPU that multiplies bfloat16      OpenVINO, bfloat16
    any other CPU                       OpenVINO, float32

The whole model runs in the backend, its own pooling and normalisation included, so a vector differs
from `SentenceTransformer.encode` in float32 by precision alone (1 - cosine below 1e-3). Token
sequences go in, vectors come out; batching is the caller's (`indexer.encoding`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from indexer.encoding import Tokens, encode_texts
from indexer.errors import UsageError
from retriever.models import (
    ModelFacts,
    convert_to_openvino,
    find_model,
    load_sentence_transformer,
    model_facts,
    model_sha256,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "bfloat16", "float32"]

# ids and mask, int64 [B, L], to vectors, float32 [B, d]
Forward = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]

# Lengths are rounded up: a backend plans each new shape once, and 8 is a vector register's worth.
_LENGTH_STEP = 8


@dataclass(frozen=True)
class TextFormat:
    """How a title and a text become the one text that the model reads.

    `prompt`s are the model's own (`config_sentence_transformers.json`), such as E5's "query: ".
    """

    title: bool = True
    passage_prompt: str = ""
    query_prompt: str = ""

    def passage(self, title: str, text: str) -> str:
        """The text of a passage; a passage without a title is its text alone."""
        return f"{self.passage_prompt}{title} {text}" if self.title and title else self.passage_prompt + text

    def query(self, text: str) -> str:
        """The text of a query."""
        return self.query_prompt + text


class BiEncoder:
    """An encoder for passages and queries. Make one with `open_biencoder`."""

    def __init__(
        self,
        name: str,
        sha256: str,
        facts: ModelFacts,
        forward: Forward,
        execution: dict[str, Any],
        title: bool,
    ) -> None:
        self.name = Path(name).resolve().name if Path(name).is_dir() else name
        self.location = str(Path(name).resolve()) if Path(name).is_dir() else name
        self.text_format = TextFormat(title, facts.passage_prompt, facts.query_prompt)
        self.execution = execution
        self.dimension = facts.dimension
        self.max_tokens = facts.max_tokens
        self.identity = {
            "name": self.name,
            "sha256": sha256,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "title": title,
            "passage_prompt": facts.passage_prompt,
            "query_prompt": facts.query_prompt,
        }
        on_gpu = execution["device"] == "cuda"
        self.token_budget = 65_536 if on_gpu else 8_192
        self.shard_rows = 262_144 if on_gpu else 4_096
        self._pad = facts.pad_token
        self._tokenizer = Tokenizer.from_str(facts.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._forward = forward

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> list[Tokens]:
        """Token ids of passages, special tokens included, at most `max_tokens` each."""
        return self._tokenize([self.text_format.passage(*p) for p in zip(titles, texts, strict=True)])

    def tokenize_queries(self, texts: Sequence[str]) -> list[Tokens]:
        """Token ids of queries."""
        return self._tokenize([self.text_format.query(text) for text in texts])

    def _tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Vectors of token sequences, float32 [B, d], padded to the longest of the batch."""
        longest = max(map(len, batch))
        length = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, max(self.max_tokens, longest))
        ids = np.full((len(batch), length), self._pad, np.int64)  # [B, L]
        mask = np.zeros((len(batch), length), np.int64)  # [B, L]
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        return self._forward(ids, mask)

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, float32 [Q, d]."""
        return encode_texts(self, self.tokenize_queries(texts))


def open_biencoder(
    name: str,
    *,
    title: bool = True,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: int | None = None,
) -> BiEncoder:
    """Load a sentence-transformers model by path or name.

    title: whether passages are read with their title. threads: of the CPU, default all cores.
    Raises `InputError` if the model cannot be had or read, `UsageError` for a device that is not there.
    """
    folder = find_model(name)
    sha256 = model_sha256(folder)
    if _use_cuda(device):
        model = load_sentence_transformer(folder, name)
        facts = model_facts(model, name)
        forward, execution = torch_forward(model, "cuda", "bfloat16" if precision == "auto" else precision)
    else:
        converted, facts = convert_to_openvino(folder, name, sha256)
        forward, execution = openvino_forward(converted, precision, threads or os.cpu_count() or 1)
    return BiEncoder(name, sha256, facts, forward, execution, title)


def _use_cuda(device: Device) -> bool:
    if device == "cpu" or (device == "auto" and version("torch").endswith("+cpu")):
        return False  # without the seconds that importing torch takes
    import torch

    if torch.cuda.is_available():
        return True
    if device == "cuda":
        raise UsageError("device cuda: torch finds no CUDA device", "Use --device cpu.")
    return False


def torch_forward(model: SentenceTransformer, device: str, precision: str) -> tuple[Forward, dict[str, Any]]:
    """The model in torch, on a GPU, or on a CPU as the reference for other backends."""
    import torch

    model = model.to(device=device, dtype=getattr(torch, precision))

    def forward(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        features = {
            "input_ids": torch.from_numpy(ids).to(device),
            "attention_mask": torch.from_numpy(mask).to(device),
        }
        with torch.inference_mode():
            vectors = model(features)["sentence_embedding"]
        return vectors.float().cpu().numpy()  # type: ignore[no-any-return]

    return forward, {
        "backend": f"torch {torch.__version__}",
        "device": device,
        "precision": precision,
        "threads": torch.get_num_threads(),
    }


def openvino_forward(converted: Any, precision: Precision, threads: int) -> tuple[Forward, dict[str, Any]]:
    """A converted model on the CPU; bfloat16 where the processor multiplies it, unless told otherwise."""
    import openvino

    core = openvino.Core()
    if precision == "auto":
        capable = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        precision = "bfloat16" if capable else "float32"
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": str(threads),
        "NUM_STREAMS": "1",
    }
    request = core.compile_model(converted, "CPU", settings).create_infer_request()
    lock = threading.Lock()  # a request works on one batch at a time; searches come from any thread

    def forward(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        with lock:
            return np.array(request.infer({"input_ids": ids, "attention_mask": mask})[0])

    return forward, {
        "backend": f"openvino {version('openvino')}",
        "device": "cpu",
        "precision": precision,
        "threads": threads,
    }
