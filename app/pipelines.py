"""Named pipelines: a table of `pipelines.toml` -> a function from queries to a `Ranking`.

`app.pipeline_kinds` says which kinds there are. Pipelines may be made of others; encoders and re-rankers are
opened once and shared between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.pipeline_kinds import KINDS, Entry, Parts, Pipeline
from indexer.base.errors import UsageError
from indexer.base.settings import nearest, read_toml, validate
from indexer.index import Index
from reranker.models import scoring
from reranker.models.scoring import PairScorer
from retriever.models.locations import Precision
from retriever.search.searchers import RecordedRun

if TYPE_CHECKING:
    from retriever.models.biencoder import BiEncoder

STANDARD = Path(__file__).with_name("pipelines.toml")


def read_pipelines(path: Path | None = None) -> dict[str, Entry]:
    """The standard entries, and those of a file, which win. Raises `UsageError` for an invalid entry."""
    entries: dict[str, Entry] = {}
    for source in [STANDARD, path] if path else [STANDARD]:
        for name, table in read_toml(source, "It must be a TOML file of pipelines.").items():
            entries[name] = _entry(source, name, table)
    return entries


def _entry(source: Path, name: str, table: Any) -> Entry:
    if not isinstance(table, dict):
        raise UsageError(f"{source}: [{name}] is not a table", 'Write [name] and searcher = "bm25" below it.')
    for kind in KINDS:
        key, value = kind.chosen_by
        if table.get(key) == value or (value.isupper() and key in table):
            entry = validate(kind, table, file=source, table=name, hint="docs/pipelines.md has examples.")
            return entry.located(source.parent)
    kinds = ", ".join(f'{key} = "{value}"' for key, value in (kind.chosen_by for kind in KINDS))
    raise UsageError(f"{source}: [{name}] has no known searcher or fusion", f"One of: {kinds}.")


class Pipelines:
    """The pipelines that can be run on one index. Opens each when it is first asked for."""

    def __init__(
        self,
        index: Index,
        path: Path | None = None,
        open_encoder: Callable[[str], BiEncoder] | None = None,
        open_scorer: Callable[[str, str, Precision], PairScorer] | None = None,
    ) -> None:
        """path: a file of further pipelines. open_encoder, open_scorer: see `Parts`, instead of ours."""
        self.index = index
        self.entries = read_pipelines(path)
        self._open_scorer = open_scorer or scoring.open_scorer
        self._scorers: dict[tuple[str, str, Precision], PairScorer] = {}
        self._opened: dict[str, Pipeline] = {}
        self._parts = Parts(index, self.open, cache(open_encoder or _open_biencoder), self._scorer)

    def available(self, *, with_runs: bool = False) -> list[str]:
        """The names of those whose parts the index has, and whose re-rankers are on this machine.

        with_runs: also those that read run files, which know no questions but their own.
        """
        return [
            name for name in self.entries if self._has_parts(name) and (with_runs or not self.reads_run(name))
        ]

    def _has_parts(self, name: str) -> bool:
        try:
            return all(entry.is_available(self.index) for _, entry in self._tree(name))
        except UsageError:
            return False

    def reads_run(self, name: str) -> bool:
        """Whether a pipeline is a run file, or fuses or re-ranks one."""
        try:
            return any(entry.reads_run for _, entry in self._tree(name))
        except UsageError:
            return False

    def fingerprint(self, name: str) -> dict[str, Any]:
        """Everything that a pipeline's results depend on except index and questions, by name of its
        members."""
        return {member: entry.fingerprint() for member, entry in self._tree(name)}

    def describe(self, name: str) -> str:
        """A few words on what a pipeline does."""
        return self.entries[name].describe(self.index)

    @property
    def runs(self) -> dict[str, RecordedRun]:
        """The run files that were opened, by the names of their entries."""
        return {name: run for name, run in self._opened.items() if isinstance(run, RecordedRun)}

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """The identities of the re-rankers that were opened, by the names that entries use."""
        return {name: scorer.identity for (name, *_), scorer in self._scorers.items()}

    def open(self, name: str) -> Pipeline:
        """One pipeline, ready to run. Raises `UsageError` for an unknown name or a missing part."""
        if name not in self._opened:
            list(self._tree(name))  # checks names and circles
            self._opened[name] = self.entries[name].open(self._parts, name)
        return self._opened[name]

    def _tree(self, name: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Entry]]:
        """A pipeline and its members, and theirs. Raises `UsageError` for an unknown name or a circle."""
        if name not in self.entries:
            raise UsageError(f'no pipeline "{name}"', nearest(name, set(self.entries)))
        if name in above:
            circle = " -> ".join([*above, name])
            raise UsageError(
                f"pipelines need each other in a circle: {circle}", "Remove one of them from `of`."
            )
        yield name, self.entries[name]
        for member in self.entries[name].members:
            yield from self._tree(member, (*above, name))

    def _scorer(self, name: str, device: str, precision: Precision) -> PairScorer:
        key = (name, device, precision)
        if key not in self._scorers:
            self._scorers[key] = self._open_scorer(*key)
        return self._scorers[key]


def _open_biencoder(location: str) -> BiEncoder:
    from retriever.models.biencoder import open_biencoder

    return open_biencoder(location, streams=1)
