"""A model that is open: token sequences in, rows of numbers out, with the fastest sound backend of a machine.

    CUDA                                torch, bfloat16             (`retriever.models.torch_engine`)
    a CPU that multiplies bfloat16      OpenVINO, bfloat16          (`retriever.models.openvino_engine`)
    any other CPU, and cross-encoders   OpenVINO, float32

Bi-encoders and cross-encoders are both an `Engine`; they differ in what they tokenise and in what comes out.
The whole model runs in the backend, its own pooling, normalisation and activation included, so the numbers
differ from sentence-transformers' in float32 by precision alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from indexer.base.devices import cuda_devices
from indexer.encoding.batches import Parallel, Tokens
from retriever.models.locations import Kind, ModelFacts, Precision, find_model, model_sha256

if TYPE_CHECKING:
    from retriever.models.torch_engine import Whole


Features = dict[str, NDArray[np.int64]]
"""What a model reads: arrays [B, L] by name."""

# Lengths are rounded up: a backend plans each new shape once, and 8 is a vector register's worth.
_LENGTH_STEP = 8


class Forward(Protocol):
    """A model in a backend. May be called from any thread."""

    @property
    def execution(self) -> dict[str, Any]:
        """What the last bits of its numbers depend on."""

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] by name -> float32 [B, d]."""


@dataclass(frozen=True)
class Opened:
    """What `open_engine` has found and made."""

    name: str
    sha256: str
    facts: ModelFacts
    forward: Forward
    parallel: Parallel


class Engine:
    """A model that is open. What a subclass adds is how its texts become tokens."""

    def __init__(self, opened: Opened) -> None:
        is_folder = Path(opened.name).is_dir()
        self.name = Path(opened.name).resolve().name if is_folder else opened.name
        self.location = str(Path(opened.name).resolve()) if is_folder else opened.name
        self.facts = opened.facts
        self.dimension = opened.facts.dimension
        self.max_tokens = opened.facts.max_tokens
        self.parallel = opened.parallel
        on_gpu = opened.forward.execution["device"] != "cpu"
        self.token_budget = 131_072 if on_gpu else 2_048  # of a CPU: what stays in a core's cache
        self.shard_rows = 262_144 if on_gpu else 4_096
        self.tokenizer = open_tokenizer(opened.facts)
        self._forward = opened.forward

    @property
    def execution(self) -> dict[str, Any]:
        """What the last bits of its numbers depend on."""
        return self._forward.execution

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Rows of token sequences, float32 [B, d], padded to the longest of the batch."""
        return self._forward(padded(batch, self.facts))


def open_tokenizer(facts: ModelFacts) -> Tokenizer:
    """The model's tokenizer, which cuts texts to its length and pads nothing."""
    tokenizer = Tokenizer.from_str(facts.tokenizer)
    tokenizer.no_padding()
    tokenizer.enable_truncation(facts.max_tokens)
    return tokenizer


def padded(batch: Sequence[Tokens], facts: ModelFacts) -> Features:
    """The arrays that a model reads, int64 [B, L] each. Tokens of a second text are given as ~id."""
    lengths = np.array([len(tokens) for tokens in batch])  # [B]
    longest = int(lengths.max())
    length = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, max(facts.max_tokens, longest))
    is_token = np.arange(length) < lengths[:, None]  # [B, L]
    found = np.zeros(is_token.shape, np.int64)
    found[is_token] = np.concatenate([np.asarray(tokens, np.int64) for tokens in batch])
    is_second = found < 0
    ids = np.where(is_token, np.where(is_second, ~found, found), facts.pad_token)
    arrays = {"input_ids": ids, "attention_mask": is_token, "token_type_ids": is_second}
    return {name: arrays[name].astype(np.int64) for name in facts.inputs}


def open_engine(
    kind: Kind,
    name: str,
    device: str,
    precision: Precision,
    threads: int | None = None,
    streams: int | None = None,
    reopen: Callable[[str], Callable[[], Any]] | None = None,
) -> Opened:
    """Find, load and place a model.

    device: see `indexer.base.devices`. threads: of the CPU, default all cores. streams: batches that they
    work on
    at the same time, default one each. reopen: (device) -> what opens the same on that device, in another
    process; without it, further GPUs are left alone.
    Raises `InputError` if the model cannot be had or read, `UsageError` for a device that is not there.
    """
    folder = find_model(name, kind)
    sha256 = model_sha256(folder, kind.tower)
    gpus = cuda_devices(device)
    if not gpus:
        from retriever.models.openvino_engine import open_on_cpu

        threads = threads or os.cpu_count() or 1
        streams = min(streams or threads, threads)
        precision = kind.cpu_precision if precision == "auto" else precision
        facts, forward = open_on_cpu(kind, folder, name, sha256, precision, threads, streams)
        return Opened(name, sha256, facts, forward, Parallel(batches=streams))
    whole, facts = kind.load(folder, name)
    opened = Opened(name, sha256, facts, torch_forward(whole, facts, gpus[0], precision), on_gpu(len(gpus)))
    if reopen is None:
        return opened
    return replace(opened, parallel=replace(opened.parallel, devices=[reopen(gpu) for gpu in gpus[1:]]))


def torch_forward(whole: Whole, facts: ModelFacts, device: str, precision: Precision) -> Forward:
    """A loaded model in torch on a device; bfloat16 where a GPU has it, unless told otherwise."""
    import torch

    from retriever.models.torch_engine import TorchForward

    if precision == "auto":
        has_bfloat16 = device != "cpu" and torch.cuda.get_device_capability(device) >= (8, 0)
        precision = "bfloat16" if has_bfloat16 else "float32"
    ids = open_tokenizer(facts).encode(" ".join(map(str, range(facts.max_tokens)))).ids
    probe = [ids[: len(ids) // part] for part in (1, 2, 3, 7, 20)]
    return TorchForward(whole, device, precision, padded(probe, facts))


def on_gpu(gpus: int) -> Parallel:
    """What goes on at the same time beside a GPU: launching, waiting for results, and tokenising."""
    return Parallel(batches=3, tokenizers=min(max((os.cpu_count() or 1) // gpus - 2, 1), 16))
