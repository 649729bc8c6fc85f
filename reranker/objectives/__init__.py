"""Objectives turn texts and links into contrasts. Each is one file of this folder.

An objective works in three steps, so that millions of contrasts can be chosen from before a text is read:

    prepare(source)                    what all processes need and one works out (PROP's collection model)
    candidates(source)                 one row of numbers a contrast that there may be
    contrasts(source, rows, draws)     the contrasts of some candidates, in any process

To add an objective, add a file with a subclass of `Objective`: `--objective NAME` is there, and so are
sampling, mixing, several processes, statistics and the contract tests. Its settings are the fields of the
class; `python -m reranker.mine` has an option for each.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

import retriever.objectives
from reranker.mining.contrasts import Contrast, TextPair
from reranker.mining.groups import LinkGroups

DOCUMENT_WORDS = 512
"""How much of a document is kept (PROP's code): more than an encoder of 512 tokens reads."""

MIXES: dict[str, dict[str, float]] = {
    "harp": {"harp-rqp": 1.0, "harp-qdm": 1.0, "harp-rdp": 1.0, "harp-acm": 1.0},
}
"""Names that stand for several objectives with weights (HARP, section 3.2: tasks sampled uniformly)."""

_FIRST_WORDS = re.compile(rf"\S++(?:\s++\S++){{0,{DOCUMENT_WORDS - 1}}}")


@dataclass(frozen=True)
class Source(retriever.objectives.Source):
    """An index to mine from; what is worked out of it is worked out once a process."""

    @cached_property
    def link_groups(self) -> LinkGroups:
        """How closely documents are linked to passages (PHP)."""
        return LinkGroups(self.topology, np.asarray(self.index.passages.offsets))

    def document_id(self, document: int) -> str:
        """A document's id."""
        return str(self.index.documents.table.value("id", document))

    def title(self, document: int) -> str:
        """A document's title."""
        return str(self.index.documents.table.value("title", document))

    def document_text(self, document: int) -> str:
        """A document's first 512 words, as they stand there."""
        return self.first_words(str(self.index.documents.table.value("text", document)))

    @staticmethod
    def first_words(text: str) -> str:
        """What is kept of a document's text."""
        found = _FIRST_WORDS.search(text)
        return found.group() if found else ""

    def document_of(self, passage: int) -> int:
        """The document that a passage is from."""
        return int(np.searchsorted(self.index.passages.offsets, passage, side="right")) - 1

    def pair(self, query: str, document: int, anchors: Iterable[tuple[int, int]] = ()) -> TextPair:
        """A query with a document, which is cut to fit."""
        return TextPair(query, self.document_text(document), self.title(document), tuple(anchors))


class Objective(ABC):
    """One way to make contrasts. A subclass is a frozen dataclass: its fields are its settings."""

    name: ClassVar[str]
    """What `--objective` calls it, and what its contrasts say."""
    summary: ClassVar[str]
    """One line for --help."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives no contrasts."""
    needs_whole: ClassVar[bool] = False
    """Whether a document's candidates hang on more of the index than the links around the document."""
    loss: ClassVar[Literal["hinge", "lce"]] = "lce"
    """What is learnt from its contrasts, unless a training says otherwise."""
    masks_query: ClassVar[bool] = True
    """Whether tokens of its queries are masked too when a model learns to predict tokens beside."""
    worth_processes: ClassVar[int] = 20_000
    """How many contrasts take longer than starting processes."""

    def prepare(self, source: Source) -> Self:
        """This objective with what every process needs; it is pickled. Called once, before all else."""
        return self

    @abstractmethod
    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Everything that may give a contrast, int64 [n, k]: a row is what `contrasts` wants to know.

        Of texts, only what is needed to count: a candidate may turn out to give nothing.
        """

    @abstractmethod
    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """One contrast for each of some candidates, in order; None for one that gives none.

        rows: int64 [m, k]. draws: int64 [m], in [0, 2**62), by which whatever is random is chosen. A
        candidate gives the same whatever the process and the calls before; which m are together depends on
        the number of contrasts and the seed alone.
        """

    @abstractmethod
    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document that each of some candidates is mined from, int64 [m]; the page of an article asks.

        Of a link it is the one that holds it.
        """

    def counts(self, source: Source) -> dict[str, Any]:
        """What `--stats` says of the corpus for this objective, besides the number of candidates."""
        return {}

    def nothing(self, source: Source) -> str:
        """Why there is no candidate; said after the name."""
        counts = source.index.manifest["counts"]
        if self.needs_links and counts["between_documents"] == 0:
            return (
                f"needs links between documents, and there are none ({counts['dangling']:,} links lead to "
                f"nothing, {counts['cut']:,} are cut by a passage's end)"
            )
        return "finds nothing to contrast"


@cache
def all_objectives() -> dict[str, type[Objective]]:
    """Every objective by name, in alphabetical order of their files."""
    found: dict[str, type[Objective]] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for value in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Objective) and "name" in vars(value):
                found[value.name] = value
    return found
