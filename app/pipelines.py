"""Named pipelines: an entry of `pipelines.toml` -> a function from queries to a `Ranking`.

A pipeline is a searcher (`bm25`, `query-likelihood`, `dense`), a run file of another system, a fusion of
other pipelines, or another pipeline whose best results a model re-ranks. What an entry may say is what its
model here declares: an unknown key is an error that names the nearest known one. Encoders and re-rankers are
opened once and shared between pipelines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from indexer.base.errors import UsageError
from indexer.base.progress import progress
from indexer.base.settings import Settings, nearest, read_toml, validate
from indexer.index import Index
from reranker.candidates import PassageCandidates
from reranker.models.scoring import PairScorer, open_scorer, scorer_is_here
from reranker.reranking import DEPTH, Long, Reranker
from retriever.models.locations import Precision
from retriever.ranking import Query, Ranking
from retriever.search import fusion
from retriever.search.searchers import Bm25, Dense, QueryLikelihood, RecordedRun
from retriever.search.stages import stage

if TYPE_CHECKING:
    from retriever.models.biencoder import BiEncoder

Pipeline = Callable[[Sequence[Query], int], Ranking]
"""(Q queries, k) -> a `Ranking` of Q queries and k columns."""

OpenEncoder = Callable[[str], "BiEncoder"]

OpenScorer = Callable[[str, str, Precision], PairScorer]
"""(name, device, precision) -> a re-ranker."""

Device = Literal["auto", "cpu", "cuda"]

STANDARD = Path(__file__).with_name("pipelines.toml")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Bm25Entry(Settings):
    """Lucene's BM25."""

    searcher: Literal["bm25"]
    k1: float = 0.9
    b: float = 0.4


class QueryLikelihoodEntry(Settings):
    """Lucene's query likelihood with Dirichlet smoothing."""

    searcher: Literal["query-likelihood"]
    mu: float = 1000.0


class DenseEntry(Settings):
    """FAISS, with the vectors of one encoder."""

    searcher: Literal["dense"]
    encoder: str | None = None
    query_encoder: str | None = None
    device: Device = "auto"
    search: dict[str, int] = Field({})


class RunEntry(Settings):
    """A TREC run of passages; its path is relative to the file that names it."""

    run: Path


class ReciprocalRankEntry(Settings):
    """Fusion by ranks. Every pipeline in `of` is searched `depth` deep, or deeper if asked."""

    fusion: Literal["reciprocal-rank"]
    of: Annotated[list[str], Field(min_length=1)]
    constant: float = 60.0
    depth: Annotated[int, Field(ge=1)] = 100


class WeightedEntry(Settings):
    """Fusion by scores, scaled to 0..1 for each query."""

    fusion: Literal["weighted"]
    of: Annotated[list[str], Field(min_length=1)]
    weights: list[float]
    depth: Annotated[int, Field(ge=1)] = 100


class RerankEntry(Settings):
    """The best `depth` of another pipeline, re-ranked by a model, or by several together."""

    rerank: Annotated[list[str], Field(min_length=1), BeforeValidator(_listed)]
    of: str
    depth: Annotated[int, Field(ge=1)] = DEPTH
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    long: Long = "first"
    device: Device = "auto"
    precision: Precision = "auto"


Entry = (
    Bm25Entry
    | QueryLikelihoodEntry
    | DenseEntry
    | RunEntry
    | ReciprocalRankEntry
    | WeightedEntry
    | RerankEntry
)

_KINDS: dict[tuple[str, str], type[Entry]] = {
    ("searcher", "bm25"): Bm25Entry,
    ("searcher", "query-likelihood"): QueryLikelihoodEntry,
    ("searcher", "dense"): DenseEntry,
    ("fusion", "reciprocal-rank"): ReciprocalRankEntry,
    ("fusion", "weighted"): WeightedEntry,
}


def read_pipelines(path: Path | None = None) -> dict[str, Entry]:
    """The standard entries, and those of a file, which win. Raises `UsageError` for a bad entry."""
    entries: dict[str, Entry] = {}
    for source in [STANDARD, path] if path else [STANDARD]:
        for name, table in read_toml(source, "It must be a TOML file of pipelines.").items():
            entries[name] = _entry(source, name, table)
    return entries


def _entry(source: Path, name: str, table: Any) -> Entry:
    where = f"{source}: [{name}]"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", 'Write [name] and searcher = "bm25" below it.')
    model = next((model for (key, kind), model in _KINDS.items() if table.get(key) == kind), None)
    if model is None:
        model = RunEntry if "run" in table else RerankEntry if "rerank" in table else None
    if model is None:
        kinds = ", ".join([*(f'{key} = "{kind}"' for key, kind in _KINDS), 'rerank = "MODEL"'])
        raise UsageError(f"{where} has no known searcher or fusion", f'One of: {kinds}, run = "FILE".')
    entry = validate(model, table, file=source, table=name, hint="docs/pipelines.md has examples.")
    if isinstance(entry, RunEntry):
        return RunEntry(run=source.parent / entry.run)
    if isinstance(entry, RerankEntry):
        folders = [source.parent / model for model in entry.rerank]
        models = [str(f) if f.is_dir() else model for f, model in zip(folders, entry.rerank, strict=True)]
        return entry.model_copy(update={"rerank": models})
    return entry


class Reranking:
    """A pipeline of two stages, which can also be run one after the other: `first`, then `rerank`."""

    def __init__(self, first: Pipeline, reranker: Reranker) -> None:
        self.first = first
        self.depth = reranker.depth
        self._reranker = reranker

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best of each query, out of the first stage's best `depth`, or k if that is more."""
        return self.rerank(queries, self.first(queries, max(k, self.depth)), k)

    def rerank(self, queries: Sequence[Query], ranking: Ranking, k: int) -> Ranking:
        """The k best of what `first` gave; it should be asked for `depth` results, or k if that is more."""
        many = len(queries) > 1  # which can take minutes
        told = (
            progress("re-ranking", self._reranker.pairs(ranking), "pairs") if many else nullcontext(_silent)
        )
        with stage("rerank"), told as advance:
            return self._reranker.rerank(queries, ranking, advance).top(k)


def _silent(pairs: float) -> None:
    return


class Pipelines:
    """The pipelines that can be run on one index. Opens each when it is first asked for."""

    def __init__(
        self,
        index: Index,
        path: Path | None = None,
        open_encoder: OpenEncoder | None = None,
        open_scorer: OpenScorer | None = None,
    ) -> None:
        """path: a file of further pipelines. open_encoder, open_scorer: by name or path, instead of ours."""
        self.index = index
        self.entries = read_pipelines(path)
        self._open_encoder = open_encoder or _open_biencoder
        self._open_scorer = open_scorer or _open_scorer
        self._encoders: dict[str, BiEncoder] = {}
        self._scorers: dict[tuple[str, str, Precision], PairScorer] = {}
        self._opened: dict[str, Pipeline] = {}
        self.runs: dict[str, RecordedRun] = {}
        """Run files that were opened, by their entry's name."""

    def available(self, *, with_runs: bool = False) -> list[str]:
        """The names of those whose parts the index has, and whose re-rankers are on this machine.

        with_runs: also those that read run files, which know no questions but their own.
        """
        return [
            name
            for name in self.entries
            if self._has_parts(name, ()) and (with_runs or not self.reads_run(name))
        ]

    @property
    def models(self) -> dict[str, dict[str, Any]]:
        """What the re-rankers that were opened say of themselves, by the names that entries use."""
        return {name: scorer.identity for (name, *_), scorer in self._scorers.items()}

    def reads_run(self, name: str) -> bool:
        """Whether a pipeline is a run file, or fuses or re-ranks one."""
        return self._reads_run(name, ())

    def _reads_run(self, name: str, above: tuple[str, ...]) -> bool:
        entry = self.entries.get(name)
        if isinstance(entry, ReciprocalRankEntry | WeightedEntry):
            return name not in above and any(self._reads_run(of, (*above, name)) for of in entry.of)
        if isinstance(entry, RerankEntry):
            return name not in above and self._reads_run(entry.of, (*above, name))
        return isinstance(entry, RunEntry)

    def open(self, name: str) -> Pipeline:
        """One pipeline, ready to run. Raises `UsageError` for an unknown name or a missing part."""
        return self._open(name, ())

    def _open(self, name: str, above: tuple[str, ...]) -> Pipeline:
        if name not in self.entries:
            raise UsageError(f'no pipeline "{name}"', nearest(name, set(self.entries)))
        if name in above:
            circle = " -> ".join([*above, name])
            raise UsageError(f"pipelines need each other in a circle: {circle}", "Take one out of another.")
        if name not in self._opened:
            self._opened[name] = self._make(self.entries[name], (*above, name))
        return self._opened[name]

    def _make(self, entry: Entry, above: tuple[str, ...]) -> Pipeline:
        match entry:
            case Bm25Entry():
                return Bm25(self.index, entry.k1, entry.b).search
            case QueryLikelihoodEntry():
                return QueryLikelihood(self.index, entry.mu).search
            case DenseEntry():
                encoder = self._encoder(entry.query_encoder or self.index.dense(entry.encoder).encoder)
                return Dense(self.index, encoder, entry.encoder, entry.device, **entry.search).search
            case RunEntry():
                self.runs[above[-1]] = RecordedRun(self.index, entry.run)
                return self.runs[above[-1]].search
            case ReciprocalRankEntry():
                return self._fused(entry, above, lambda r, k: fusion.reciprocal_rank(r, k, entry.constant))
            case WeightedEntry():
                if len(entry.weights) != len(entry.of):
                    counts = f"{len(entry.of)} pipelines, {len(entry.weights)} weights"
                    raise UsageError(f"[{above[-1]}]: {counts}", "Give one weight for each.")
                return self._fused(entry, above, lambda r, k: fusion.weighted(r, entry.weights, k))
            case RerankEntry():
                first = self._open(entry.of, above)
                scorers = [self._scorer(name, entry.device, entry.precision) for name in entry.rerank]
                options: dict[str, Any] = entry.model_dump(include={"depth", "weight", "long"})
                return Reranking(first, Reranker(scorers, PassageCandidates(self.index), **options))

    def _fused(
        self,
        entry: ReciprocalRankEntry | WeightedEntry,
        above: tuple[str, ...],
        fuse: Callable[[Sequence[Ranking], int], Ranking],
    ) -> Pipeline:
        members = [self._open(name, above) for name in entry.of]

        def search(queries: Sequence[Query], k: int) -> Ranking:
            depth = max(k, entry.depth)
            rankings = [member(queries, depth) for member in members]
            with stage("fuse"):
                return fuse(rankings, k)

        return search

    def _encoder(self, wanted: str | Mapping[str, Any]) -> BiEncoder:
        location = wanted if isinstance(wanted, str) else str(wanted.get("location", wanted["name"]))
        if location not in self._encoders:
            self._encoders[location] = self._open_encoder(location)
        return self._encoders[location]

    def _scorer(self, *wanted: *tuple[str, str, Precision]) -> PairScorer:
        if wanted not in self._scorers:
            self._scorers[wanted] = self._open_scorer(*wanted)
        return self._scorers[wanted]

    def _has_parts(self, name: str, above: tuple[str, ...]) -> bool:
        entry = self.entries.get(name)
        match entry:
            case Bm25Entry() | QueryLikelihoodEntry():
                return self.index.has_lucene
            case DenseEntry():
                return bool(self.index.encoders) and entry.encoder in (None, *self.index.encoders)
            case RunEntry():
                return entry.run.is_file()
            case ReciprocalRankEntry() | WeightedEntry():
                return name not in above and all(self._has_parts(of, (*above, name)) for of in entry.of)
            case RerankEntry():
                is_here = all(map(scorer_is_here, entry.rerank))
                return name not in above and is_here and self._has_parts(entry.of, (*above, name))
            case None:
                return False


def _open_biencoder(location: str) -> BiEncoder:
    from retriever.models.biencoder import open_biencoder

    return open_biencoder(location, streams=1)


def _open_scorer(name: str, device: str, precision: Precision) -> PairScorer:
    return open_scorer(name, device=device, precision=precision)
