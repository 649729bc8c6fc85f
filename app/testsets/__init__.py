"""Test sets by name: their questions and judgements, and what is known of them.

Each file of this folder that holds a tuple `TEST_SETS` adds its members: `--test-set NAME`, the list of
`--list-test-sets`, the table in docs/test-sets.md and the checks come with being there.

A test set names sources, tried in their order: files in the user's data folder, files in our cache,
what ir_datasets keeps. Nothing is downloaded unless that was asked for. What was read is checked
against what is known of the set: counts and a few questions.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import orjson

from indexer.base.errors import InputError, UsageError
from indexer.base.settings import nearest
from retriever.models.locations import cache_folder
from retriever.ranking import Query
from retriever.search.runs import Qrels

AnswerKind = Literal["tokens", "regex"]


@dataclass(frozen=True, slots=True)
class LoadedTestSet:
    """A test set as the runner takes it."""

    name: str
    queries: list[Query]
    qrels: Qrels | None
    answer_kind: AnswerKind
    """tokens: DPR's matching; regex: answers are patterns (CuratedTREC)."""
    groups: dict[str, tuple[str, ...]]
    """Name of a subset -> its query ids; empty where there are none."""
    measures: tuple[str, ...]
    """The set's usual measures; () for the runner's defaults."""
    origin: dict[str, str]
    """For provenance: title, description, licence, source, read_from, sha256.

    The hash is of questions, answers and judgements sorted by id, so two packings of one set share it.
    """

    def described(self) -> dict[str, str]:
        """What a report says of it."""
        known = {key: self.origin.get(key, "") for key in ("description", "licence", "source")}
        return {"name": self.name, **known}


@dataclass(frozen=True, slots=True)
class Corpus:
    """What questions are asked on, and how an index of it is built."""

    title: str
    file: str
    """The name under which its file or folder is usually kept."""
    options: str
    """Further options of indexer/build.py."""
    index: str
    documents: int | None = None
    where: str = ""
    """Where to get it."""

    @property
    def build(self) -> str:
        """The command that builds an index of it."""
        return f"python indexer/build.py --corpus {self.file} {self.options} --index index/{self.index}"


@dataclass(frozen=True, slots=True)
class Places:
    """Where files may lie: the user's data folder, and the cache that downloads go to."""

    data: Path | None
    cache: Path


@dataclass(frozen=True, slots=True)
class Gap:
    """What a source lacks. download: whether `--download` gets it; size: bytes, None where unknown."""

    what: str
    hint: str
    download: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a source read. judgements: rows read; `qrels` has fewer if some were left out."""

    queries: list[Query]
    qrels: Qrels | None = None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    judgements: int | None = None
    read_from: str = ""


class Source(ABC):
    """One way to a test set's files."""

    @property
    @abstractmethod
    def needs(self) -> str:
        """What a user has to have or do, in a few words (Markdown)."""

    @abstractmethod
    def gap(self, places: Places) -> Gap | None:
        """What is missing; None if `read` has all it needs."""

    @abstractmethod
    def read(self, places: Places) -> Contents:
        """Read what is there. Raises `InputError` that names file and place."""

    def fetch(self, places: Places) -> None:
        """Download what is missing, if `gap` says that this can be done."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSet:
    """What is known of a test set, and where it may come from. None: not known, so not checked."""

    __test__: ClassVar[bool] = False  # its name looks like a test's

    name: str
    also: tuple[str, ...] = ()
    """Other names that it goes by."""
    title: str
    description: str
    """What the questions are, and what counts as right."""
    licence: str
    citation: str
    url: str
    corpus: Corpus
    sources: tuple[Source, ...]
    queries: int | None
    judgements: int | None = None
    judged: int | None = None
    """How many questions have judgements, if not all."""
    groups: Mapping[str, int] = field(default_factory=dict)
    answers: bool = False
    """Whether every question has answers."""
    answer_kind: AnswerKind = "tokens"
    level: Literal["passages", "documents"] | None = None
    """What is judged; None where answers alone decide."""
    measures: tuple[str, ...] = ()
    records: Mapping[str, str] = field(default_factory=dict)
    """Some questions by id."""

    def load(self, places: Places, *, download: bool = False) -> LoadedTestSet:
        """Read the set from the first source that is there, or download it, and check it.

        Raises `InputError` if no source is there, or if what was read is not this set.
        """
        gaps: list[tuple[Source, Gap]] = []
        for source in self.sources:
            gap = source.gap(places)
            if gap is None:
                return self._checked(source.read(places))
            gaps.append((source, gap))
        for source, gap in gaps:
            if download and gap.download:
                source.fetch(places)
                return self._checked(source.read(places))
        missing = "; nor ".join(gap.what for _, gap in gaps)
        hints = " ".join(dict.fromkeys(gap.hint for _, gap in gaps))
        raise InputError(f"test set {self.name}: not found: {missing}", hints)

    def _checked(self, read: Contents) -> LoadedTestSet:
        qrels = read.qrels
        rows = sum(map(len, qrels.values())) if qrels is not None else None
        texts = {query.id: query.text for query in read.queries}
        self._expect(read, "questions", len(texts), self.queries)
        self._expect(read, "judgements", read.judgements or rows, self.judgements)
        if qrels is not None:
            self._expect(read, "questions with judgements", len(qrels), self.judged)
            stray = next((query for query in qrels if query not in texts), None)
            if stray is not None:
                raise self._other(read, f'judgements of "{stray}", which is none of its questions')
        for group, count in self.groups.items():
            self._expect(read, f'questions of the group "{group}"', len(read.groups.get(group, ())), count)
        if self.answers:
            without = next((query for query in read.queries if not query.answers), None)
            if without is not None:
                raise self._other(read, f'question "{without.id}" has no answers')
        for id_, text in self.records.items():
            if texts.get(id_) != text:
                found = f'is "{texts[id_]}"' if id_ in texts else "is not there"
                raise self._other(read, f'question "{id_}" {found}, expected "{text}"')
        origin = {
            "title": self.title,
            "description": self.description,
            "licence": self.licence,
            "source": f"{self.citation} {self.url}",
            "read_from": read.read_from,
            "sha256": _sha256(read),
        }
        return LoadedTestSet(
            self.name, read.queries, qrels, self.answer_kind, read.groups, self.measures, origin
        )

    def _expect(self, read: Contents, what: str, found: int | None, expected: int | None) -> None:
        if expected is not None and found != expected:
            raise self._other(read, f"{found or 0:,} {what}, expected {expected:,}")

    def _other(self, read: Contents, what: str) -> InputError:
        return InputError(
            f"test set {self.name}, read from {read.read_from}: {what}",
            "The file is cut off, altered or another version. Get it again, or name it with --queries "
            "and --qrels if it is meant to differ.",
        )


def _sha256(read: Contents) -> str:
    digest = hashlib.sha256()
    for query in sorted(read.queries, key=lambda query: query.id):
        judged = (read.qrels or {}).get(query.id, {})
        row = [query.id, query.text, query.answers, judged]
        digest.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


@cache
def all_test_sets() -> dict[str, TestSet]:
    """Every test set by name, in the order of their files."""
    sets: dict[str, TestSet] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for test_set in getattr(importlib.import_module(f"{__name__}.{module}"), "TEST_SETS", ()):
            if test_set.name in sets:
                raise ValueError(f"two test sets are called {test_set.name}")
            sets[test_set.name] = test_set
    return sets


def find_test_set(name: str) -> TestSet:
    """The test set of a name. Raises `UsageError` that suggests the nearest name for an unknown one."""
    names = {other: test_set for test_set in all_test_sets().values() for other in test_set.also}
    names |= all_test_sets()
    if name not in names:
        raise UsageError(f"--test-set {name}: no such test set", nearest(name, set(names)))
    return names[name]


def open_test_set(name: str, data: Path | None = None, *, download: bool = False) -> LoadedTestSet:
    """A test set by name, read and checked.

    data: the user's folder of test sets; by default LINKSEEK_DATA, if that is set. download: whether
    missing files may be downloaded. Raises `UsageError` for an unknown name, else what `load` raises.
    """
    return find_test_set(name).load(places(data), download=download)


def places(data: Path | None = None) -> Places:
    """Where files may lie. Raises `InputError` if the data folder is none."""
    named = os.environ.get("LINKSEEK_DATA")
    folder = data or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "Check --data or LINKSEEK_DATA.")
    return Places(folder, cache_folder() / "test-sets")
