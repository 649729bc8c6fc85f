"""A model in OpenVINO, on the CPU, by default on one stream a core.

Each core then works on a batch of its own that stays in its cache, and none waits for another: on two cores a
sixth faster than both on one batch. The bits of a batch do not depend on the other streams. A single question
is answered sooner by all cores together, on one stream.

What is converted is kept (`retriever.models.backends.conversions`).
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.machine.once import Once
from linkseek.indexer.program.errors import log_line, raise_of_machine
from linkseek.retriever.models.backends.conversions import converted, read_record, write_record
from linkseek.retriever.models.checks.families import Way, way_of
from linkseek.retriever.models.facts import Features, ModelFacts
from linkseek.retriever.models.library import LIBRARIES, first_line, quiet

if TYPE_CHECKING:
    from linkseek.retriever.models.backends.torch_engine import ModuleChain, OneByOne, TorchForward

_CONVERSION = 5  # to be raised whenever the same files are converted into another model
_CONVERTED = ("model.xml", "model.bin")


def _open_core() -> Any:
    import openvino

    # The first array made from a tensor initialises OpenVINO's binding, once. Two threads that do this at
    # the same time deadlock: one waits for the other's initialisation, which waits for the GIL.
    np.array(openvino.Tensor(openvino.Type.i64, openvino.Shape([1])).data)
    return openvino.Core()


_core = Once(_open_core)
"""OpenVINO, once for the process, whichever threads ask first.

It gives the thread that opens it a stack for signals, and frees that again when it is closed. If another
thread closes it, such as by garbage collection, the next signal, such as Ctrl-C, ends the process.
"""


def cpu_multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for it; without them it takes several times float32."""
    return "BF16" in _core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class OpenVinoForward:
    """A converted model as a function of padded token ids. May be called from any thread."""

    def __init__(self, converted: Any, precision: str, threads: int, streams: int) -> None:
        """precision: float32, bfloat16, or auto: bfloat16 where the processor multiplies it.

        Some models in bfloat16 get fewer streams, of two threads, and float32 where there is one: `execution`
        records it.
        """
        if precision == "auto":
            precision = "bfloat16" if cpu_multiplies_bfloat16() else "float32"
        if precision == "bfloat16" and _has_gated_layers(converted):
            cores = min(threads, usable_cores())
            streams = min(streams, max(cores // 2, 1))
            if cores < 2:
                precision = "float32"
        settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32",
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": str(streams),
        }
        compiled = _core().compile_model(converted, "CPU", settings)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams):
            self._requests.put(compiled.create_infer_request())
        self.execution: dict[str, Any] = {
            "backend": f"openvino {version('openvino')}",
            "device": "cpu",
            "precision": precision,
            "threads": threads,
            "streams": streams,
        }

    def __call__(self, features: Features) -> NDArray[np.float32]:
        """Arrays int64 [B, L] -> float32 [B, d]."""
        request = self._requests.get()
        try:
            return np.array(request.infer(features)[0])
        finally:
            self._requests.put(request)


def _has_gated_layers(converted: Any) -> bool:
    """Whether OpenVINO may compute layers such as Llama's, act(gate) * up, by its kernel for them.

    In bfloat16 that kernel divides by half the threads of a stream, rounded down: with one thread, the
    process ends.
    """
    for node in converted.get_ops():
        if node.get_type_name() == "Multiply":
            factors = {value.get_source_output().get_node().get_type_name() for value in node.inputs()}
            if factors & {"Swish", "Gelu"} and factors & {"MatMul", "VariadicSplit"}:
                return True
    return False


@dataclass(frozen=True)
class Conversion:
    """A model as it runs on a CPU, after it was compared with the library's.

    model: OpenVINO's; None if torch runs it. one_by_one: in torch, text by text. fault: the reason against
    OpenVINO, or against bfloat16, for people; empty if all is well.
    """

    facts: ModelFacts
    model: Any = None
    one_by_one: bool = False
    fault: str = ""


Load = Callable[[], "tuple[ModuleChain, ModelFacts]"]


def open_on_cpu(
    load: Load, key: str, name: str, precision: str, threads: int, streams: int
) -> tuple[ModelFacts, OpenVinoForward | TorchForward | OneByOne]:
    """A model's facts, and the model itself: from the cache, or loaded and converted, one model at a time.

    key: its name in the cache, which contains the hash of the model's files. name: for messages. Raises
    `InputError` if neither OpenVINO nor torch reproduces the library's outputs.
    """
    key = f"{key}-{_CONVERSION}-openvino-{version('openvino')}"
    conversion = converted(key, _read_conversion, partial(_checked, load, name), _write_conversion)
    if conversion.model is None:
        how = "one text at a time" if conversion.one_by_one else "in float32"
        log_line(f"{name}: run by torch, {how}, instead of OpenVINO ({conversion.fault})")
        with LIBRARIES:
            from linkseek.retriever.models.backends.torch_engine import OneByOne, TorchForward

            chain, facts = load()
            forward = TorchForward(chain, "cpu", "float32", None)
            return facts, OneByOne(forward) if conversion.one_by_one else forward
    if conversion.fault and precision == "auto":
        log_line(f"{name}: float32, since bfloat16 gives {conversion.fault}")
        precision = "float32"
    return conversion.facts, OpenVinoForward(conversion.model, precision, threads, streams)


def _checked(load: Load, name: str) -> Conversion:
    """Convert a model, and compare it with the library's; else compare torch's."""
    chain, facts = load()
    probe, fault = chain.probe, f"type {chain.model_type}"
    if way_of(chain.model_type, scores=facts.dimension == 1) is Way.OPENVINO:
        try:
            model = _convert(chain, facts)
            fault = probe.difference(_plain(model, "float32"), facts, "float32") if probe else ""
        except Exception as error:  # OpenVINO raises anything
            raise_of_machine(error)
            fault = first_line(error)
        if not fault:
            if probe and facts.dimension > 1 and cpu_multiplies_bfloat16():
                fault = probe.difference(_plain(model, "bfloat16"), facts, "bfloat16")
            return Conversion(facts, model, fault=fault)
        chain, facts = load()  # a tracer that fails may leave changes behind
    from linkseek.retriever.models.backends.torch_engine import OneByOne, checked_in_torch

    forward = checked_in_torch(chain, facts, "cpu", name)
    return Conversion(facts, one_by_one=isinstance(forward, OneByOne), fault=fault)


def _plain(model: Any, precision: str) -> OpenVinoForward:
    return OpenVinoForward(model, precision, usable_cores(), 1)


def _read_conversion(folder: Path) -> Conversion:
    facts, record = read_record(folder)
    model = _core().read_model(folder / "model.xml") if record["sha256"] else None
    return Conversion(facts, model, record["one_by_one"], record["fault"])


def _write_conversion(conversion: Conversion, folder: Path) -> None:
    import openvino

    if conversion.model is not None:
        openvino.save_model(conversion.model, folder / "model.xml", compress_to_fp16=False)
    files = _CONVERTED if conversion.model is not None else ()
    outcome = {"one_by_one": conversion.one_by_one, "fault": conversion.fault}
    write_record(folder, conversion.facts, files, **outcome)


def _convert(chain: ModuleChain, facts: ModelFacts) -> Any:
    import torch

    example = {name: torch.ones((2, 16), dtype=torch.int64) for name in facts.inputs}
    from linkseek.retriever.models.torch_modes import SeeingRows

    with quiet(), torch.no_grad(), SeeingRows():
        import openvino
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        # torch would trace twice and compare; the numbers are compared with the library's afterwards
        once = {"check_trace": False}
        decoder = TorchScriptPythonDecoder(chain.eval(), example_input=example, trace_kwargs=once)
        return openvino.convert_model(decoder, example_input=example)
