"""The life of a training run, from settings to a published folder: open, resume, publish.

FOLDER.linkseek-training/    while it lasts: data as tables, checkpoints, the log; locked by the run
FOLDER/                      the model, its card, its settings and its log; published atomically
"""

from __future__ import annotations

import atexit
import logging
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs

from linkseek.indexer.files.sharing import share
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.settings import Settings, read_settings, settings_text
from linkseek.indexer.store.artifacts import next_to
from linkseek.indexer.store.outputs import clear_leftovers, locked
from linkseek.retriever.models.backends.openvino_engine import cpu_multiplies_bfloat16
from linkseek.retriever.models.library import quiet
from linkseek.retriever.training.checkpoints import Fingerprint
from linkseek.retriever.training.config import OutputSettings, TrainingSettings
from linkseek.retriever.training.samples.sample_table import Batches

SETTINGS = "training.toml"
"""Next to a finished model: the settings that it was made with, all of them."""

LOG = "log.jsonl"

_one_at_a_time = threading.RLock()
"""Trainings of a process draw from one generator: at the same time they would not end with the same bits."""


@dataclass(frozen=True)
class Run:
    """A run under way. folder: where the model goes. work: where its files lie meanwhile."""

    accelerator: Accelerator
    folder: Path
    work: Path
    bfloat16: bool

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return self.work / "checkpoints"

    def batches(self, sources: Mapping[str, Any], batch: int, seed: int) -> Batches:
        """This process's part of the batches; see `Batches`."""
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        return Batches(sources, batch, seed, process=process, processes=processes)

    def facts(self, own: Mapping[str, Any], base_sha256: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """The table of a card: own facts, facts of every run, and its result."""
        return {
            **own,
            "SHA-256 of the base": f"`{base_sha256}`",
            "processes": self.accelerator.num_processes,
            "precision": "bfloat16" if self.bfloat16 else "float32",
            **result,
        }

    def publish(
        self, settings: Settings, save: Callable[[Path], Any], steps: int, card: str | None = None
    ) -> None:
        """Publish the files of `save`, the card, the settings and the log in the folder, atomically."""
        finished = self.work / "model"
        shutil.rmtree(finished, ignore_errors=True)
        with quiet():
            save(finished)
        if card is not None:
            (finished / "README.md").write_text(card, "utf-8", newline="\n")
        (finished / SETTINGS).write_text(settings_text(settings), "utf-8", newline="\n")
        shutil.copyfile(self.work / LOG, finished / LOG)
        share(finished)
        finished.rename(self.folder)
        print(f"{self.folder}: trained for {steps:,} steps", file=sys.stderr)


def is_finished(settings: Settings, folder: Path) -> bool:
    """Whether the folder contains a model with these settings; if so, says it on stderr.

    What a run that was killed after it published the model has left is removed. Raises `UsageError` if the
    folder contains something else.
    """
    if not folder.exists():
        return False
    made_with, made = folder / SETTINGS, None
    with suppress(UsageError, InputError):
        made = read_settings(type(settings), made_with)
    if made is None or settings_text(made) != settings_text(settings):
        fault = "has other settings" if made_with.is_file() else "is not a model made by a training"
        raise UsageError(
            f"{folder} exists already, and {fault}",
            "Remove it, or choose another output.folder (--set output.folder=DIR).",
        )
    clear_leftovers(folder, _work_folder(folder))
    print(f"{folder} is finished; remove it to train it again", file=sys.stderr)
    return True


def _work_folder(folder: Path) -> Path:
    return next_to(folder, "training")


@contextmanager
def open_run(training: TrainingSettings, output: OutputSettings) -> Iterator[Run]:
    """A run with its work folder, which is removed after a success.

    Raises `BusyError` if another run has the same output folder.
    """
    work = _work_folder(output.folder)
    on_cpu = training.device == "cpu" or not torch.cuda.is_available()
    for name in ("accelerate", "peft"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _one_at_a_time, quiet(), ExitStack() as stack:
        accelerator = Accelerator(
            cpu=on_cpu,
            mixed_precision="no",
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
        if accelerator.is_main_process:
            stack.enter_context(locked(output.folder))
        work.mkdir(parents=True, exist_ok=True)
        yield Run(accelerator, output.folder, work, _in_bfloat16(training.precision, on_cpu))
        accelerator.wait_for_everyone()  # another process may still read its checkpoint
        if accelerator.is_main_process:
            shutil.rmtree(work)
        if accelerator.num_processes > 1:
            atexit.register(_leave_group)


def _in_bfloat16(precision: Precision, on_cpu: bool) -> bool:
    if on_cpu and precision == "bfloat16" and not cpu_multiplies_bfloat16():
        log_line("training in float32: this processor has no instructions for bfloat16")
        return False
    return precision == "bfloat16" or (precision == "auto" and not on_cpu and torch.cuda.is_bf16_supported())


def _leave_group() -> None:
    # Threads of the group that outlive the interpreter end a process with an error now and then.
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def fingerprint(settings: Settings, run: Run, **contents: Any) -> Fingerprint:
    """Everything that decides the outcome of a run: settings, and hashes instead of paths.

    contents: the hashes, and anything else that counts.
    """
    values = without_paths(settings)
    values["output"] = {"checkpoint_steps": values["output"]["checkpoint_steps"]}
    values["model"].pop("base", None)
    return values | contents | {"processes": run.accelerator.num_processes}


def without_paths(settings: Settings) -> dict[str, Any]:
    """Settings as JSON values, without the paths among them."""
    values = settings.model_dump(mode="json")
    for name, value in settings:
        if isinstance(value, Settings):
            values[name] = without_paths(value)
        elif isinstance(value, Path) or (isinstance(value, list) and value and isinstance(value[0], Path)):
            del values[name]
    return values


def existing(paths: Sequence[Path]) -> list[Path]:
    """The same paths. Raises `InputError` naming the first one without a file."""
    for path in paths:
        if not path.is_file():
            problem = "a folder or a pipe, not a file" if path.exists() else "no such file"
            hint = "Check the paths of [data] and [dev]. A preset's header has the commands for its files."
            raise InputError(f"{path}: {problem}", hint)
    return list(paths)
