"""A model in torch: on a GPU, or on a CPU as the reference for other backends.

If the model is one of transformers' BERT-like encoders, it computes no padding (`layers`). What follows its
layers stays in float32. The attention is chosen by trying: each is compared with the padded model on a few
sequences, and one that fails or differs is skipped; the last resort is padding. The choice is recorded in
`execution`.

Several threads prepare and launch batches one after another, on one CUDA stream (so that the same batch
always gives the same bits), while results come back on a second one: the GPU does not wait for Python.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.log import log_line
from linkseek.retriever.models.backends.conversions import Probe, refusal
from linkseek.retriever.models.backends.layers import (
    PACKINGS,
    PADDED,
    PackedTransformer,
    copied,
    join_products,
    layered,
)
from linkseek.retriever.models.checks.families import Way, way_of
from linkseek.retriever.models.facts import POOLED, Features, ModelFacts
from linkseek.retriever.models.library import first_line
from linkseek.retriever.models.torch_modes import SeeingRows


class ModuleChain(nn.Module):
    """A chain of sentence-transformers' modules as one function from token ids to rows of numbers."""

    def __init__(
        self,
        chain: Sequence[nn.Module],
        output: str,
        finish: nn.Module | None = None,
        *,
        width: int | None = None,
        probe: Probe | None = None,
    ) -> None:
        """output: the name of the chain's feature that is returned. finish: applied to it, in float32.

        width: how many of its first numbers are returned, by default all. probe: the library's own outputs,
        with which every backend is compared.
        """
        super().__init__()
        self.steps = nn.ModuleList(chain)
        self.output = output
        self.finish = finish or nn.Identity()
        self.width = width
        self.probe = probe

    @property
    def model_type(self) -> str:
        """The type of its transformer, such as "bert"; empty if it has none."""
        models = (module for module in self.modules() if isinstance(module, PreTrainedModel))
        return next((str(model.config.model_type) for model in models), "")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        pooled: Tensor | None = None,
    ) -> Tensor:
        """int64 [B, L] each -> float32 [B, d]."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            features["token_type_ids"] = token_type_ids
        for module in self.steps:
            if pooled is not None:
                features[POOLED] = pooled  # the library's modules pass on only what they know
            features = module(features)
        rows: Tensor = self.finish(features[self.output].float())
        return rows if self.width is None else rows[:, : self.width]


COMPILE = "LINKSEEK_COMPILE"
"""The environment variable that has parts of the layers compiled: other bits, and a minute at the start."""
_FUSED = ("Intermediate", "Output")  # BertIntermediate, BertSelfOutput, BertOutput, ...
_CLOSE = 0.05  # relative, between two computations in bfloat16: 1 - cosine of about 1e-3


class TorchForward:
    """A model on a device as a function of padded token ids. May be called from any thread.

    A batch that does not fit the GPU's memory is computed again in two halves, and so are others of its size:
    their results may differ from the undivided batch's (1 - cosine within 1e-3), so `execution` counts
    them.
    """

    def __init__(self, chain: ModuleChain, device: str, precision: str, probe: Features | None) -> None:
        """precision: float32 or bfloat16. probe: a batch of several lengths, to try attentions with; without
        one, batches are padded.
        """
        self._device = torch.device(device)
        self._cuda = self._device.type == "cuda"
        self._lock = threading.Lock()
        self._max_tokens = sys.maxsize  # padded tokens that fit
        self._halved = 0
        if self._cuda:
            self._results = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._chain = chain.eval().to(self._device)
        self._packed: PackedTransformer | None = None
        attention = self._prepare(getattr(torch, precision), probe)
        self._facts: dict[str, Any] = {
            "backend": f"torch {torch.__version__}",
            "device": torch.cuda.get_device_name(self._device) if self._cuda else "cpu",
            "precision": precision,
            "attention": attention,
        }
        if attention != PADDED and os.environ.get(COMPILE):
            self._facts["compiled"] = True

    @property
    def execution(self) -> dict[str, Any]:
        """Everything that the last bits depend on."""
        return self._facts | ({"halved_batches": self._halved} if self._halved else {})

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] -> float32 [B, d]. Raises `MachineError` if one text alone does not fit."""
        if features["input_ids"].size <= self._max_tokens:
            try:
                return self._run(features)
            except RuntimeError as error:
                if not _is_out_of_memory(error):
                    raise
        return self._halves(features)  # not in the handler: the error still references tensors on the GPU

    def _run(self, features: Features) -> NDArray[np.float32]:
        on_device = torch.cuda.device(self._device) if self._cuda else nullcontext()
        with torch.inference_mode(), on_device:
            moved = {name: self._move(array) for name, array in features.items()}  # [B, L] each
            packing = None
            if self._packed is not None:
                packing = self._packed.pack(torch.from_numpy(features["attention_mask"]))
                packing = copied(packing, self._device)
            with self._lock:
                if self._packed is not None:
                    self._packed.given = packing
                with SeeingRows() if packing is None else nullcontext():
                    fetch = self._fetch(self._chain(**moved))  # [B, d]
        return fetch()

    def _move(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._cuda else tensor

    def _fetch(self, rows: Tensor) -> Callable[[], NDArray[np.float32]]:
        """Begins to copy a result; the returned function waits for it."""
        if not self._cuda:
            return rows.numpy
        self._results.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._results):
            host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            host.copy_(rows, non_blocking=True)
            rows.record_stream(self._results)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._results)

        def wait() -> NDArray[np.float32]:
            done.synchronize()
            return host.numpy()

        return wait

    def _halves(self, features: Features) -> NDArray[np.float32]:
        count, length = features["input_ids"].shape
        if count == 1:
            raise MachineError(
                f"the memory of {self._facts['device']} is too small for one text of {length:,} tokens",
                "End other programs that use it, or choose --device cpu.",
            )
        with self._lock:
            if self._max_tokens == sys.maxsize:
                log_line(f"a batch of {count * length:,} tokens does not fit the GPU's memory and is halved")
            self._max_tokens = min(self._max_tokens, count * length // 2)
            self._halved += 1
        if self._cuda:
            torch.cuda.empty_cache()
        halves = (slice(0, count // 2), slice(count // 2, None))
        return np.concatenate([self({name: a[half] for name, a in features.items()}) for half in halves])

    def _prepare(self, precision: torch.dtype, probe: Features | None) -> str:
        """Lowers the precision and chooses an attention, whose name it returns."""
        base: Any = next(iter(layered(self._chain)), None)
        if base is None or probe is None:
            self._chain.to(precision)
            return PADDED
        reasons: list[str] = []
        expected = self._run(probe)  # [B, d], in float32
        base.embeddings.to(precision)
        base.encoder.to(precision)
        for name, pack in PACKINGS.items():
            self._packed = PackedTransformer(base, pack)
            self._packed.pool_packed(*self._chain.steps[1:2])
            reason = self._difference(probe, expected)
            if not reason:
                join_products(base)
                if os.environ.get(COMPILE):
                    self._compile(base, probe, expected)
                if self._cuda and reasons:
                    log_line(f"attention is {name} ({'; '.join(reasons)})")
                return name
            self._packed.undo()
            reasons.append(f"{name}: {reason}")
        self._packed = None
        self._chain.to(precision)
        log_line(f"attention is {PADDED} ({'; '.join(reasons)})")
        return PADDED

    def _compile(self, base: nn.Module, probe: Features, expected: NDArray[np.float32]) -> None:
        """Fuses bias and GELU, and sums and norms, by torch.compile."""
        for module in base.modules():
            if type(module).__name__.endswith(_FUSED):
                module.compile(dynamic=True)
        if reason := self._difference(probe, expected):
            raise MachineError(f"torch.compile does not work here ({reason})", f"Unset {COMPILE}.")

    def _difference(self, probe: Features, expected: NDArray[np.float32]) -> str:
        """The reason why the current attention cannot be used; empty if it can."""
        try:
            differs = float(np.linalg.norm(self._run(probe) - expected) / np.linalg.norm(expected))
        except Exception as error:  # torch raises anything for a kernel without this device or type
            return first_line(error)
        return "" if differs <= _CLOSE else f"differs by {differs:.2g}"


class OneByOne:
    """A model whose numbers depend on the padding of a batch, or that reads no batches: text by text."""

    def __init__(self, forward: TorchForward) -> None:
        self._forward = forward
        self.execution: dict[str, Any] = forward.execution | {"attention": "one text at a time"}

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] -> float32 [B, d]."""
        lengths = features["attention_mask"].sum(axis=1)  # [B]
        rows = [
            self._forward({name: array[n : n + 1, : max(length, 1)] for name, array in features.items()})
            for n, length in enumerate(lengths.tolist())
        ]
        if rows[0].ndim > 2:  # of tokens, [1, L, d]
            longest = features["attention_mask"].shape[1]
            rows = [np.pad(row, ((0, 0), (0, longest - row.shape[1]), (0, 0))) for row in rows]
        return np.concatenate(rows)


def checked_in_torch(
    chain: ModuleChain, facts: ModelFacts, device: str, name: str
) -> TorchForward | OneByOne:
    """A model in float32, in padded batches if its numbers are then the library's, else text by text.

    Raises `InputError` if they are the library's in neither way.
    """
    padded = TorchForward(chain, device, "float32", None)
    ways: list[TorchForward | OneByOne] = [padded, OneByOne(padded)]
    if way_of(chain.model_type, scores=facts.dimension == 1) is Way.ALONE:
        del ways[0]
    for forward in ways:
        difference = chain.probe.difference(forward, facts, "float32") if chain.probe else ""
        if not difference:
            return forward
    raise refusal(name, difference)


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)
