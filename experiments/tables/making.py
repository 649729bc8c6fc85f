"""Makes the models that the rows of an experiment need: the plan with time and disk, then step after step."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from experiments.tables.definition import Experiment, IndexSource
from experiments.tables.steps import OWN_COMMANDS, ExperimentStep, Steps
from linkseek.indexer.program.errors import InputError, MachineError, log_line
from linkseek.indexer.program.paths import inside
from linkseek.indexer.store.artifacts import DENSE, kind_and_name, read_json
from linkseek.indexer.store.outputs import write_output, write_output_json

ON_RAY = ("build", "evaluate", "mine", "mine-contrasts", "negatives", "search")
"""Commands of steps that can work on a Ray cluster."""
PIPELINES = "pipelines.toml"
"""The file of the experiment's own pipelines, in its folder."""

_PUBLISH_ONCE = ("convert", "distill", "export", "shrink")
"""Commands whose folder is complete once it exists, and which refuse one that does."""

_LOG_LINES = 20
"""Of the log of a step that fails."""


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """The unmade steps of a row, without the steps of rows above it. minutes, megabytes: estimates."""

    name: str
    steps: Sequence[ExperimentStep]
    shared: int
    minutes: float
    megabytes: float


def plan_rows(steps: Steps, experiment: Experiment) -> list[PlannedRow]:
    """All rows with steps. Costs are the mean of finished steps of the same pattern, or else the file's."""
    planned = []
    seen: set[str] = set()
    encoded: set[tuple[str, str]] = set()
    for row in experiment.rows:
        own = steps.of_row(row)
        encoders = {
            (index, name) for index in experiment.indexes for name in steps.encoders(row, index)
        } - encoded
        new = [step for name, step in own.items() if name not in seen and not step.is_made]
        costs = [*map(_cost, new), *(experiment.indexes[index].cost_of_encoder for index, _ in encoders)]
        minutes, megabytes = (sum(cost[i] for cost in costs) for i in range(2))
        if own:
            name = f"{row.group}: {row.name}" if row.group else row.name
            planned.append(PlannedRow(name, new, len(own) - len(new), minutes, megabytes))
        seen |= own.keys()
        encoded |= encoders
    return planned


def untrained(steps: Steps, experiment: Experiment) -> dict[str, str]:
    """The pipelines whose rows have steps, and what makes them. steps: of a plan."""
    minutes = max(1, sum(row.minutes for row in plan_rows(steps, experiment)))
    needed = f"add --train (about {minutes:,.0f} min for all rows); --plan shows the steps"
    rows = [row for row in experiment.rows if steps.of_row(row)]
    return {
        name: f"not trained yet: {needed}"
        for row in rows
        for column in experiment.columns
        for name in row.pipelines(column, experiment.seeds)
    }


def show_plan(steps: Steps, experiment: Experiment, output: Path) -> None:
    """Log what each row takes. Raises `MachineError` if the disk has less room than all of them need."""
    planned = plan_rows(steps, experiment)
    for row in planned:
        log_line(
            f"{row.name}: {len(row.steps)} steps, {row.shared} finished or shared with rows above; "
            f"about {row.minutes:,.0f} min and {row.megabytes:,.0f} MB"
        )
    minutes, megabytes = sum(row.minutes for row in planned), sum(row.megabytes for row in planned)
    folder = next(path for path in [output, *output.absolute().parents] if path.exists())
    free = shutil.disk_usage(folder).free / 1e6
    log_line(f"all rows: about {minutes / 60:,.1f} hours and {megabytes:,.0f} MB; {free:,.0f} MB are free")
    steps.check_corpora()
    for name, what in steps.missing.items():
        log_line(f"missing: {name}: {what}")
    if megabytes > free and not (steps.is_plan and steps.missing):
        raise MachineError(
            f"{output}: the rows need about {megabytes:,.0f} MB, {free:,.0f} MB are free",
            "Free some space, or choose another --output.",
        )


def make_models(
    steps: Steps,
    experiment: Experiment,
    build_index: Callable[[IndexSource], None],
    output: Path,
    ray: str | None = None,
    jobs: int = 1,
) -> Path:
    """Run all steps that are not finished, and build the indexes; returns the pipelines' file.

    Indexes that search the vectors of encoders from steps are built after these, others before: steps may
    read them; those whose corpus is missing are skipped if the experiment says what to get. ray, jobs: as
    in `make_steps`, which also says what is raised.
    """
    indexes = [name for name in experiment.indexes if not experiment.files or steps.has_corpus(name)]
    searched = {index: _encoders(steps, experiment, index) for index in indexes}
    made = str(output / "steps")
    without = {index: named for index, named in searched.items() if not any(made in name for name in named)}
    _build_indexes(experiment, without, build_index, output)
    make_steps(steps.of_rows(experiment.rows), output, ray, jobs)
    _build_indexes(experiment, searched, build_index, output)
    return write_pipelines(steps, output)


def write_pipelines(steps: Steps, output: Path) -> Path:
    """Write the file of the experiment's own pipelines."""
    pipelines = output / PIPELINES
    write_output(pipelines, steps.pipelines().encode())
    return pipelines


def _encoders(steps: Steps, experiment: Experiment, index: str) -> list[str]:
    """The encoders whose vectors an index has: the encoders of the pipelines in its columns."""
    return list(dict.fromkeys(name for row in experiment.rows for name in steps.encoders(row, index)))


_OPTIONS = {DENSE: "--encoder"}
"""Options of a build by the kind of what an encoder makes, where they are not of the same name."""


def _build_indexes(
    experiment: Experiment,
    encoders: Mapping[str, Sequence[str]],
    build_index: Callable[[IndexSource], None],
    output: Path,
) -> None:
    """Build the indexes that are missing or were built with other options or encoders."""
    for name, models in encoders.items():
        source = experiment.indexes[name]
        kinds = [kind_and_name(model) for model in models]
        more = [word for kind, name in kinds for word in (_OPTIONS.get(kind, f"--{kind}"), name)]
        whole = source.model_copy(update={"build": [*source.build, *more]})
        record = inside(output / "steps", name, "the index", "index.{}.json")
        made_from = {"build": whole.build}
        is_built = record.is_file() and read_json(record) == made_from
        if not (is_built and (source.path / "manifest.json").exists()):
            build_index(whole)
            write_output_json(record, made_from)


def make_steps(
    steps: Collection[ExperimentStep], output: Path, ray: str | None = None, jobs: int = 1
) -> None:
    """Run the steps that are not finished, each after those that it needs.

    ray: the address of a cluster for the steps that can use one. jobs: how many run at a time; if several,
    they share the cores, and each writes to a log in OUTPUT/logs. Raises `InputError` for the first step that
    fails, when those next to it have ended.
    """
    waiting = {step.name: step for step in steps if not step.is_made}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while waiting or running:
            unfinished = waiting.keys() | set(running.values())
            ready = [step for step in waiting.values() if unfinished.isdisjoint(step.needs)]
            for step in ready[: jobs - len(running)]:
                running[pool.submit(_make, step, output, ray, jobs)] = waiting.pop(step.name).name
            try:
                done = wait(running, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                for process in list(_STARTED):
                    _end(process)
                raise
            for future in done:
                del running[future]
                future.result()


def _make(step: ExperimentStep, output: Path, ray: str | None, jobs: int) -> None:
    """Run a step."""
    log = output / "logs" / f"{step.result.name}.log" if jobs > 1 else None
    step.result.parent.mkdir(parents=True, exist_ok=True)
    started, before = time.monotonic(), os.times()
    if step.words[0] in _PUBLISH_ONCE and step.result.is_dir():
        log_line(f'the step "{step.name}" ended before that was recorded')
    else:
        on_ray = ["--ray", ray] if ray and step.words[0] in ON_RAY else []
        run_step([*step.words, *on_ray], f'the step "{step.name}"', log, jobs)
    files = step.files()
    if not files:
        raise InputError(f'the step "{step.name}" wrote nothing', "Give its command <> as its output.")
    seconds, after = time.monotonic() - started, os.times()
    record = {
        "pattern": step.pattern,
        "command": shown(step.words),
        "seconds": seconds,
        "processor_seconds": _of_children(after) - _of_children(before) if jobs == 1 else None,
        "bytes": sum(file.stat().st_size for file in files),
    }
    write_output_json(step.record, record)
    if log:
        log_line(f'the step "{step.name}" took {seconds:,.0f} s')


def _of_children(times: os.times_result) -> float:
    """Processor seconds of all processes that have ended, in user and system mode."""
    return times.children_user + times.children_system


def shown(words: Sequence[str]) -> str:
    """A command of a step as one would type it."""
    return f"{'python -m experiments' if words[0] in OWN_COMMANDS else 'linkseek'} {shlex.join(words)}"


def _command(words: Sequence[str]) -> list[str]:
    """The same for a process of its own, in which no module of the working folder takes the place of ours."""
    module = "experiments" if words[0] in OWN_COMMANDS else "linkseek"
    return [sys.executable, "-P", "-m", module, *words]


def run_step(words: Sequence[str], what: str, log: Path | None = None, jobs: int = 1) -> None:
    """Run the command of a step in a process of its own, which prints among our messages, or into a log.

    jobs: as many processes share the cores. Raises `InputError` if it fails; it says why itself, and the end
    of a log is repeated.
    """
    log_line(shown(words))
    environment = dict(os.environ)
    if jobs > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // jobs, 1)))
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") if log else nullcontext(sys.stderr) as output:
        process = subprocess.Popen(_command(words), stdout=output, stderr=output, env=environment)
        _STARTED.add(process)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        finally:
            _STARTED.discard(process)
    if code:
        for line in log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:] if log else []:
            log_line(line)
        raise InputError(f"{what} could not be made", "See the message above; the same command resumes.")


_PATIENCE = 2.0
"""Seconds in which a process that has got Ctrl-C may end by itself."""

_STARTED: set[subprocess.Popen[bytes]] = set()
"""The processes of steps that run; threads wait for them."""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process; Ctrl-C in a terminal has reached it, too, SIGTERM has not."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
        return
    process.terminate()
    process.wait()


def _cost(step: ExperimentStep) -> tuple[float, float]:
    """Minutes and megabytes: the mean of finished steps of the same pattern, else the file's estimates."""
    records = [read_json(path) for path in step.result.parent.glob("*.step.json")]
    records = [record for record in records if record["pattern"] == step.pattern]
    if not records:
        return step.minutes, step.megabytes
    return mean(r["seconds"] / 60 for r in records), mean(r["bytes"] / 1e6 for r in records)
