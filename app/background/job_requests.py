"""Validates requests from the pages and turns them into background jobs.

No path and no option is used as it was given: the name of a new index is checked, pipelines and test sets
are looked up among the known ones, and files are those that were uploaded for the job.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.background.jobs import UPLOAD, Job, Jobs, Order
from app.background.uploads import Upload, safe_path, save_uploads
from app.testsets import all_test_sets, places
from app.testsets.definition import TestSet
from indexer.base.bundled import bundled
from indexer.base.errors import InputError, LinkseekError, UsageError
from indexer.base.settings import nearest
from indexer.readers.formats import all_readers, open_reader
from indexer.store.artifacts import Manifest, value_sha256
from retriever.models.locations import DEFAULT_ENCODER
from retriever.queries import read_queries

_ROOT = Path(__file__).parents[2]

BUILD, VERIFY, EVALUATE = "build", "verify", "evaluate"
_SCRIPTS = {BUILD: "indexer/build.py", VERIFY: "indexer/build.py", EVALUATE: "app/evaluate.py"}

MAX_LIMIT = 100_000_000
MAX_DEPTH = 1_000

_BATCH = 32  # questions between two reports of progress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class BuildChoices:
    """How to build an index; the names are those of build.py's options."""

    format: str | None = None
    encoder: str | None = DEFAULT_ENCODER
    bm25: bool = True
    limit: int | None = None
    skip_errors: bool = True


def checked_index_name(name: str, parent: Path) -> str:
    """A name for a new index in a folder. Raises `UsageError` if it is invalid or taken."""
    name = name.strip()
    if not name:
        raise UsageError("the new index has no name", "Give it one, such as handbook.")
    if not _NAME.fullmatch(name):
        raise UsageError(
            "the name of an index is made of letters, digits, hyphens and underscores",
            "It begins with a letter or a digit and has at most 64 characters, such as my-notes.",
        )
    if (parent / name).exists():
        raise UsageError(f'there is an index "{name}" already', "Choose another name.")
    return name


def start_build(jobs: Jobs, parent: Path, name: str, uploads: Sequence[Upload], choices: BuildChoices) -> Job:
    """Build the index `parent`/`name` from uploaded files.

    Raises `UsageError` for an invalid name or choice, `InputError` for files of unknown format.
    """
    name = checked_index_name(name, parent)
    if not choices.bm25 and choices.encoder is None:
        raise UsageError("there would be nothing to search with", "Choose BM25, vectors, or both.")
    if choices.format is not None and choices.format not in all_readers():
        raise UsageError("no such format", nearest(choices.format, set(all_readers())))
    with jobs.draft() as draft:
        corpus = save_uploads(uploads, draft / UPLOAD)
        try:
            format_ = open_reader(corpus, choices.format).name
        except LinkseekError as error:
            raise InputError(
                jobs.as_sent(error.message).removeprefix(": "),
                f"Choose another format. Known are: {', '.join(all_readers())}.",
            ) from None
        options = ["--corpus", str(corpus), "--index", str(parent / name), "--format", format_]
        options += ["--on-error", "skip" if choices.skip_errors else "stop"]
        options += ["--encoder", choices.encoder] if choices.encoder else ["--no-dense"]
        options += [] if choices.bm25 else ["--no-bm25"]
        options += ["--limit", str(choices.limit)] if choices.limit else []
        title = f"Build {name} ({format_})"
        return jobs.start(Order(BUILD, f"index {name}", title, name, _command(BUILD, options)), draft)


def start_sample(jobs: Jobs, index: Path) -> Job:
    """Build the bundled sample as `index`. Raises `InputError` where Linkseek was installed without it."""
    corpus = bundled("samples/linkseek-sample.xml.bz2")
    if not corpus.is_file():
        raise InputError("the sample is missing", "It comes with the source code of Linkseek.")
    command = _command(BUILD, ["--index", str(index), "--corpus", str(corpus)])
    return jobs.start(Order(BUILD, f"index {index.name}", "Build the sample", index.name, command))


def start_verification(jobs: Jobs, index: Path) -> Job:
    """Verify the hash of every file of an index."""
    name, command = index.name, _command(VERIFY, ["--index", str(index), "--verify"])
    return jobs.start(Order(VERIFY, f"verify {name}", f"Verify {name}", name, command))


def runnable_test_sets(manifest: Manifest, index: str) -> dict[str, tuple[TestSet, bool]]:
    """The test sets whose questions are on this machine, and whether they are of this index: those first."""
    try:
        at = places()
    except LinkseekError:  # LINKSEEK_DATA names no folder
        return {}
    corpus = manifest.get("corpus")
    file = corpus.get("file") if isinstance(corpus, dict) else None
    choices = {
        name: (test_set, index == test_set.corpus.index or Path(test_set.corpus.file).name == file)
        for name, test_set in all_test_sets().items()
        if any(source.gap(at) is None for source in test_set.sources)
    }
    return dict(sorted(choices.items(), key=lambda choice: (not choice[1][1], choice[0])))


@dataclass(frozen=True, slots=True)
class EvaluationChoices:
    """An evaluation by the names of evaluate.py's options. test_set: None for uploaded questions."""

    test_set: str | None
    pipelines: tuple[str, ...]
    depth: int = 100
    limit: int | None = None
    latency: bool = True


def start_evaluation(
    jobs: Jobs,
    results: Path,
    index: Path,
    known: Sequence[str],
    pipelines_file: Path | None,
    choices: EvaluationChoices,
    questions: Upload | None = None,
) -> Job:
    """Evaluate pipelines of an index; the report goes to a new folder below `results`.

    known: the pipelines that the index can run. Raises `UsageError` for an unknown pipeline or test set,
    `InputError` for questions that cannot be read or have no answers.
    """
    if not choices.pipelines:
        raise UsageError("no pipeline is chosen", "Choose at least one; two can be compared.")
    for pipeline in choices.pipelines:
        if pipeline not in known:
            raise UsageError(f'this index has no pipeline "{pipeline}"', nearest(pipeline, known))
    with jobs.draft() as draft:
        if questions is not None:
            source, name, digest = _uploaded_questions(jobs, questions, draft)
        elif choices.test_set is not None and choices.test_set in all_test_sets():
            source, name, digest = ["--test-set", choices.test_set], choices.test_set, ""
        else:
            raise UsageError(
                "no questions are chosen", "Choose a test set, or upload questions with answers."
            )
        options = ["--index", str(index), "--pipeline", *choices.pipelines]
        options += ["--depth", str(min(max(choices.depth, 1), MAX_DEPTH)), "--batch-size", str(_BATCH)]
        options += ["--limit", str(choices.limit)] if choices.limit else []
        options += [] if choices.latency else ["--latency", "0"]
        options += ["--pipelines-file", str(pipelines_file)] if pipelines_file else []
        key = f"evaluate {value_sha256([*options, name, digest])}"
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name.partition(".")[0]).strip("-")[:40] or "questions"
        report = f"{plain}-{draft.name}"
        command = _command(EVALUATE, [*source, *options, "--output", str(results / report)])
        title = f"{name} on {index.name}: {', '.join(choices.pipelines)}"
        return jobs.start(Order(EVALUATE, key, title, report, command, same=True), draft)


def _uploaded_questions(jobs: Jobs, questions: Upload, draft: Path) -> tuple[list[str], str, str]:
    """The options that name an uploaded file, its name, and its hash."""
    name, content = questions
    path = save_uploads([(safe_path(name).name, content)], draft / UPLOAD)
    try:
        queries = read_queries(path)
    except LinkseekError as error:
        raise InputError(jobs.as_sent(error.message), error.hint) from None
    if not any(query.answers for query in queries):
        raise InputError(
            f"{path.name}: none of its {len(queries):,} questions has answers",
            'Each line needs answers: {"id": ..., "text": ..., "answers": ["..."]}.',
        )
    return ["--queries", str(path)], path.name, sha256(path.read_bytes()).hexdigest()


def _command(kind: str, options: Sequence[str]) -> list[str]:
    return [sys.executable, str(_ROOT / _SCRIPTS[kind]), *options]
