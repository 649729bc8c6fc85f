"""The trainers: the libraries' loops, with checkpoints that can be trusted and errors that say why.

What `Resumable` changes of the transformers library's Trainer: batches (`retriever.training.data`),
checkpoints (`retriever.training.checkpoints`), and what happens on a loss that is no number and on too
little memory. Gradient steps, schedule, precision and processes are the library's.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel
from transformers.trainer_callback import PrinterCallback

from indexer.base.errors import InputError, MachineError
from retriever.models.locations import PASSAGES
from retriever.models.towers import has_two_towers, tower
from retriever.training import checkpoints
from retriever.training.checkpoints import Fingerprint
from retriever.training.config import OutputSettings, TrainingSettings
from retriever.training.data import Batches
from retriever.training.log import Log

_KEPT = 2  # the newest, and the one before in case that it is cut off


class Resumable:
    """A mixin for the transformers library's Trainer; stands before it among the bases.

    rows: what can be read by row number. fingerprint: what the run is started with; a checkpoint of
    another one is refused. mini_batch_setting: the setting that an error about memory names.
    """

    args: Any
    state: Any
    model: Any
    model_wrapped: Any
    optimizer: Any
    lr_scheduler: Any
    data_collator: Any
    callback_handler: Any

    rows: Any
    batches: Batches
    fingerprint: Fingerprint
    mini_batch_setting = "training.mini_batch"

    def prepare(self, rows: Any, batches: Batches, fingerprint: Fingerprint, log: Log) -> None:
        """Set what the library's trainer has no argument for; call it before `train`."""
        self.rows, self.batches, self.fingerprint, self._told = rows, batches, fingerprint, log
        self.remove_callback(PrinterCallback)  # type: ignore[attr-defined]
        self.add_callback(log)  # type: ignore[attr-defined]
        if self.args.device.type == "cpu":
            keep_freed_memory()
            if self.args.bf16:
                _attend_eagerly(self.model)

    @property
    def log_path(self) -> Path:
        """The file of the log."""
        return self._told.path

    def train_to_best(self) -> int:
        """Train, or go on, to the end; then take the best checkpoint's weights and return its step."""
        try:
            self.resume_or_start()
        finally:
            self._told.close()
        return self.load_best()

    @property
    def checkpoint_folder(self) -> Path:
        """Where checkpoints lie."""
        return Path(self.args.output_dir) / "checkpoints"

    def resume_or_start(self) -> None:
        """Train to the end, from the newest checkpoint that is whole if there is one."""
        found = checkpoints.newest_whole(self.checkpoint_folder, self.fingerprint)
        self.train(resume_from_checkpoint=str(found) if found else None)  # type: ignore[attr-defined]

    def load_best(self) -> int:
        """Take the weights of the best checkpoint if a dev measure chose one; returns its step."""
        step = self.state.best_global_step or self.state.global_step
        if step != self.state.global_step:
            checkpoints.load_weights(self.model, checkpoints.checkpoint_path(self.checkpoint_folder, step))
        return int(step)

    # --- batches ---

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches as `Batches` has them, which are this process's part already."""
        return DataLoader(self.rows, batch_sampler=self.batches, collate_fn=self.data_collator)

    def _run_epoch(self, *arguments: Any, epoch: int, **keywords: Any) -> None:
        # The library does not reach a sampler below its own wrappers in an epoch that it resumes.
        self.batches.epoch = epoch
        if hasattr(self.data_collator, "epoch"):
            self.data_collator.epoch = epoch
        super()._run_epoch(*arguments, epoch=epoch, **keywords)  # type: ignore[misc]

    # --- a step ---

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *rest: Any, **keywords: Any) -> Any:
        """The loss of one batch. Raises `InputError` naming its pairs if that is no number."""
        places = inputs.pop("places", [])
        loss = super().compute_loss(model, inputs, *rest, **keywords)  # type: ignore[misc]
        value = loss[0] if isinstance(loss, tuple) else loss
        if not torch.isfinite(value):
            step = self.state.global_step + 1
            raise InputError(
                f"the loss of step {step:,} is {value.item()}; its batch: {'; '.join(places)}",
                "Look at these texts; otherwise lower training.learning_rate, or set training.precision "
                '= "float32". The checkpoints before this step are kept.',
            )
        return loss

    def training_step(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
        """One step. Raises `MachineError` naming the setting that helps if memory is too small."""
        with too_little_memory(self.mini_batch_setting):
            loss: torch.Tensor = super().training_step(*arguments, **keywords)  # type: ignore[misc]
        return loss

    # --- checkpoints: the places where the library reads and writes its own ---

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        target = checkpoints.checkpoint_path(self.checkpoint_folder, self.state.global_step)
        temporary = target.with_name(target.name + ".tmp")
        if self.args.should_save:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        self._wait()
        checkpoints.save_random(temporary, self.args.process_index)
        if self.args.should_save:
            weights = checkpoints.trained_weights(self.model)
            checkpoints.save_tensors(temporary / "weights.safetensors", weights)
            checkpoints.save_progress(temporary, self.optimizer, self.lr_scheduler)
            self.state.save_to_json(str(temporary / "trainer_state.json"))
        self._wait()
        if self.args.should_save:
            checkpoints.publish(temporary, target, self.fingerprint)
            checkpoints.remove_old(self.checkpoint_folder, _KEPT, self.state.best_global_step)
        self._wait()

    def _wait(self) -> None:
        if self.args.world_size > 1:
            torch.distributed.barrier()

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        checkpoints.load_weights(self.model, Path(checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            checkpoints.load_progress(Path(checkpoint), self.optimizer, self.lr_scheduler)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            checkpoints.load_random(Path(checkpoint), self.args.process_index)


def _attend_eagerly(model: nn.Module) -> None:
    """Attention as plain products: in bfloat16 on a CPU, 1.2 to 2 times the speed of torch's fused one."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.set_attn_implementation("eager")


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt, in glibc's malloc.h


def keep_freed_memory() -> None:
    """Have this process keep what it frees for its next allocations; where libc is not glibc, nothing.

    By default glibc returns every large block to the system, which clears it anew for each tensor of each
    step: on two cores, two fifths of the time of a step of MiniLM. Memory in use stays at its highest.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, -1)


class too_little_memory:  # noqa: N801
    """A context in which torch's many ways to run out of memory are one `MachineError`."""

    def __init__(self, setting: str) -> None:
        self._setting = setting

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        lacking = isinstance(error, MemoryError | torch.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "not enough memory" in str(error)
        )
        if lacking:
            raise MachineError(
                f"too little memory for a step ({str(error).splitlines()[0][:120]})",
                f"Set {self._setting} lower: gradients stay exact, and the batch as large as it is. "
                "The same command goes on from the last checkpoint.",
            ) from None


class PairTrainer(Resumable, SentenceTransformerTrainer):
    """Trains a bi-encoder on pairs with `InBatchLoss`."""

    query_only = False
    """Whether the passage tower is left as it is; it then also reads without dropout."""

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *rest: Any, **keywords: Any) -> Any:
        """The loss of one batch."""
        if self.query_only and has_two_towers(self.model):
            tower(self.model, PASSAGES).eval()
        return super().compute_loss(model, inputs, *rest, **keywords)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """The card is ours (`retriever.training.card`)."""


def library_arguments(
    kind: Callable[..., Any],
    folder: Path,
    training: TrainingSettings,
    output: OutputSettings,
    *,
    has_dev: bool = False,
    **more: Any,
) -> Any:
    """The library's arguments: those that a run sets, and those that keep it quiet and exact.

    kind: their class. folder: where checkpoints go.
    """
    cpu = training.device == "cpu" or not torch.cuda.is_available()
    strategy = "steps" if output.checkpoint_steps else "epoch"
    automatic = training.precision == "auto" and not cpu and torch.cuda.is_bf16_supported()
    return kind(
        output_dir=str(folder),
        per_device_train_batch_size=max(training.batch // _processes(), 1),
        num_train_epochs=training.epochs,
        max_steps=training.steps or -1,
        learning_rate=training.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=training.warmup,
        optim="adamw_torch_fused",
        adam_epsilon=training.adam_epsilon,
        weight_decay=training.weight_decay,
        max_grad_norm=training.clip,
        seed=training.seed,
        bf16=automatic or training.precision == "bfloat16",
        use_cpu=cpu,
        ddp_backend="gloo" if cpu and _processes() > 1 else None,
        ddp_find_unused_parameters=True,
        logging_strategy="steps",
        logging_steps=output.log_steps,
        logging_nan_inf_filter=False,
        save_strategy=strategy,
        save_steps=output.checkpoint_steps or 500,
        eval_strategy=strategy if has_dev else "no",
        eval_steps=output.checkpoint_steps,
        report_to=output.report_to or "none",
        disable_tqdm=True,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        **more,
    )


def _processes() -> int:
    """As accelerate and torchrun say it; the library's arguments know it only once they are made."""
    return int(os.environ.get("WORLD_SIZE", "1"))
