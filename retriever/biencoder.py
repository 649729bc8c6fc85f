"""The bi-encoder: any sentence-transformers model, with the fastest sound backend of the machine.

    CUDA                                torch, bfloat16
    a CPU that multiplies bfloat16      OpenVINO, bfloat16
    any other CPU                       OpenVINO, float32

The whole model runs in the backend, its own pooling and normalisation included, so a vector differs
from `SentenceTransformer.encode` in float32 by precision alone (1 - cosine below 1e-3). Token
sequences go in, vectors come out; batching is the caller's (`indexer.encoding`).
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from indexer.encoding import Tokens, encode_texts
from indexer.errors import InputError, UsageError
from retriever.models import find_model, model_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        folder: Path,
        model: SentenceTransformer,
        forward: Forward,
        text_format: TextFormat,
        execution: dict[str, Any],
    ) -> None:
        self.name = folder.resolve().name if Path(name).is_dir() else name
        self.location = str(folder.resolve()) if Path(name).is_dir() else name
        self.folder = folder
        self.text_format = text_format
        self.execution = execution
        self.dimension: int = int(model.get_embedding_dimension() or 0)
        self.max_tokens: int = int(model.max_seq_length or 512)
        self._tokenizer = _tokenizer(model, self.max_tokens, name)
        self._pad = int(model.tokenizer.pad_token_id or 0)
        self._forward = forward
        on_gpu = execution["device"] == "cuda"
        self.token_budget = 65_536 if on_gpu else 8_192
        self.shard_rows = 262_144 if on_gpu else 4_096

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Name, hash of the model's files, dimension, length, text format."""
        return {
            "name": self.name,
            "sha256": model_sha256(self.folder),
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "title": self.text_format.title,
            "passage_prompt": self.text_format.passage_prompt,
            "query_prompt": self.text_format.query_prompt,
        }

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
    model = load_sentence_transformer(folder, name)
    prompts = model.prompts or {}
    text_format = TextFormat(
        title, prompts.get("document") or prompts.get("passage") or "", prompts.get("query") or ""
    )
    forward, execution = _open_backend(model, device, precision, threads)
    return BiEncoder(name, folder, model, forward, text_format, execution)


def load_sentence_transformer(folder: Path, name: str) -> SentenceTransformer:
    """The model in torch, on the CPU, in float32. Raises `InputError` if it cannot be read."""
    with _quiet():
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(
                str(folder),
                device="cpu",
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": "float32"},
            )
        except Exception as error:  # whatever a broken folder makes transformers raise
            raise InputError(
                f"encoder {name}: {folder} cannot be loaded ({type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''})",
                "It must be a folder that SentenceTransformer(path) opens.",
            ) from error
    return model.eval()


def _tokenizer(model: SentenceTransformer, max_tokens: int, name: str) -> Any:
    from tokenizers import Tokenizer

    fast = getattr(model.tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise InputError(
            f"encoder {name}: its tokenizer has no fast version", "Save it with a tokenizer.json."
        )
    tokenizer = Tokenizer.from_str(fast.to_str())  # a copy: truncation and padding are settings of it
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


# --- backends ------------------------------------------------------------------------------------


def _open_backend(
    model: SentenceTransformer, device: Device, precision: Precision, threads: int | None
) -> tuple[Forward, dict[str, Any]]:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device cuda: torch finds no CUDA device", "Use --device cpu.")
    if device != "cpu" and torch.cuda.is_available():
        return torch_forward(model, "cuda", "bfloat16" if precision == "auto" else precision)
    return openvino_forward(model, precision, threads or os.cpu_count() or 1)


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


def openvino_forward(
    model: SentenceTransformer, precision: Precision, threads: int
) -> tuple[Forward, dict[str, Any]]:
    """The model converted to OpenVINO, on the CPU. Takes about four seconds."""
    with _quiet():
        import openvino

        core = openvino.Core()
        capable = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if precision == "auto":
            precision = "bfloat16" if capable else "float32"
        compiled = core.compile_model(
            _convert(model),
            "CPU",
            {
                "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
                "INFERENCE_NUM_THREADS": str(threads),
                "NUM_STREAMS": "1",
            },
        )
    request = compiled.create_infer_request()
    lock = threading.Lock()  # a request works on one batch at a time; searches come from any thread

    def forward(ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        with lock:
            return np.array(request.infer({"input_ids": ids, "attention_mask": mask})[0])

    return forward, {
        "backend": f"openvino {openvino.__version__}",
        "device": "cpu",
        "precision": precision,
        "threads": threads,
    }


def _convert(model: SentenceTransformer) -> Any:
    import openvino
    import torch

    class Whole(torch.nn.Module):
        """The chain of modules as one function of two tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.modules_in_order = torch.nn.ModuleList(model)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            for module in self.modules_in_order:
                features = module(features)
            return features["sentence_embedding"]

    example = torch.ones((2, 16), dtype=torch.int64)
    with torch.no_grad():
        return openvino.convert_model(
            Whole().eval(), example_input={"input_ids": example, "attention_mask": example}
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading bars, tracer warnings and deprecations of the libraries are no news to our users."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
