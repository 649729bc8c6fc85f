"""Named pipelines: a table of `pipelines.toml` -> a function from queries to a `Ranking`.

`pipeline_kinds` says which kinds there are. Pipelines may be made of others; each is opened once, in
whichever thread, and so are the encoders and re-rankers that they share, by `Models` also between indexes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from orjson import dumps

from linkseek.app.pipelines.fusion_kinds import WeightedEntry
from linkseek.app.pipelines.open_models import Models
from linkseek.app.pipelines.pipeline_entry import (
    GROUPS,
    FirstStage,
    OpenPipeline,
    PipelineEntry,
    PipelineParts,
)
from linkseek.app.pipelines.pipeline_kinds import DenseEntry, RerankEntry, WordsEntry, all_kinds
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.machine.once import Once, shared_property
from linkseek.indexer.program.errors import LinkseekError, MachineError, UsageError
from linkseek.indexer.program.options import options_lines
from linkseek.indexer.program.paths import check_name
from linkseek.indexer.program.settings import read_toml, validate
from linkseek.indexer.program.text import nearest
from linkseek.reranker.models.scoring import index_scorer
from linkseek.reranker.reranking import AnyScorer, Reranker
from linkseek.retriever.models.locations import STATIC_ENCODER
from linkseek.retriever.ranking import Query

_log = logging.getLogger(__name__)

_MAX_MEMBERS = 50
_TRIES = 2  # of a pipeline in the background

_THREADS = ThreadPoolExecutor(1_000, "opening")
"""For all indexes; more than are ever needed, so that a pipeline without a model waits for no model."""

RECOMMENDED = "hybrid-weighted"
"""The highest means of BM25, the default encoder and their fusions (docs/results/results.md)."""
RECOMMENDED_STATIC = "hybrid-static"
"""The default for vectors of `STATIC_ENCODER`, which need another fusion weight."""

STANDARD = Path(__file__).with_name("pipelines.toml")


def read_pipelines(path: Path | None = None) -> dict[str, PipelineEntry]:
    """The standard entries and the entries of a file, which win. Raises `UsageError` for an invalid entry."""
    return _standard() | (_entries(path) if path else {})


def _entries(source: Path) -> dict[str, PipelineEntry]:
    tables = read_toml(source, "It must be a TOML file of pipelines.")
    return {name: _entry(source, name, table) for name, table in tables.items()}


@cache
def _standard() -> dict[str, PipelineEntry]:
    return _entries(STANDARD)


def _is_default(entry: PipelineEntry) -> bool:
    """Whether it searches the vectors of the default encoder, without naming it."""
    return isinstance(entry, DenseEntry) and not entry.encoder


def _entry(source: Path, name: str, table: Any) -> PipelineEntry:
    check_name(name, f"{source}: the pipeline")
    if not isinstance(table, dict):
        raise UsageError(f"{source}: [{name}] is not a table", 'Write [name] and searcher = "bm25" below it.')
    for kind in all_kinds():
        key, value = kind.chosen_by
        if table.get(key) == value or (value.isupper() and key in table):
            hint = "docs/reference/pipelines.md has examples."
            entry = validate(kind, table, file=source, table=name, hint=hint)
            return entry.located(source.parent)
    kinds = ", ".join(f'{key} = "{value}"' for key, value in (kind.chosen_by for kind in all_kinds()))
    raise UsageError(f"{source}: [{name}] has no known searcher or fusion", f"One of: {kinds}.")


class Pipelines:
    """The pipelines that can be run on one index. Opens each when it is first asked for, in any thread."""

    def __init__(
        self,
        index: OpenIndex,
        path: Path | None = None,
        models: Models | None = None,
        *,
        first_run: bool = False,
    ) -> None:
        """path: a file of further pipelines. models: shared with other indexes.

        first_run: whether each is run once when it is opened: the first run is slower than the others.
        """
        self.index = index
        self._first_run = first_run
        self.entries = read_pipelines(path)
        self._models = models or Models()
        self._opened: Once[OpenPipeline] = Once(self._open)
        self.parts = PipelineParts(index, self.open, self._models.encoder, self._scorer)

    def available(self) -> list[str]:
        """The names of those whose parts the index has, and whose re-rankers are on this machine."""
        return [name for name in self.entries if self._has_parts(name)]

    def offered(self, names: Iterable[str] | None = None, chosen: Sequence[str] = ()) -> list[str]:
        """Names to choose from, by default all available; `chosen` stay; of those that are alike, one."""
        names = [*(self.available() if names is None else names)]
        firsts = {next(same for same in self._alike.get(name, [name]) if same in names) for name in names}
        return [name for name in names if name in firsts or name in chosen]

    @shared_property
    def _alike(self) -> dict[str, list[str]]:
        """Pipeline -> those that search the same on this index, those that name their encoders first.

        Standard ones may differ in their weights, each of which is for an encoder.
        """
        groups: dict[bytes, list[str]] = {}
        for name in self.entries:
            with suppress(UsageError):  # which `open` raises, too
                groups.setdefault(self._searches(name), []).append(name)
        for group in groups.values():
            group.sort(key=lambda name: any(_is_default(entry) for _, entry in self._tree(name)))
        return {name: group for group in groups.values() for name in group}

    def _searches(self, name: str) -> bytes:
        """What a pipeline does on this index, by any name; of a standard one, with any weights."""
        default, does = self.index.manifest.default_encoder, []
        for member, entry in self._tree(name):
            is_standard = isinstance(entry, WeightedEntry) and entry is _standard().get(member)
            ignored = {"weights"} if is_standard else set()
            values = entry.model_dump(mode="json", exclude={"of", *entry.without_effect, *ignored})
            values |= {"encoder": default} if _is_default(entry) else {}
            does.append((values, len(entry.members)))
        return dumps(does)

    def _has_parts(self, name: str) -> bool:
        try:
            return all(entry.is_available(self.index) for _, entry in self._tree(name))
        except UsageError:
            return False

    def reads_links(self, name: str) -> bool:
        """Whether a pipeline or one that it is made of ranks by links between passages."""
        return any(entry.reads_links for _, entry in self._tree(name))

    def has_words(self, name: str) -> bool:
        """Whether a pipeline is a search of words alone, which needs no model."""
        return isinstance(self.entries.get(name), WordsEntry)

    def has_vectors(self, name: str) -> bool:
        """Whether a pipeline is a search of vectors alone."""
        return isinstance(self.entries.get(name), DenseEntry)

    def first_stage(self, name: str) -> FirstStage | None:
        """The first stage of a pipeline that re-ranks another pipeline; None for all others."""
        return self.entries[name].first_stage if name in self.entries else None

    @property
    def _usual(self) -> str:
        """The pipeline that is recommended where all models can read the passages."""
        is_static = self.index.manifest.default_encoder == STATIC_ENCODER
        return RECOMMENDED_STATIC if is_static else RECOMMENDED

    @property
    def recommended(self) -> str:
        """The pipeline of a question that names none: the best on average that can read the passages."""
        available = self.available()
        wanted = [name for name in (self._usual, *available) if name in available]
        return next(filter(self.reads, wanted), next(iter(wanted), self._usual))

    def reads(self, name: str) -> bool:
        """Whether the models of a pipeline, if it has any, can read the passages."""
        return all(entry.reads(self.index) for _, entry in self._tree(name))

    def language_note(self, name: str | None = None) -> str:
        """That a pipeline, by default the usual one, cannot read the passages, and the remedy.

        Empty if it can, or if the index lacks its parts.
        """
        wanted = name or self._usual
        if not self._has_parts(wanted) or self.reads(wanted):
            return ""
        note = f"{wanted}: its models cannot read the texts of this index (language: {self.index.language})"
        if (recommended := self.recommended) != wanted:
            note += f"; {recommended} {'ranks better' if name else 'answers instead'}"
        return f"{note}. {self.index.reading_hint}".rstrip()

    @property
    def first_visit(self) -> tuple[str, ...]:
        """The pipelines that a first visit compares: words, vectors, vectors taught by links (or the
        recommended one), and the best one; or the first two."""
        available = self.offered()
        read = [name for name in available if self.reads(name)]
        is_static = self._usual == RECOMMENDED_STATIC
        vectors, best = ("static", "best-static") if is_static else ("dense", "best")
        third = next((name for name in ("hlp-finetuned", "hlp") if name in read), self.recommended)
        chosen = [name for name in dict.fromkeys(["bm25", vectors, third, best]) if name in read]
        return tuple(chosen if len(chosen) > 1 else available[:2])

    def check(self, names: Iterable[str]) -> None:
        """Raise `UsageError` for unknown names, before anything is opened."""
        for name in names:
            self._tree(name)

    def _parts_of(self, name: str) -> list[str]:
        """A pipeline with its direct and indirect members; each comes before the pipelines made of it."""
        try:
            tree = [member for member, _ in self._tree(name)]
        except UsageError:  # which `open` raises, too
            return [name]
        return list(dict.fromkeys(reversed(tree)))

    def fingerprint(self, name: str) -> dict[str, Any]:
        """Everything that a pipeline's results depend on except index and questions, by name of its
        members."""
        return {member: entry.fingerprint() for member, entry in self._tree(name)}

    def describe(self, name: str) -> str:
        """A few words that describe a pipeline, and those that are alike on this index."""
        others = [other for other in self._alike.get(name, ()) if other != name]
        also = f"; on this index like {' and '.join(others)}" if others else ""
        return self.entries[name].describe(self.index) + also

    def grouped(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Pipelines by the group that lists them, in the order of `GROUPS`."""
        groups: dict[str, list[str]] = {group: [] for group in GROUPS}
        for name in names:
            groups[self.entries[name].group(self.index)].append(name)
        return {group: members for group, members in groups.items() if members}

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """The identities of the re-rankers that were opened, by the names that entries use."""
        opened = [self._opened.made[(name,)] for name in self.entries if self.is_ready(name)]
        return {name: identity for pipeline in opened for name, identity in pipeline.models.items()}

    def open(self, name: str | None = None) -> OpenPipeline:
        """One pipeline, ready to run; without a name the recommended one.

        Raises `UsageError` for an unknown name or a missing part.
        """
        return self._opened(name or self.recommended)

    def reranker(self, function: str, keywords: Mapping[str, Any], models: Sequence[str]) -> Reranker:
        """The second stage of a table with `rerank`, for a ranking of any origin.

        keywords: the function's keywords for its other settings. Raises `UsageError` for invalid ones,
        `LinkseekError` if a model is missing.
        """
        entry = RerankEntry.from_keywords(function, keywords, rerank=list(models), of="")
        return entry.reranker(self.parts, function)

    def is_ready(self, name: str) -> bool:
        """Whether a pipeline is open, so that a search starts at once."""
        return (name,) in self._opened.made

    def write_turned(self, name: str, weights: Sequence[float], file: Path) -> str:
        """Add a pipeline with other weights to a file of pipelines, and return its name.

        Raises `UsageError` for weights that it cannot have, and if a pipeline has that name.
        """
        valid = len(weights) > 1 and all(0 <= weight <= 1e9 for weight in weights) and any(weights)
        entry = self.entries[name].turned(weights) if valid and name in self.entries else None
        if entry is None:
            raise UsageError(
                f"{name[:100]}: these weights are not possible", "Give numbers of 0 or more, not all 0."
            )
        named = f"{name}-{'-'.join(f'{100 * weight:.0f}' for weight in weights)}"
        if named in self.entries:
            raise UsageError(f"there is already a pipeline {named}", "Choose it, or other weights.")
        table = options_lines(entry.model_dump(mode="json", exclude_defaults=True))
        try:
            with file.open("ab") as written:
                written.write(b"".join([b"\n[", dumps(named), b"]\n", *table]))
        except OSError as error:
            raise MachineError(f"{file}: {error.strerror}", "Choose another --pipelines-file.") from None
        return named

    def start(self, name: str) -> Future[OpenPipeline]:
        """Open a pipeline in a thread, and its members in others, unless they are open or being opened.

        What could not be opened is tried again by the next one who asks.
        """
        return [self._opened.start(_THREADS, part) for part in self._parts_of(name)][-1]

    def warm(self, names: Iterable[str]) -> None:
        """Open pipelines in the background, one after another: at the same time, all would be ready late.

        One that fails is logged and tried again.
        """
        _THREADS.submit(self._open_in_turn, [name for name in names for _ in range(_TRIES)])

    def _open_in_turn(self, names: Sequence[str]) -> None:
        for name in names:
            if error := self.start(name).exception():
                if _program_ends():  # and what it needs is gone
                    return
                trace = None if isinstance(error, LinkseekError) else error
                _log.warning("the pipeline %r could not be opened: %s", name, error, exc_info=trace)

    def _open(self, name: str) -> OpenPipeline:
        self._tree(name)  # checks names and circles
        entry = self.entries[name]
        opened = entry.open(self.parts, name)
        if self._first_run and len(self.index.passages):
            queries = [Query("first", self.index.passages[0].text[:100])]
            if opened.rerank and entry.first_stage:  # a pair is enough
                first = self.open(entry.first_stage.pipeline)
                opened.rerank(queries, first(queries, 1), 1)
            else:
                opened(queries, 1)
        return opened

    def _tree(self, name: str) -> list[tuple[str, PipelineEntry]]:
        """A pipeline with its direct and indirect members, as often as each is run.

        Raises `UsageError` for an unknown name, a circle, and more than `_MAX_MEMBERS` in all.
        """
        tree: list[tuple[str, PipelineEntry]] = []
        waiting: list[tuple[str, ...]] = [(name,)]  # each with those that need it, the first one first
        while waiting:
            *above, name = path = waiting.pop()
            if name not in self.entries:
                raise UsageError(f'no pipeline "{name}"', nearest(name, set(self.entries)))
            if name in above:
                circle = " -> ".join(path)
                raise UsageError(
                    f"pipelines depend on each other in a circle: {circle}", "Remove one of them from `of`."
                )
            tree.append((name, self.entries[name]))
            if len(tree) > _MAX_MEMBERS:
                raise UsageError(
                    f'the pipeline "{path[0]}" and its members are more than {_MAX_MEMBERS}',
                    "Use fewer in `of`.",
                )
            waiting += [(*path, member) for member in reversed(self.entries[name].members)]
        return tree

    def _scorer(self, name: str, device: str, precision: Precision) -> AnyScorer:
        own = index_scorer(self.index, name, self._models.encoder)
        return own or self._models.scorer(name, device, precision)


def _program_ends() -> bool:
    """Whether threads can no longer be started."""
    try:
        _THREADS.submit(bool)
    except RuntimeError:
        return True
    return False
