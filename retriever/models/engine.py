"""An open model: token sequences in, rows of numbers out, on the fastest sound backend of a machine.

    CUDA                                torch, bfloat16             (`backends.torch_engine`)
    a CPU that multiplies bfloat16      OpenVINO, bfloat16          (`backends.openvino_engine`)
    any other CPU, and cross-encoders   OpenVINO, float32
    static encoders, everywhere         token vectors               (`backends.static_engine`)

Bi-encoders and cross-encoders are both an `Engine`; they differ in their texts and in their rows. The backend
runs the complete model, with its own pooling, normalisation and activation, so the numbers differ from
sentence-transformers' in float32 by precision alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Parallel, Tokens
from linkseek.indexer.machine.devices import Precision, cuda_devices
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.retriever.models.checks.families import Way, way_of
from linkseek.retriever.models.facts import ModelFacts, decoded, open_tokenizer, padded
from linkseek.retriever.models.folders import is_static, model_sha256
from linkseek.retriever.models.library import LIBRARIES
from linkseek.retriever.models.locations import QUERIES, ModelKind, find_model

if TYPE_CHECKING:
    from linkseek.retriever.models.backends.openvino_engine import OpenVinoForward
    from linkseek.retriever.models.backends.static_engine import StaticForward
    from linkseek.retriever.models.backends.torch_engine import ModuleChain, OneByOne, TorchForward


Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class Opened:
    """A model that was located, loaded and placed on a device. large_batches: whether they pay."""

    name: str
    sha256: str
    facts: ModelFacts
    forward: OpenVinoForward | StaticForward | TorchForward | OneByOne
    parallel: Parallel
    large_batches: bool = False


class Engine:
    """An open model. Subclasses turn their texts into tokens."""

    def __init__(self, opened: Opened) -> None:
        is_folder = Path(opened.name).is_dir()
        self.name = Path(opened.name).resolve().name if is_folder else opened.name
        self.location = str(Path(opened.name).resolve()) if is_folder else opened.name
        self.facts = opened.facts
        self.dimension = opened.facts.dimension
        self.max_tokens = opened.facts.max_tokens
        self.parallel = opened.parallel
        large = opened.large_batches or opened.forward.execution["device"] != "cpu"
        self.token_budget = 131_072 if large else 2_048  # on a CPU: a batch stays in a core's cache
        self.shard_rows = 262_144 if large else 4_096
        self.tokenizer = open_tokenizer(opened.facts)
        self._forward = opened.forward

    @property
    def execution(self) -> dict[str, Any]:
        """Everything that the last bits of its numbers depend on."""
        return self._forward.execution

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Rows of token sequences, float32 [B, d], padded to the longest of the batch."""
        return self._forward(padded(batch, self.facts))

    @property
    def scales(self) -> bool:
        """Whether its vectors are compared by their cosine, and do not have length 1 already."""
        return self.facts.similarity == "cosine" and not self.facts.is_unit

    def comparable(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors [n, d] whose inner products are the model's own similarity; a vector 0 stays 0."""
        if not self.scales:
            return vectors
        lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)  # [n, 1]
        lengths[lengths == 0] = 1
        return np.asarray(vectors / lengths)

    def text_of(self, tokens: Tokens) -> str:
        """The words that were tokenised, for messages."""
        return decoded(self.tokenizer, tokens)


def open_engine(
    kind: ModelKind,
    load: Callable[[Path, str], tuple[ModuleChain, ModelFacts]],
    name: str,
    device: str,
    precision: Precision,
    threads: int | None = None,
    streams: int | None = None,
) -> Opened:
    """Locate, load and place a model.

    load: (folder, name for errors) -> a model in torch and its facts. device: see `indexer.machine.devices`.
    threads: the number of CPU threads, by default all cores. streams: batches that they work on at the same
    time, default one each. The first of several GPUs is used. Raises `InputError` if the model cannot be
    located or read, or changes meanwhile, `UsageError` for a missing device.
    """
    folder = find_model(name, kind)
    sha256 = model_sha256(folder, kind.tower)

    def unchanged(load: Callable[..., Loaded], *arguments: str) -> Loaded:
        """Never cache or store vectors under the hash of files that have changed since."""
        model = load(folder, name, *arguments)
        if model_sha256(folder, kind.tower) != sha256:
            raise InputError(f"{name}: its files changed while it was opened", "Try again.")
        return model

    loaded = partial(unchanged, load)
    suffix = f"_{QUERIES}" if kind.tower == QUERIES else ""  # the hash may cover both towers
    key = f"{sha256[:32]}-{kind.library}{suffix}"
    gpus = cuda_devices(device)
    if is_static(folder, kind.tower):
        from linkseek.retriever.models.backends.static_engine import load_static, open_static

        facts, static, parallel = open_static(partial(unchanged, load_static, kind.tower), key)
        return Opened(name, sha256, facts, static, parallel, large_batches=True)
    if not gpus:
        from linkseek.retriever.models.backends.openvino_engine import open_on_cpu

        threads = threads or os.cpu_count() or 1
        streams = min(streams or threads, threads)
        facts, on_cpu = open_on_cpu(loaded, key, name, precision, threads, streams)
        return Opened(name, sha256, facts, on_cpu, Parallel(batches=on_cpu.execution.get("streams", 1)))
    with LIBRARIES:
        from linkseek.retriever.models.backends.torch_engine import checked_in_torch

        chain, facts = loaded()
        way = way_of(chain.model_type, scores=facts.dimension == 1)
        difference = f"type {chain.model_type}" if way is Way.ALONE else ""
        if not difference:
            forward: TorchForward | OneByOne = torch_forward(chain, facts, gpus[0], precision)
            used = forward.execution["precision"]
            difference = chain.probe.difference(forward, facts, used) if chain.probe else ""
        if difference:
            log_line(f"{name}: in float32, and not packed ({difference})")
            forward = checked_in_torch(*loaded(), gpus[0], name)
        return Opened(name, sha256, facts, forward, on_gpu())


def torch_forward(chain: ModuleChain, facts: ModelFacts, device: str, precision: Precision) -> TorchForward:
    """A loaded model in torch on a device; "auto" is bfloat16 where a GPU has it."""
    import torch

    from linkseek.retriever.models.backends.torch_engine import TorchForward

    if precision == "auto":
        has_bfloat16 = device != "cpu" and torch.cuda.get_device_capability(device) >= (8, 0)
        precision = "bfloat16" if has_bfloat16 else "float32"
    ids = open_tokenizer(facts).encode(" ".join(map(str, range(facts.max_tokens)))).ids
    probe = [ids[: len(ids) // part] for part in (1, 2, 3, 7, 20)]
    return TorchForward(chain, device, precision, padded(probe, facts))


def on_gpu() -> Parallel:
    """The work that runs at the same time as a GPU: launching, waiting for results, and tokenising."""
    return Parallel(batches=3, tokenizers=min(max((os.cpu_count() or 1) - 2, 1), 16))
