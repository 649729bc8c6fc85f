"""What every kind of pipeline has in common: `Entry`, a table of `pipelines.toml`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from linkseek.app.pipelines.open_pipeline import FirstStage, OpenPipeline, PipelineParts
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.settings import Settings

GROUPS = {
    "BM25": "Counts the words of the question in each passage; so does ql, by query likelihood.",
    "Zero-shot": "Compares vectors of an encoder that has not learned from hyperlinks.",
    "Taught by links": "Compares vectors of an encoder that has learned from hyperlinks, as HLP does.",
    "Fused": "Joins the rankings of several pipelines into one.",
    "Follows links": "Adds passages that the best ones link to, for questions that need several passages.",
    "Re-ranked": "A model reads the question with each of the best passages, and ranks these again.",
    "Other": "Results of other systems, and kinds of your own.",
}
"""The groups that the search page lists pipelines in, each with a sentence."""

Device = Literal["auto", "cpu", "cuda"]
Depth = Annotated[int, Field(ge=1, le=1_000_000)]


class Entry(Settings, ABC):
    """A table of `pipelines.toml`."""

    chosen_by: ClassVar[tuple[str, str]]
    """the key that makes a table one of this kind, and its value, in capitals if any value does"""
    reads_run: ClassVar[bool] = False
    """whether it answers only the questions of a run file"""
    in_group: ClassVar[str] = "Other"
    """which of `GROUPS` it belongs to"""
    file_key: ClassVar[str] = ""
    """the key of a file that it reads, if any; its path is relative to the file of the table"""
    without_effect: ClassVar[set[str]] = set()
    """keys that its results do not depend on"""

    @property
    def members(self) -> Sequence[str]:
        """The names of the pipelines that this one is made of."""
        return ()

    @property
    def first_stage(self) -> FirstStage | None:
        """Of a pipeline whose `OpenPipeline.rerank` is a stage of its own; None for any other."""
        return None

    @property
    def is_control(self) -> bool:
        """Whether it is a control of an experiment, which nobody is offered."""
        return False

    @property
    def reads_links(self) -> bool:
        """Whether it ranks by links between passages, its members aside."""
        return False

    def group(self, index: OpenIndex) -> str:
        """Which of `GROUPS` lists it."""
        return self.in_group

    def located(self, folder: Path) -> Self:
        """The same with paths that are relative to the folder of its file."""
        file = self._file
        return self.model_copy(update={self.file_key: folder / file}) if file else self

    def is_available(self, index: OpenIndex) -> bool:
        """Whether an index and this machine have its own parts; the parts of its members do not count."""
        return self._file is None or self._file.is_file()

    def reads(self, index: OpenIndex) -> bool:
        """Whether its own models can read the passages of an index."""
        return True

    def fingerprint(self) -> dict[str, Any]:
        """Everything that its results depend on except the index, its members and the questions."""
        values, file = self.model_dump(mode="json", exclude=self.without_effect), self._file
        return values | ({f"{self.file_key}_sha256": file_sha256(file)} if file and file.is_file() else {})

    @property
    def _file(self) -> Path | None:
        return getattr(self, self.file_key) if self.file_key else None

    @abstractmethod
    def describe(self, index: OpenIndex) -> str:
        """A few words for the search page."""

    @abstractmethod
    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        """The pipeline of this name, ready to run. Raises `LinkseekError` if a part is missing."""
