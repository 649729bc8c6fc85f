"""Checkpoints: everything that a training run needs to resume as if it had never been interrupted.

    step-N/weights.safetensors      the weights that are trained
    step-N/optimizer.safetensors    its moments
    step-N/random-RANK.json         the states of all random generators of each process
    step-N/state.json               step, best step and measure, optimiser groups, schedule
    step-N/manifest.json            the hash of every file, and the fingerprint of the run

A checkpoint is published atomically. One that is damaged later (its hashes differ) is skipped for the one
before. Nothing is pickled.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import nn

from linkseek.indexer.program.errors import DamagedIndexError, UsageError
from linkseek.indexer.store.artifacts import read_json, temporary_path, write_json
from linkseek.indexer.store.manifest_files import inventory, read_part, verify_part, write_manifest
from linkseek.indexer.store.manifests import FORMAT_VERSION, PartManifest

Fingerprint = dict[str, Any]

_KEPT = 2  # checkpoints: the newest, and the one before in case of damage


@dataclass
class State:
    """Where a run is. best_step: 0 if there is no dev measure.

    has_contrast, has_gradient: whether any step had one.
    """

    step: int = 0
    best_step: int = 0
    best: float | None = None
    has_contrast: bool = False
    has_gradient: bool = False


def checkpoint_path(folder: Path, step: int) -> Path:
    """The folder of a step's checkpoint."""
    return folder / f"step-{step}"


def finished_checkpoints(folder: Path) -> list[Path]:
    """Published checkpoints, damaged or not, the newest first."""
    paths = [path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdecimal()]
    return sorted(paths, key=_step_of, reverse=True)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("step-"))


def save(
    folder: Path,
    accelerator: Accelerator,
    model: nn.Module,
    state: State,
    optimizer: Any,
    schedule: Any,
    fingerprint: Fingerprint,
) -> None:
    """Write a checkpoint, all processes together; of the older ones the last and the best are kept."""
    target = checkpoint_path(folder, state.step)
    temporary = temporary_path(target)
    if accelerator.is_main_process:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    accelerator.wait_for_everyone()
    _save_random(temporary, accelerator.process_index)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        _save_tensors(temporary / "weights.safetensors", trained_weights(model))
        _save_state(temporary, state, optimizer, schedule)
        manifest = PartManifest(
            format_version=FORMAT_VERSION, fingerprint=fingerprint, files=inventory(temporary)
        )
        write_manifest(temporary, manifest)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
        for checkpoint in finished_checkpoints(folder)[_KEPT:]:
            if _step_of(checkpoint) != state.best_step:
                shutil.rmtree(checkpoint, ignore_errors=True)
    accelerator.wait_for_everyone()


def newest_valid(folder: Path, fingerprint: Fingerprint) -> Path | None:
    """The newest undamaged checkpoint; damaged ones are removed with a line on stderr.

    Raises `UsageError` if it belongs to a run with other settings or data.
    """
    for checkpoint in finished_checkpoints(folder):
        try:
            verify_part(checkpoint)
            manifest = read_part(checkpoint, PartManifest)
        except DamagedIndexError as error:
            print(f"skipping a damaged checkpoint: {error.message}", file=sys.stderr)
            shutil.rmtree(checkpoint, ignore_errors=True)
            continue
        difference = _difference(fingerprint, manifest.to_json()["fingerprint"])
        if difference:
            raise UsageError(
                f"{folder} contains checkpoints of another run: {difference}",
                "Use the settings that it was started with, remove that folder, or choose another "
                "output.folder.",
            )
        return checkpoint
    return None


def _difference(ours: Fingerprint, theirs: Fingerprint, place: str = "") -> str:
    """The first value in which two fingerprints differ, in words; empty if they are equal."""
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            inner = _difference(mine, other, f"{place}{key}.")
            if inner:
                return inner
        elif mine != other:
            return f"{place}{key} was {other}, and is {mine}"
    return ""


def trained_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that are trained; shared ones once."""
    return {name: weights for name, weights in model.named_parameters() if weights.requires_grad}


def load_weights(model: nn.Module, checkpoint: Path, *, partly: bool = False) -> None:
    """Put a checkpoint's weights into its model. partly: they may be a part of those that are trained."""
    saved = load_file(checkpoint / "weights.safetensors")
    ours = trained_weights(model)
    if saved.keys() != ours.keys() and not (partly and saved.keys() <= ours.keys()):
        raise DamagedIndexError(
            f"{checkpoint}: its weights belong to another model", "Remove the folder and train again."
        )
    with torch.no_grad():
        for name, weights in saved.items():
            ours[name].copy_(weights)


def _save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _save_state(folder: Path, state: State, optimizer: Any, schedule: Any) -> None:
    own = optimizer.state_dict()
    moments = {f"{number}.{name}": v for number, entry in own["state"].items() for name, v in entry.items()}
    _save_tensors(folder / "optimizer.safetensors", moments)
    rest = {"groups": own["param_groups"], "schedule": schedule.state_dict()}
    write_json(folder / "state.json", asdict(state) | rest)


def load_state(folder: Path, optimizer: Any, schedule: Any) -> State:
    """Restore a checkpoint's optimiser and schedule; returns the state of the run."""
    stored = read_json(folder / "state.json")
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in load_file(folder / "optimizer.safetensors").items():
        number, _, key = name.partition(".")
        moments.setdefault(int(number), {})[key] = value
    groups = [group | {"betas": tuple(group["betas"])} for group in stored["groups"]]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    schedule.load_state_dict(stored["schedule"])
    return State(**{field.name: stored[field.name] for field in fields(State)})


def _save_random(folder: Path, process: int) -> None:
    numpy = np.random.get_state(legacy=False)
    states = {
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
        "torch": torch.get_rng_state().tolist(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().tolist()
    write_json(folder / f"random-{process}.json", states)


def load_random(folder: Path, process: int) -> None:
    """Restore the states of this process's generators of Python, NumPy and torch."""
    path = folder / f"random-{process}.json"
    if not path.is_file():
        raise DamagedIndexError(f"{path}: missing", "Resume with as many processes as before.")
    states = read_json(path)
    version, python, gauss = states["python"]
    random.setstate((version, tuple(python), gauss))
    np.random.set_state(states["numpy"])
    torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(states["cuda"], dtype=torch.uint8))
