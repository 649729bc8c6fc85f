"""python -m benchmarks.gpu --minutes N: what is worth measuring on a GPU, in order of worth.

    search     exact search of as many vectors as DPR's Wikipedia has, against the floor that the memory sets
    encoding   passages a second of the bi-encoder, against SentenceTransformer.encode
    scoring    pairs a second of the cross-encoder, against CrossEncoder.predict
    training   a step of the bi-encoder's training, against the trainer of sentence-transformers
    index      an index of millions of vectors, built, opened and searched; IVF needs faiss-gpu
    hlp        the table experiments/hlp-gpu.toml in its smallest form, with one seed; needs --data

Each has a limit of time and is a process of its own: when it fails or runs out of time, the next one begins,
and the figures that it had are kept. The first three need torch, transformers and sentence-transformers, the
others what `pip install .` brings, and `training` the library datasets. None needs a network or a model.
To run them on another machine:

    tar cf gpu.tar $(python -m benchmarks.gpu --list)          here
    python -m benchmarks.gpu --output results                  there, where gpu.tar was unpacked
    cat results/gpu_search.jsonl >> benchmarks/results/gpu_search.jsonl, the same of the others     here
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.support.harness import RESULTS, ROOT, keep_partial, module_of

_LATER = (
    "linkseek.retriever.models.backends.layers",
    "linkseek.retriever.models.torch_modes",
    "linkseek.retriever.models.backends.torch_engine",
)
"""Modules that are imported when a model is opened."""
_HLP = "hlp"


@dataclass(frozen=True)
class TimedScript:
    """A script of this folder, and the seconds that it may take."""

    name: str
    seconds: int
    options: str
    """Options with which it fits into that time."""
    tiny: str
    """Options that make a run a matter of seconds, on any machine."""

    @property
    def benchmark(self) -> str:
        """The name of its benchmark, and of its records."""
        return f"gpu_{self.name}"


_MODEL = "--tiny --passages 2 --product 64"
_VECTORS = "--vectors 3000 --dimension 32 --batches 1 9 --product 64 --megabytes 1"
STEPS = (
    TimedScript("search", 60, "", _VECTORS),
    TimedScript("encoding", 180, "--rounds 3", _MODEL),
    TimedScript("scoring", 60, "--passages 2048 --rounds 3", _MODEL),
    TimedScript("training", 120, "--rounds 2", "--tiny --batch 4 --steps 4 --precision float32"),
    TimedScript("index", 240, "--rounds 3", f"{_VECTORS} --faiss Flat IVF16,SQfp16 compact"),
)


_TRIED = 240
"""The time of a step with tiny sizes, in seconds: on a CPU that others use, too, imports take most of it."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the steps, or list their files. Exits with 1 if one failed or ran out of time."""
    names = [*(step.name for step in STEPS), _HLP]
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=15, help="in all; default: 15")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="STEP", help="these steps")
    parser.add_argument("--data", type=Path, help="the folder of corpora and test sets, for hlp")
    parser.add_argument("--list", action="store_true", help="name the files of this project that are needed")
    parser.add_argument("--tiny", action="store_true", help="with tiny sizes, to try the scripts out")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the folder of results")
    options = parser.parse_args(argv)
    if options.list:
        print("\n".join(needed_files()))
        return
    until = time.monotonic() + 60 * options.minutes
    steps = [step for step in STEPS if step.name in options.only]
    all_done = True
    for step in steps:
        command = [sys.executable, "-m", module_of(step.benchmark), "--output", str(options.output)]
        command += [*step.tiny.split(), "--rounds", "1"] if options.tiny else step.options.split()
        most = _TRIED if options.tiny else step.seconds
        all_done &= _run(step.name, command, min(most, until - time.monotonic()))
        keep_partial(step.benchmark, options.output)
    if _HLP in options.only and options.data is not None:
        command = [sys.executable, "-m", "experiments", "hlp-gpu", "--train", "--scale", "minutes"]
        command += ["--seeds", "1", "--jobs", "4"]
        command += ["--data", str(options.data), "--output", str(options.output / "hlp-gpu")]
        command += ["--small"] if options.tiny else []
        all_done &= _run(_HLP, command, until - time.monotonic())
    elif _HLP in options.only:
        print("hlp: skipped, it needs --data", flush=True)
    sys.exit(0 if all_done else 1)


def _run(name: str, command: Sequence[str], seconds: float) -> bool:
    """Run a command for so long at most; whether it ended well."""
    if seconds < 1:
        print(f"{name}: skipped, no time is left", flush=True)
        return False
    started = time.monotonic()
    try:
        code = subprocess.run(command, cwd=ROOT, timeout=seconds).returncode
        ended = "done" if code == 0 else f"failed, exit code {code}"
    except subprocess.TimeoutExpired:
        code, ended = 1, "out of time"
    print(f"{name}: {ended} after {time.monotonic() - started:.0f} s", flush=True)
    return code == 0


def needed_files() -> list[str]:
    """The files of this project that the scripts import, relative to its folder."""
    for name in (*(module_of(step.benchmark) for step in STEPS), *_LATER):
        import_module(name)
    paths = [Path(file) for module in sys.modules.values() if (file := getattr(module, "__file__", None))]
    own = Path(__file__).resolve()
    inside = {path.resolve() for path in paths} | {own, ROOT / "indexer/search/kernels.py"}  # needs Triton
    ours = (
        path for path in inside if path.is_relative_to(ROOT) and ".venv" not in path.parts and path.exists()
    )
    return sorted(str(path.relative_to(ROOT)) for path in ours)


if __name__ == "__main__":
    main()
