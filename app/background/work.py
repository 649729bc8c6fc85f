"""What a visitor may have done in the background: what they ask for is checked here and becomes a job.

Nothing of it is a path or an option as it was given: an index's new name is plain, pipelines and test sets
are looked up in what there is, and files are those that were uploaded for the job.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.background.jobs import UPLOAD, Draft, Job, Jobs, Order
from app.background.uploads import Upload, safe_path, save_uploads
from app.testsets import all_test_sets, places
from indexer.base.bundled import bundled
from indexer.base.errors import InputError, LinkseekError, UsageError
from indexer.base.settings import nearest
from indexer.readers.formats import all_readers, open_reader
from indexer.store.artifacts import Manifest, value_sha256
from retriever.models.locations import DEFAULT_ENCODER
from retriever.queries import read_queries

BUILD, VERIFY, EVALUATE = "build", "verify", "evaluate"

MAX_LIMIT = 100_000_000
MAX_DEPTH = 1_000

_ROOT = Path(__file__).parents[2]
_BUILD = _ROOT / "indexer" / "build.py"
_EVALUATE = _ROOT / "app" / "evaluate.py"
_BATCH = 32  # questions between two notes of progress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


# --- indexes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildChoices:
    """How an index is to be built; the names are those of build.py's options."""

    format: str | None = None
    encoder: str | None = DEFAULT_ENCODER
    bm25: bool = True
    limit: int | None = None
    skip_errors: bool = True


def checked_index_name(name: str, parent: Path) -> str:
    """A name for a new index in a folder. Raises `UsageError` for any that is no plain name, or taken."""
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

    Raises `UsageError` for a name or a choice that does not fit, `InputError` for files of no known format.
    """
    name = checked_index_name(name, parent)
    if not choices.bm25 and choices.encoder is None:
        raise UsageError("there would be nothing to search with", "Choose BM25, vectors, or both.")
    if choices.format is not None and choices.format not in all_readers():
        raise UsageError("no such format", nearest(choices.format, set(all_readers())))
    with jobs.draft() as draft:
        corpus = save_uploads(uploads, draft.folder / UPLOAD)
        read_as = _recognised(jobs, corpus, choices.format)
        command = [*_script(_BUILD), "--corpus", str(corpus), "--index", str(parent / name)]
        command += ["--format", read_as, "--on-error", "skip" if choices.skip_errors else "stop"]
        command += ["--encoder", choices.encoder] if choices.encoder else ["--no-dense"]
        command += [] if choices.bm25 else ["--no-bm25"]
        command += ["--limit", str(choices.limit)] if choices.limit else []
        return jobs.start(Order(BUILD, f"index {name}", f"Build {name} ({read_as})", name, command), draft)


def _recognised(jobs: Jobs, corpus: Path, format_name: str | None) -> str:
    """The name of the format of an upload."""
    try:
        return open_reader(corpus, format_name).name
    except LinkseekError as error:
        raise InputError(
            jobs.as_sent(error.message).removeprefix(": "),
            f"Choose another format. Known are: {', '.join(all_readers())}.",
        ) from None


def start_sample(jobs: Jobs, index: Path) -> Job:
    """Build the bundled sample as `index`."""
    command = [*_script(_BUILD), "--index", str(index), "--corpus", str(sample_corpus())]
    return jobs.start(Order(BUILD, f"index {index.name}", "Build the sample", index.name, command))


def sample_corpus() -> Path:
    """The bundled sample. Raises `InputError` where Linkseek was installed without it."""
    path = bundled("samples/linkseek-sample.xml.bz2")
    if not path.is_file():
        raise InputError("the sample is not here", "It comes with the source code of Linkseek.")
    return path


def start_verification(jobs: Jobs, index: Path) -> Job:
    """Check the hash of every file of an index."""
    command = [*_script(_BUILD), "--index", str(index), "--verify"]
    order = Order(VERIFY, f"verify {index.name}", f"Verify {index.name}", index.name, command)
    return jobs.start(order)


# --- evaluations ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TestSetChoice:
    """A test set that can be run here. fits: whether the index is of the corpus that it asks about."""

    __test__ = False

    name: str
    title: str
    queries: int | None
    corpus: str
    fits: bool


def runnable_test_sets(manifest: Manifest, index: str) -> list[TestSetChoice]:
    """The test sets whose questions are here, those that belong to this index first."""
    try:
        at = places()
    except LinkseekError:  # LINKSEEK_DATA names no folder
        return []
    corpus = manifest.get("corpus")
    file = corpus.get("file") if isinstance(corpus, dict) else None
    choices = [
        TestSetChoice(
            name,
            test_set.title,
            test_set.queries,
            test_set.corpus.title,
            index == test_set.corpus.index or Path(test_set.corpus.file).name == file,
        )
        for name, test_set in all_test_sets().items()
        if any(source.gap(at) is None for source in test_set.sources)
    ]
    return sorted(choices, key=lambda choice: (not choice.fits, choice.name))


@dataclass(frozen=True, slots=True)
class EvaluationChoices:
    """What to evaluate, by the names of evaluate.py's options. test_set: None for uploaded questions."""

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

    known: the pipelines that the index can run. Raises `UsageError` for what is not there, `InputError` for
    questions that cannot be read or have no answers.
    """
    if not choices.pipelines:
        raise UsageError("no pipeline is chosen", "Choose at least one; two can be compared.")
    for pipeline in choices.pipelines:
        if pipeline not in known:
            raise UsageError(f'this index has no pipeline "{pipeline}"', nearest(pipeline, known))
    with jobs.draft() as draft:
        if questions is not None:
            asked, what, digest = _uploaded_questions(jobs, questions, draft)
        elif choices.test_set is not None and choices.test_set in all_test_sets():
            asked, what, digest = ["--test-set", choices.test_set], choices.test_set, ""
        else:
            raise UsageError(
                "no questions are chosen", "Choose a test set, or upload questions with answers."
            )
        options = ["--index", str(index), "--pipeline", *choices.pipelines]
        options += ["--depth", str(min(max(choices.depth, 1), MAX_DEPTH)), "--batch-size", str(_BATCH)]
        options += ["--limit", str(choices.limit)] if choices.limit else []
        options += [] if choices.latency else ["--latency", "0"]
        options += ["--pipelines-file", str(pipelines_file)] if pipelines_file else []
        key = f"evaluate {value_sha256([*options, what, digest])}"
        name = f"{_plain(what)}-{draft.id}"
        command = [*_script(_EVALUATE), *asked, *options, "--output", str(results / name)]
        title = f"{what} on {index.name}: {', '.join(choices.pipelines)}"
        return jobs.start(Order(EVALUATE, key, title, name, command, same=True), draft)


def _uploaded_questions(jobs: Jobs, questions: Upload, draft: Draft) -> tuple[list[str], str, str]:
    """The options that name an uploaded file, what it is called, and its hash."""
    name, content = questions
    path = save_uploads([(safe_path(name).name, content)], draft.folder / UPLOAD)
    try:
        found = read_queries(path)
    except LinkseekError as error:
        raise InputError(jobs.as_sent(error.message), error.hint) from None
    if not any(query.answers for query in found):
        raise InputError(
            f"{path.name}: none of its {len(found):,} questions has answers",
            'What is right is decided by answers: {"id": ..., "text": ..., "answers": ["..."]} in each line.',
        )
    return ["--queries", str(path)], path.name, sha256(path.read_bytes()).hexdigest()


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name.partition(".")[0]).strip("-")[:40] or "questions"


def _script(path: Path) -> list[str]:
    return [sys.executable, str(path)]
