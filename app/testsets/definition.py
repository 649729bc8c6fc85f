"""A test set: its description, the contract of its sources, and the checks that their files are this set."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import orjson
from pydantic import BeforeValidator, Field

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.settings import Settings
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.answers import AnswerKind
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels, qrels_lines

AGAIN = "Get the file again."


@dataclass(frozen=True, slots=True)
class Places:
    """Where files may be: the user's data folder, and our cache of downloads."""

    data: Path | None
    cache: Path

    def first(self, names: tuple[str, ...]) -> Path | None:
        """The first of these names that is a file of the data folder."""
        paths = [self.data / name for name in names] if self.data else []
        return next((path for path in paths if path.is_file()), None)

    def in_data(self) -> str:
        """The data folder, for messages."""
        return f"in {self.data}" if self.data else "in a data folder (none is given)"


class Gap(NamedTuple):
    """A missing part of a source. download: whether `--download` gets it; size: bytes, None where unknown."""

    missing: str
    hint: str
    download: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a source. judgements: rows read; `qrels` has fewer if some were skipped.

    folds: the official ones, by query id.
    """

    queries: list[Query]
    qrels: Qrels | None = None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    judgements: int | None = None
    folds: dict[str, int] = field(default_factory=dict)
    read_from: str = ""


KINDS: dict[str, type[TestSetSource]] = {}
"""The kinds of sources by name, those of plug-ins too."""


class TestSetSource(Settings, ABC):
    """One way to a test set's files. Each kind has a field `kind`, its name in the TOML files."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Add a kind to `KINDS`."""
        if "kind" in cls.model_fields:
            KINDS[cls.model_fields["kind"].default] = cls

    @property
    @abstractmethod
    def needs(self) -> str:
        """The files or options that a user needs, in a few words (Markdown)."""

    @abstractmethod
    def gap(self, places: Places) -> Gap | None:
        """The first thing that is missing; None if `read` has all it needs."""

    @abstractmethod
    def read(self, places: Places) -> Contents:
        """Read the files. Raises `InputError` that names file and line."""

    def fetch(self, places: Places) -> None:
        """Download the missing files, if `gap` says that this is possible."""
        raise NotImplementedError


def grouped(pairs: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Query ids by the name of their group, from pairs (query id, group)."""
    groups: dict[str, list[str]] = {}
    for query, group in pairs:
        groups.setdefault(group, []).append(query)
    return {group: tuple(ids) for group, ids in groups.items()}


def _opened(table: dict[str, Any]) -> TestSetSource:
    kind = table.get("kind")
    if kind not in KINDS:
        raise ValueError(f"the kind of a source is one of {', '.join(sorted(KINDS))}")
    return KINDS[kind](**table)


AnySource = Annotated[TestSetSource, BeforeValidator(_opened)]


@dataclass(frozen=True, slots=True)
class LoadedTestSet:
    """A test set that was read, as the runner takes it."""

    name: str
    queries: list[Query]
    qrels: Qrels | None = None
    answer_kind: AnswerKind = "tokens"
    """tokens: DPR's matching; regex: answers are patterns (CuratedTREC)."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a subset -> its query ids; empty without subsets."""
    measures: tuple[str, ...] = ()
    """The set's usual measures; () for the runner's defaults."""
    origin: dict[str, str] = field(default_factory=dict)
    """For provenance: title, description, licence, source, read_from, sha256.

    The hash is of questions, answers and judgements sorted by id, so two packings of one set share it.
    """
    folds: dict[str, int] = field(default_factory=dict)
    """Query id -> its part in an official cross-validation; empty without one."""
    notes: tuple[str, ...] = ()
    """Notes for the report."""
    copies: dict[str, str] = field(default_factory=dict)
    """Query id -> words; a passage that contains them is not counted as a result."""

    def described(self) -> dict[str, str]:
        """Name, description, licence and source, for a report."""
        known = {key: self.origin.get(key, "") for key in ("description", "licence", "source")}
        return {"name": self.name, **known}


class Corpus(Settings):
    """The documents that questions are asked on, and how an index of them is built."""

    title: str
    file: str
    """The usual name of its file or folder."""
    options: str
    """Further options of linkseek build."""
    index: str
    documents: int | None = None
    where: str = ""
    """The place to get it."""

    @property
    def build_options(self) -> str:
        """The options of `linkseek build` for an index of the corpus."""
        return f"--corpus {self.file} {self.options}"

    @property
    def build(self) -> str:
        """The command that builds an index of the corpus."""
        return f"linkseek build {self.build_options} --index index/{self.index}"


class TestSet(Settings):
    """A test set as a table of `sets/*.toml` describes it. None: unknown, so not checked."""

    __test__: ClassVar[bool] = False  # pytest takes the name for a test's

    name: str
    also: tuple[str, ...] = ()
    """Other names of the test set."""
    title: str
    description: str
    """A description of the questions, and of relevance."""
    licence: str
    citation: str
    url: str
    corpus: Corpus
    sources: tuple[AnySource, ...] = Field(min_length=1)
    queries: int | None = None
    judgements: int | None = None
    judged: int | None = None
    """How many questions have judgements, if not all."""
    groups: dict[str, int] = Field(default_factory=dict)
    answers: bool = False
    """Whether every question has answers."""
    answer_kind: AnswerKind = "tokens"
    level: Literal["passages", "documents"] | None = None
    """The level of the judgements; None where answers alone decide."""
    measures: tuple[str, ...] = ()
    records: dict[str, str] = Field(default_factory=dict)
    """The texts of some questions, by id."""

    def load(self, places: Places, *, download: bool = False) -> LoadedTestSet:
        """Read and check the first source whose files are here, or download one.

        Raises `InputError` if no source is available, or if the files do not contain this set.
        """
        gaps: list[tuple[TestSetSource, Gap]] = []
        source: TestSetSource
        for source in self.sources:
            gap = source.gap(places)
            if gap is None:
                return self._checked(source.read(places))
            gaps.append((source, gap))
        for source, gap in gaps:
            if download and gap.download:
                source.fetch(places)
                return self._checked(source.read(places))
        missing = "; nor ".join(gap.missing for _, gap in gaps)
        hints = " ".join(dict.fromkeys(gap.hint for _, gap in gaps))
        raise InputError(f"test set {self.name} is missing: {missing}", hints)

    def _checked(self, read: Contents) -> LoadedTestSet:
        fault = self._fault(read)
        if fault:
            raise InputError(
                f"test set {self.name}, read from {read.read_from}: {fault}",
                "The file is truncated, altered or another version. Download it again, or, if it should "
                "differ, give it with --queries and --qrels.",
            )
        origin = self.model_dump(include={"title", "description", "licence"})
        origin |= {"source": f"{self.citation} {self.url}", "read_from": read.read_from}
        origin["sha256"] = _sha256(read)
        known = (self.answer_kind, read.groups, self.measures)
        return LoadedTestSet(self.name, read.queries, read.qrels, *known, origin, read.folds)

    def _fault(self, read: Contents) -> str:
        """The first difference between the contents of a source and this set; "" if they agree."""
        texts = {query.id: query.text for query in read.queries}
        qrels = read.qrels or {}
        rows = read.judgements or sum(map(len, qrels.values()))
        counts: list[tuple[str, int, int | None]] = [
            ("questions", len(texts), self.queries),
            ("judgements", rows, self.judgements),
            ("questions with judgements", len(qrels), self.judged),
        ]
        counts += [
            (f'questions of the group "{group}"', len(read.groups.get(group, ())), count)
            for group, count in self.groups.items()
        ]
        for name, count, expected in counts:
            if expected is not None and count != expected:
                return f"{count:,} {name}, expected {expected:,}"
        stray = next((query for query in qrels if query not in texts), None)
        if stray is not None:
            return f'judgements of question "{stray}", which is missing'
        if self.answers:
            without = next((query for query in read.queries if not query.answers), None)
            if without is not None:
                return f'question "{without.id}" has no answers'
        for id_, text in self.records.items():
            if texts.get(id_) != text:
                actual = f'is "{texts[id_]}"' if id_ in texts else "is missing"
                return f'question "{id_}" {actual}, expected "{text}"'
        return ""


def _sha256(read: Contents) -> str:
    digest = hashlib.sha256()
    for query in sorted(read.queries, key=lambda query: query.id):
        judged = (read.qrels or {}).get(query.id, {})
        row = [query.id, query.text, query.answers, judged]
        digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def write_test_set(test_set: LoadedTestSet, folder: Path) -> list[Path]:
    """Write queries.jsonl, qrels.txt if anything is judged, and folds.tsv if there are official folds.

    Only of the test set's questions. Returns the paths. Raises `UsageError` if the user has files there.
    """
    ids = [query.id for query in test_set.queries]
    files: dict[Path, Iterator[bytes]] = {folder / "queries.jsonl": queries_lines(test_set.queries)}
    if test_set.qrels is not None:
        judged = {id_: test_set.qrels[id_] for id_ in ids if id_ in test_set.qrels}
        files[folder / "qrels.txt"] = qrels_lines(judged)
    if test_set.folds:
        files[folder / "folds.tsv"] = (f"{test_set.folds[id_]}\t{id_}\n".encode() for id_ in ids)
    check_replaceable(*files)
    for path, lines in files.items():
        write_output(path, lines)
    return [*files]
