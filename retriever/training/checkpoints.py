"""Checkpoints: everything that a training run needs to go on as if it had never been interrupted.

    STEP/weights.safetensors      the weights that are trained
    STEP/optimizer.safetensors    its moments
    STEP/random-RANK.safetensors  the states of all random generators of each process
    STEP/state.json               optimiser groups, schedule
    STEP/trainer_state.json       step, epoch, best measure, log (the transformers library's)
    STEP/manifest.json            the hash of every file, and what the run was started with

A folder gets its name when it is whole. One that is damaged later (its hashes differ) is passed over for
the one before. Nothing is pickled.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from indexer.base.errors import DamagedIndexError, UsageError
from indexer.store.artifacts import (
    FORMAT_VERSION,
    MANIFEST,
    inventory,
    read_json,
    read_part,
    verify_part,
    write_json,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

Fingerprint = dict[str, Any]


def checkpoint_folders(folder: Path) -> list[Path]:
    """Finished checkpoints, whole or not, the newest first."""
    found = [path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdecimal()]
    return sorted(found, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("step-"))


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return folder / f"step-{step}"


def publish(temporary: Path, target: Path, fingerprint: Fingerprint) -> None:
    """Give a finished folder its manifest and its name."""
    files = inventory(temporary)
    write_json(
        temporary / MANIFEST,
        {"format_version": FORMAT_VERSION, "fingerprint": fingerprint, "files": files},
    )
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)


def newest_whole(folder: Path, fingerprint: Fingerprint) -> Path | None:
    """The newest checkpoint that is undamaged; says on stderr which ones were passed over.

    Raises `UsageError` if it belongs to a run that was started with something else.
    """
    for checkpoint in checkpoint_folders(folder):
        try:
            verify_part(checkpoint)
            manifest = read_part(checkpoint)
        except DamagedIndexError as error:
            print(f"passing over a damaged checkpoint: {error.message}", file=sys.stderr)
            shutil.rmtree(checkpoint, ignore_errors=True)
            continue
        other = _difference(fingerprint, manifest["fingerprint"])
        if other:
            raise UsageError(
                f"{folder} holds checkpoints of another run: {other}",
                "Give it the settings that it was started with, remove that folder, or choose another "
                "output.folder.",
            )
        return checkpoint
    return None


def _difference(ours: Fingerprint, theirs: Fingerprint, place: str = "") -> str:
    """The first value in which two differ, in words; empty if there is none."""
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            found = _difference(mine, other, f"{place}{key}.")
            if found:
                return found
        elif mine != other:
            return f"{place}{key} was {other}, and is {mine}"
    return ""


def remove_old(folder: Path, keep: int, best_step: int | None) -> None:
    """Remove all but the newest checkpoints and the best one."""
    for checkpoint in checkpoint_folders(folder)[keep:]:
        if step_of(checkpoint) != best_step:
            shutil.rmtree(checkpoint, ignore_errors=True)


# --- weights -------------------------------------------------------------------------------------


def trained_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights that are trained, by name; weights that are shared stand once."""
    return {name: p.detach().contiguous() for name, p in model.named_parameters() if p.requires_grad}


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a safetensors file."""
    from safetensors.torch import save_file

    save_file({name: tensor.cpu() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read a safetensors file, to the CPU."""
    from safetensors.torch import load_file

    return dict(load_file(path))


def load_weights(model: nn.Module, checkpoint: Path, *, partly: bool = False) -> None:
    """Put a checkpoint's weights into the model that they are from; partly: of which they may be a part."""
    import torch

    saved = load_tensors(checkpoint / "weights.safetensors")
    ours = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if saved.keys() != ours.keys() and not (partly and saved.keys() <= ours.keys()):
        raise DamagedIndexError(
            f"{checkpoint}: its weights are not those of this model", "Remove the folder and train again."
        )
    with torch.no_grad():
        for name, weights in saved.items():
            ours[name].copy_(weights)


# --- optimiser, schedule, random generators -------------------------------------------------------


def save_progress(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Write the state of the optimiser and the schedule."""
    state = optimizer.state_dict()
    moments = {
        f"{number}.{name}": value for number, entry in state["state"].items() for name, value in entry.items()
    }
    save_tensors(folder / "optimizer.safetensors", moments)
    write_json(folder / "state.json", {"groups": state["param_groups"], "schedule": schedule.state_dict()})


def load_progress(folder: Path, optimizer: Any, schedule: Any) -> None:
    """Restore what `save_progress` wrote."""
    noted = read_json(folder / "state.json")
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in load_tensors(folder / "optimizer.safetensors").items():
        number, _, key = name.partition(".")
        moments.setdefault(int(number), {})[key] = value
    groups = [
        group | {"betas": tuple(group["betas"])} if "betas" in group else group for group in noted["groups"]
    ]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    schedule.load_state_dict(noted["schedule"])


def save_random(folder: Path, process: int) -> None:
    """Write the states of the generators of Python, NumPy and torch of this process."""
    import torch

    kind, key, position, has_normal, normal = np.random.get_state()
    assert kind == "MT19937"
    _, python, gauss = random.getstate()
    states = {
        "python": torch.tensor(python),
        "numpy": torch.from_numpy(np.asarray(key).astype(np.int64)),
        "rest": torch.tensor(
            [position, has_normal, normal, gauss is not None, gauss or 0.0], dtype=torch.float64
        ),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    save_tensors(folder / f"random-{process}.safetensors", states)


def load_random(folder: Path, process: int) -> None:
    """Restore what `save_random` wrote."""
    import torch

    path = folder / f"random-{process}.safetensors"
    if not path.is_file():
        raise DamagedIndexError(f"{path}: missing", "Go on with as many processes as before.")
    states = load_tensors(path)
    position, has_normal, normal, has_gauss, gauss = states["rest"].tolist()
    key = states["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key, int(position), int(has_normal), normal))
    random.setstate((3, tuple(states["python"].tolist()), gauss if has_gauss else None))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
