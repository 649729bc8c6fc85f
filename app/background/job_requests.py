"""Validates requests from the pages and turns them into background jobs.

No path and no option is used as given: the name of a new index is checked, pipelines and test sets are looked
up among the known ones, and files are those that were uploaded for the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linkseek.app.background.jobs import FILES, JOB, UPLOAD, Job, Jobs, Order
from linkseek.app.background.uploads import (
    ROLES,
    Role,
    Upload,
    keep_uploads,
    kept_uploads,
    safe_path,
    save_files,
    save_uploads,
)
from linkseek.app.evaluate import PROGRAM, EvaluateOptions
from linkseek.app.evaluation.records import inside_file, new_folder
from linkseek.app.evaluation.results import Results
from linkseek.app.preferences.judged_sets import check_set_name
from linkseek.app.preferences.record import read_questions
from linkseek.app.service import SAMPLE_ENCODERS
from linkseek.app.testsets import all_test_sets, places
from linkseek.app.testsets.definition import TestSet
from linkseek.app.testsets.known_items import own_kind
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.bundled import bundled, own_command
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.program.options import options_lines, parse_options
from linkseek.indexer.program.paths import check_name, inside
from linkseek.indexer.program.settings import validate
from linkseek.indexer.program.text import counted, nearest
from linkseek.indexer.readers.formats import all_readers
from linkseek.indexer.store.artifacts import value_sha256
from linkseek.indexer.store.manifests import IndexManifest
from linkseek.indexer.store.outputs import remove_written, write_output
from linkseek.retriever.models.locations import shipped_models
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query

BUILD, EVALUATE, COMPARE = "build", "evaluate", "compare"
OPTIONS = "options.toml"
"""The options of a job: of a build in its folder, of the others in the folder that they write."""

MAX_LIMIT = 100_000_000
MAX_DEPTH = 1_000
DEFAULT_DEPTH = 100

_BATCH = 32  # questions between two reports of progress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def checked_index_name(name: str, parent: Path) -> str:
    """A name for a new index in a folder. Raises `UsageError` if it is invalid or taken."""
    name = name.strip()
    if not name:
        raise UsageError("the new index has no name", "Give it one, such as handbook.")
    if not _NAME.fullmatch(name):
        raise UsageError(
            "the name of an index may contain only letters, digits, hyphens and underscores",
            "It begins with a letter or a digit and has at most 64 characters, such as my-notes.",
        )
    if os.path.lexists(parent / check_name(name, "the index")):
        raise UsageError(f'there is already an index "{name}"', "Choose another name.")
    return name


def start_build(
    jobs: Jobs,
    parent: Path,
    name: str,
    uploads: Sequence[Upload],
    format_: str | None = None,
    chosen_encoders: Sequence[str] = (DEFAULT_ENCODER,),
) -> Job:
    """Build the index `parent`/`name` from uploaded files, with words and the vectors of these encoders.

    format_: None for the command to recognise it: no file is read here. Damaged records are skipped, and
    listed. Raises `UsageError` for an invalid name, choice or number of files.
    """
    name = checked_index_name(name, parent)
    formats = {format_} - {None}, {*all_readers()}
    for chosen, known in (formats, ({*chosen_encoders}, {*encoders()})):
        for unknown in chosen - known:
            raise UsageError(f'"{unknown}" is not known', nearest(str(unknown), known))
    with jobs.draft() as draft:
        options = {
            "corpus": save_uploads(uploads, draft / UPLOAD),
            "index": inside(parent, name, "the index"),
            "format": format_,
            "encoder": chosen_encoders or None,
            "dense": bool(chosen_encoders),
            "on_error": "skip",
        }
        command = _command("build", options, draft / OPTIONS)
        return jobs.start(Order(BUILD, f"index {name}", f"Build {name}", name, command), draft)


def encoders() -> list[str]:
    """The encoders that need no network: the default one, and those that ship with this project."""
    return [DEFAULT_ENCODER, *shipped_models()]


def start_sample(jobs: Jobs, index: Path) -> Job:
    """Build the bundled sample as `index`. Raises `InputError` where Linkseek was installed without it."""
    corpus = bundled("samples/linkseek-sample.xml.bz2")
    if not corpus.is_file():
        raise InputError("the sample is missing", "It comes with the source code of Linkseek.")
    words = ["--index", str(index), "--corpus", str(corpus), "--encoder", *SAMPLE_ENCODERS]
    command = own_command("build", *words)
    return jobs.start(Order(BUILD, f"index {index.name}", "Build the sample", index.name, command))


def runnable_test_sets(manifest: IndexManifest, index: str) -> dict[str, tuple[TestSet, bool]]:
    """The test sets whose questions are on this machine, and whether they are of this index: those first."""
    try:
        at = places()
    except LinkseekError:  # LINKSEEK_DATA names no folder
        return {}
    choices = {
        name: (
            test_set,
            index == test_set.corpus.index or Path(test_set.corpus.file).name == manifest.corpus.file,
        )
        for name, test_set in all_test_sets().items()
        if any(source.gap(at) is None for source in test_set.sources)
    }
    return dict(sorted(choices.items(), key=lambda choice: (not choice[1][1], choice[0])))


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where jobs ask questions: an index, the pipelines that it can run, and the folder of results."""

    jobs: Jobs
    results: Path
    index: Path
    known: Sequence[str]
    pipelines_file: Path | None

    def check(self, pipelines: Sequence[str]) -> None:
        """Raises `UsageError` for a pipeline that the index cannot run."""
        for pipeline in pipelines:
            if pipeline not in self.known:
                raise UsageError(f'this index has no pipeline "{pipeline}"', nearest(pipeline, self.known))

    @contextmanager
    def draft(self, name: str) -> Iterator[tuple[Path, Path]]:
        """The folders of a new job and of its output among the results, named so, with plain letters."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40] or "questions"
        with self.jobs.draft() as draft:
            output = new_folder(self.results, f"{plain}-{draft.name}")
            try:
                yield draft, output
            finally:
                if not (draft / JOB).exists():  # it was not started, or the same runs already
                    remove_written(output)


def start_evaluation(
    at: Workplace, choices: Mapping[str, Any], files: Mapping[Role, Sequence[Upload]] = {}
) -> Job:
    """Evaluate pipelines of an index; the report goes to a new folder among the results.

    choices: values of `EvaluateOptions` by name; test_set: None for uploaded questions. files: uploads, read
    by the command, not here. Raises `UsageError` for an unknown pipeline or test set, and if there are no
    questions or nothing to evaluate.
    """
    files = {role: of for role in ROLES if (of := files.get(role))}
    test_set, pipelines = choices["test_set"], choices["pipeline"]
    if not pipelines and "run" not in files:
        raise UsageError("no pipeline is selected", "Choose at least one; two can be compared.")
    at.check(pipelines)
    if not (test_set in all_test_sets() or own_kind(test_set) or "queries" in files):
        raise UsageError("no questions are chosen", "Choose a test set, or upload questions.")
    name = test_set or safe_path(files["queries"][0][0]).name
    depth = min(max(choices.get("depth", DEFAULT_DEPTH), 1), MAX_DEPTH)
    place = {"index": at.index, "pipelines_file": at.pipelines_file, "batch_size": _BATCH}
    options = validate(EvaluateOptions, {**choices, **place, "depth": depth})
    with at.draft(name.partition(".")[0]) as (draft, output):
        kept = {role: save_files(of, draft / UPLOAD / role / FILES) for role, of in files.items()}
        hashes = {role: [path.name, file_sha256(path)] for role, of in kept.items() for path in of}
        key = f"evaluate {value_sha256([options.model_dump(mode='json'), name, hashes])}"
        keep_uploads(output, kept)
        read = {role: of if role == "run" else of[0] for role, of in kept.items()}
        options = options.model_copy(update=read | {"output": output})
        command = _command("evaluate", options.model_dump(exclude_unset=True), output / OPTIONS)
        title = _title(name, at.index, files, options)
        order = Order(EVALUATE, key, title, output.name, command, same=True, output=str(output))
        return at.jobs.start(order, draft)


def start_comparison(
    at: Workplace, pair: tuple[str, str], questions: Sequence[str], origin: str, judged: str = ""
) -> Job:
    """Compare two pipelines of an index by questions; the comparison goes to a new folder among the results.

    origin: the origin of the questions. judged: the test set of its judgements; empty: one of its own. Raises
    `UsageError` for an unknown pipeline, questions that cannot be asked, and a name that cannot be one.
    """
    if pair[0] == pair[1]:
        raise UsageError("both pipelines are the same", "Choose two different ones.")
    at.check(pair)
    queries = [Query(str(n), text) for n, text in enumerate(read_questions(questions), start=1)]
    options = {"index": at.index, "pipeline": [*pair], "origin": origin, "pipelines_file": at.pipelines_file}
    options["judged"] = check_set_name(judged) if judged else ""
    with at.draft("-".join(pair)) as (draft, output):
        key = f"compare {value_sha256([str(options), [query.text for query in queries]])}"
        asked = draft / UPLOAD / FILES / "questions.jsonl"
        asked.parent.mkdir(parents=True)
        asked.write_bytes(b"".join(queries_lines(queries)))
        command = _command("compare", options | {"queries": asked, "output": output}, output / OPTIONS)
        title = f"{counted(len(queries), 'question')} on {at.index.name}: {' or '.join(pair)}"
        order = Order(COMPARE, key, title, output.name, command, same=True, output=str(output))
        return at.jobs.start(order, draft)


def _title(name: str, index: Path, files: Mapping[Role, Sequence[Upload]], options: EvaluateOptions) -> str:
    runs = [safe_path(run).name for run, _ in files.get("run", ())]
    parts = [f"{name} on {index.name}: {', '.join([*options.pipeline, *runs])}"]
    parts += [counted(options.limit, "question")] if options.limit else []
    parts += [f"depth {options.depth:,}"] if options.depth != DEFAULT_DEPTH else []
    return ", ".join(parts)


def run_again(at: Workplace, report: Path, results: Results, added: Sequence[str]) -> Job:
    """Run the evaluation of a report again, with more pipelines.

    report: its folder, with copies of the files that were uploaded for it. Raises as `start_evaluation` and
    `kept_uploads`.
    """
    test_set = results.test_set.name if results.test_set else None
    if test_set is not None and test_set not in all_test_sets() and not own_kind(test_set):
        raise UsageError(f'there is no test set "{test_set}" any more', "Start a new evaluation.")
    count = results.counts.queries
    everything = all_test_sets()[test_set].queries if test_set in all_test_sets() else None
    limit = None if count == everything else count
    made_with = validate(EvaluateOptions, {"limit": limit, "seed": results.seeds.bootstrap})
    if (report / OPTIONS).exists():
        file = inside_file(report.parent, report / OPTIONS)
        made_with = parse_options(EvaluateOptions, ["--config", str(file)], PROGRAM)
    paths: list[Sequence[Path | None]] = [[made_with.queries], [made_with.qrels], made_with.run]
    names = {role: [path.name for path in of if path] for role, of in zip(ROLES, paths, strict=True)}
    ours = [name for name, pipeline in results.pipelines.items() if pipeline.source == "pipeline"]
    choices = made_with.model_dump(include={"limit", "only", "seed"})
    choices |= {"test_set": test_set, "pipeline": [*ours, *added], "depth": results.depth}
    with kept_uploads(report, results, names) as files:
        return start_evaluation(at, choices, files)


def _command(program: str, options: Mapping[str, Any], file: Path) -> list[str]:
    """The command with these options, which are written to a file."""
    write_output(file, options_lines(options))
    return own_command(program, "--config", str(file))
