"""The loop of every training: steps, schedule, precision, clipping, log, dev measure and checkpoints.

A plain loop on accelerate, which places the model and adds up the gradients of several processes. The
learning rate rises linearly and falls linearly to 0. What differs between trainings is a `Task`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, wraps
from itertools import islice
from math import ceil, inf, isfinite
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list, send_to_device, set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.program.errors import InputError, MachineError
from linkseek.retriever.models.backends.layers import Pack, pack_layers, with_packings
from linkseek.retriever.models.torch_modes import QuickOnCpu
from linkseek.retriever.training import checkpoints
from linkseek.retriever.training.checkpoints import Fingerprint, State
from linkseek.retriever.training.config import OutputSettings, TrainingSettings
from linkseek.retriever.training.lifecycle import LOG, Run
from linkseek.retriever.training.log import MASKED, NEGATIVES, Log
from linkseek.retriever.training.optimizers import clip_gradients, make_optimizer
from linkseek.retriever.training.samples.sample_table import Batches

Inputs = dict[str, Any]

_VOID_STEPS = 50

_UNMEASURED_STEPS = 50
"""Between two checkpoints that nothing is chosen by: epochs of few steps would mostly write files."""


@dataclass(frozen=True)
class DevMeasure:
    """How the best checkpoint is chosen. measure: called in all processes; the first one's result counts."""

    name: str
    measure: Callable[[], float]
    higher_is_better: bool


@dataclass(frozen=True)
class Task:
    """The parts of a training that the loop needs: a model, its data and its loss.

    samples: `sample_table.Sample` by row. unit: the word for a sample. collate: (samples, epoch) -> the
    inputs of a step. loss: (model, inputs) -> losses [] by name, the mean over this process's samples; "loss"
    is the one to minimise, all are logged. needs_contrast: whether a training is stopped if its `NEGATIVES`
    stay 0. stage: its name, if there are several.
    """

    model: nn.Module
    samples: Any
    batches: Batches
    unit: str
    collate: Callable[[Sequence[Any], int], Inputs]
    loss: Callable[[nn.Module, Inputs], Mapping[str, Tensor]]
    dev: DevMeasure | None = None
    needs_contrast: bool = True
    stage: str = ""
    mini_batch_setting: str = "training.mini_batch"


def train_steps(
    task: Task, run: Run, training: TrainingSettings, output: OutputSettings, fingerprint: Fingerprint
) -> State:
    """Train to the end, from the newest valid checkpoint if there is one, and take the best weights.

    The best weights have the best dev measure; without one, they are the last. fingerprint: all that decides
    the outcome; a checkpoint with another fingerprint is refused. Raises `InputError` for a loss or gradient
    that is not finite, a step later and before a checkpoint, and if no step had a contrast or gradient;
    `MachineError` if memory is short.
    """
    accelerator, folder = run.accelerator, run.checkpoints
    per_epoch = len(task.batches)
    steps = training.steps or training.epochs * per_epoch
    epochs = 1 if task.dev else ceil(_UNMEASURED_STEPS / per_epoch)
    interval = output.checkpoint_steps or per_epoch * epochs
    give_back = keep_freed_memory() if accelerator.device.type == "cpu" else None
    if run.bfloat16:
        _multiply_in_bfloat16(task.model, accelerator.device.type)
    pack = pack_layers(task.model, accelerator.device.type)
    resumed, state = checkpoints.newest_valid(folder, fingerprint), State()
    if resumed:
        checkpoints.load_weights(task.model, resumed)
    model, optimizer = accelerator.prepare(task.model, make_optimizer(task.model, training))
    schedule = get_linear_schedule_with_warmup(optimizer, ceil(training.warmup * steps), steps)
    if resumed:
        state = checkpoints.load_state(resumed, optimizer, schedule)
    set_seed(training.seed)
    log: AbstractContextManager[Log | None] = nullcontext()
    if accelerator.is_main_process:
        batch = task.batches.size
        log = Log(run.work / LOG, task.unit, batch, state.step, steps, per_epoch, task.stage).opened()
    sums: dict[str, Tensor] = {}
    checks, logged = _Checks(state), state.step
    with log as lines:
        for places, inputs in _inputs(task, state.step, steps, resumed, run, pack):
            losses, norm = _gradients(task, model, inputs, run, training.clip)
            checks.add(state.step + 1, places, losses["loss"], norm)
            optimizer.step()
            learning_rate = schedule.get_last_lr()[0]
            schedule.step()
            optimizer.zero_grad()
            state.step += 1
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0) + loss.detach()
            if lines:
                lines.advance()
            is_saved = state.step % interval == 0 or state.step == steps
            if is_saved or state.step % output.log_steps == 0:
                checks.finish()
                count = state.step - logged
                means = {name: accelerator.reduce(s, "mean").item() / count for name, s in sums.items()}
                means |= {"learning_rate": learning_rate, "grad_norm": norm.item()}
                sums, logged = {}, state.step
                if lines:
                    lines.write_losses(state.step, means)
                enough = min(per_epoch, _VOID_STEPS)
                if task.needs_contrast:
                    _check_contrast(means, state, enough, steps)
                _check_gradient(means, state, enough, steps)
                if give_back:
                    give_back()
            if is_saved and task.dev:
                value = _measure(task.dev, state)
                if lines:
                    lines.write_measure(state.step, task.dev.name, value)
            if is_saved:
                checkpoints.save(folder, accelerator, task.model, state, optimizer, schedule, fingerprint)
    accelerator.free_memory()
    if state.best_step and state.best_step != state.step:
        checkpoints.load_weights(task.model, checkpoints.checkpoint_path(folder, state.best_step))
    return state


def _gradients(
    task: Task, model: nn.Module, inputs: Inputs, run: Run, clip: float
) -> tuple[Mapping[str, Tensor], Tensor]:
    """The losses of a step, [] by name, and the length of its gradient before clipping, []."""
    device = run.accelerator.device
    # Autocast keeps its copies of the weights, from one forward pass to the next, until the outermost ends.
    with too_little_memory(task.mini_batch_setting), torch.autocast(device.type, enabled=False):
        model.train()
        with QuickOnCpu() if device.type == "cpu" else nullcontext():
            losses = task.loss(model, send_to_device(inputs, device, non_blocking=True))
        run.accelerator.backward(losses["loss"])
        norm = clip_gradients(model.parameters(), clip or inf)
    return losses, norm


class _Checks:
    """Looks at the loss and the gradient's length of a step when the next one is under way.

    So a GPU, which computes while Python runs ahead, never waits.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._last: tuple[int, Sequence[str], Tensor, torch.cuda.Event | None] | None = None

    def add(self, step: int, places: Sequence[str], loss: Tensor, norm: Tensor) -> None:
        """Begin with a step, and finish the one before. loss, norm: []."""
        self.finish()
        values = torch.stack([loss.detach().float(), norm.float()]).to("cpu", non_blocking=True)
        copied = None
        if loss.is_cuda:
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record()
        self._last = step, places, values, copied

    def finish(self) -> None:
        """Raises `InputError` if a value of the last step is not finite."""
        if self._last is None:
            return
        step, places, values, copied = self._last
        self._last = None
        if copied:
            copied.synchronize()
        for name, value in zip(("loss", "gradient's length"), values.tolist(), strict=True):
            if not isfinite(value):
                raise InputError(
                    f"the {name} of step {step:,} is {value}; its batch: {'; '.join(places)}",
                    "Look at these texts; otherwise lower training.learning_rate, or set training.precision "
                    '= "float32". The checkpoints before this step are kept.',
                )
        self._state.has_gradient |= bool((values != 0).all())


def _inputs(
    task: Task, step: int, steps: int, resumed: Path | None, run: Run, pack: Pack | None
) -> Iterator[tuple[list[str], Inputs]]:
    """The places and inputs of each step from `step` on; a checkpoint's random states are restored first.

    pack: of masks, done here for a GPU, which would have to be asked for them later.
    """
    process, workers = run.accelerator.process_index, _workers(run.accelerator.device)

    def collate(samples: Sequence[Any]) -> tuple[list[str], Inputs]:
        inputs = task.collate(samples, epoch)
        if pack and run.accelerator.device.type != "cpu":
            inputs = with_packings(inputs, pack)
        return [sample.place for sample in samples], inputs

    while step < steps:
        epoch, done = divmod(step, len(task.batches))
        if resumed and not done:
            checkpoints.load_random(resumed, process)
        batches = islice(task.batches.epoch(epoch), done, done + steps - step)
        loader = iter(
            DataLoader(
                task.samples,
                batch_sampler=batches,
                collate_fn=collate,
                num_workers=workers,
                pin_memory=run.accelerator.device.type == "cuda",
                worker_init_fn=_without_threads,
                multiprocessing_context="fork" if workers else None,  # collate is of this function alone
            )
        )
        # A loader draws from torch's generator when it starts: within an epoch, before the checkpoint.
        if resumed and done:
            checkpoints.load_random(resumed, process)
        resumed = None
        for inputs in loader:
            step += 1
            yield inputs


def _workers(device: torch.device) -> int:
    """How many processes make the inputs ahead of the model; 0: this one, between its steps."""
    is_ahead = device.type != "cpu" and "fork" in get_all_start_methods()
    return max(usable_cores() - 2, 1) if is_ahead else 0


def _without_threads(worker: int) -> None:
    """Limit a process that makes inputs to one tokenizer thread: several of them share the cores."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _check_contrast(means: Mapping[str, float], state: State, enough: int, steps: int) -> None:
    """Raises `InputError` if no step so far had a query with a text to compare its relevant one with.

    Such a training learns nothing, though its loss is 0. means: since the last call. enough: the steps after
    which this is certain: an epoch, or more than a few odd batches.
    """
    state.has_contrast |= means.get(NEGATIVES, 1) > 0
    if not state.has_contrast and (state.step >= enough or state.step == steps):
        masked = f", {means[MASKED]:,.1f} passages a query count as relevant" if means.get(MASKED) else ""
        raise InputError(
            f"after {state.step:,} steps no query has had a text that is not relevant{masked}: "
            "there is nothing to learn from",
            "Look at the ids (passage_id) and texts of the passages: are they all the same? Otherwise raise "
            "training.batch, or give the data negatives.",
        )


def _check_gradient(means: Mapping[str, float], state: State, enough: int, steps: int) -> None:
    """Raises `InputError` if the loss or the gradient of every step so far was exactly 0.

    Such a training changes nothing. Single steps of a loss with a margin may well be 0.
    """
    if not state.has_gradient and (state.step >= enough or state.step == steps):
        raise InputError(
            f"the loss or its gradient was exactly 0 in all of {state.step:,} steps (the last: loss "
            f"{means['loss']:g}, gradient's length {means['grad_norm']:g}): the model has learned nothing",
            "Look at the data: is every text the same, or every label? Are all weights fixed?",
        )


def _measure(dev: DevMeasure, state: State) -> float:
    """The dev measure, the same in all processes; the state keeps the best one."""
    value: float = broadcast_object_list([dev.measure()])[0]
    if state.best is None or (value > state.best if dev.higher_is_better else value < state.best):
        state.best, state.best_step = value, state.step
    return value


def _multiply_in_bfloat16(model: nn.Module, device: str) -> None:
    """Let the forward pass multiply matrices in bfloat16; losses and gradients of weights stay float32.

    On a CPU attention is then computed as plain products, 1.2 to 2 times as fast as by torch's fused kernel.
    """
    if device == "cpu":
        for module in model.modules():
            if isinstance(module, PreTrainedModel):
                module.set_attn_implementation("eager")
    forward = model.forward

    @wraps(forward)
    def cast(*arguments: Any, **keywords: Any) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return forward(*arguments, **keywords)

    model.forward = cast


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt, in glibc's malloc.h


def keep_freed_memory() -> Callable[[], object]:
    """Have this process keep the memory that it frees for its next allocations; without glibc, nothing.

    By default glibc returns every large block to the system, which clears it anew for each tensor of each
    step: on two cores, two fifths of the time of a step of MiniLM. Returns a function that gives back what is
    free: tensors of many sizes leave gaps, which grow from step to step.
    """
    if os.name == "posix":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
            libc.mallopt(_MMAP_MAX, 0)
            libc.mallopt(_TRIM_THRESHOLD, -1)
            return partial(libc.malloc_trim, 0)
    return lambda: None


@contextmanager
def too_little_memory(setting: str) -> Iterator[None]:
    """A context in which torch's many ways to run out of memory are one `MachineError`.

    setting: the one that the error says to lower.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not is_memory and "not enough memory" not in str(error):
            raise
        reason = str(error).partition("\n")[0][:120]
        raise MachineError(
            f"too little memory for a step ({reason})",
            f"Set a lower {setting}: gradients stay exact, and the batch keeps its size. "
            "The same command resumes from the last checkpoint.",
        ) from None
