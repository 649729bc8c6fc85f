"""Search that learns from hyperlinks: indexes, searches, evaluations, and models trained on links.

    index = linkseek.build([{"id": "Mars", "title": "Mars", "text": "The red planet."}], "index/planets")
    for passage, score in index.search("Which planet is red?"):
        print(f"{score:.4f} {passage.title}")

The names in `__all__` and those of `linkseek.plugins` and `linkseek.testing` are public; everything in
`linkseek.app`, `.indexer`, `.reranker` and `.retriever` is internal. Any import from Linkseek runs this file
first, so its functions import what they need. An error that a caller can avoid is a `LinkseekError` with a
message and a hint.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

if not Path(__file__).with_name("indexer").is_dir():
    # A clone without symbolic links, as on Windows: the packages are the folders next to this one.
    __path__.append(str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from linkseek.app.evaluation.results import Results
    from linkseek.hits import Hit, Hits
    from linkseek.indexer.documents import Document, Link
    from linkseek.indexer.passages import Passage, PassageStore
    from linkseek.indexer.program.errors import (
        BusyError,
        DamagedIndexError,
        InputError,
        LinkseekError,
        MachineError,
        MismatchError,
        UsageError,
    )
    from linkseek.reranker.contrasts import Contrast
    from linkseek.retriever.mining.command import MiningOptions
    from linkseek.retriever.mining.miner import Miner
    from linkseek.retriever.mining.pairs import Pair
    from linkseek.retriever.queries import Answers, Questions
    from linkseek.retriever.ranking import Pipeline, Query, Ranking
    from linkseek.retriever.search.runs import Judgements

__all__ = [
    "BusyError", "Contrast", "DamagedIndexError", "Document", "Hit", "Hits", "Index", "InputError", "Link",
    "LinkseekError", "MachineError", "MismatchError", "Pair", "Passage", "Pipeline", "Query", "Ranking",
    "Results", "UsageError", "build", "open", "train",
]  # fmt: skip

_MODULES = {
    "app.evaluation.results": ["Results"],
    "hits": ["Hit", "Hits"],
    "indexer.program.errors": [name for name in __all__ if name.endswith("Error")],
    "indexer.documents": ["Document", "Link"],
    "indexer.passages": ["Passage"],
    "reranker.contrasts": ["Contrast"],
    "retriever.mining.pairs": ["Pair"],
    "retriever.ranking": ["Pipeline", "Query", "Ranking"],
}
"""The modules of names that are imported on first use."""


if not TYPE_CHECKING:  # which know the names above, and no others

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"linkseek.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def build(
    documents: str | Path | Iterable[Document | Mapping[str, Any]],
    folder: str | Path,
    encoders: str | Path | Sequence[str | Path] = "all-MiniLM-L6-v2",
    **options: Any,
) -> Index:
    """Build an index and open it. Unchanged parts of an index in the same folder are reused.

    Args:
        documents: The path of a corpus, or documents in memory: `Document` records, or dictionaries with
            "id", "title", "text" and "links", which have "start", "end" and "target".
        folder: The index's folder. An existing index stays in use until the new one replaces it.
        encoders: Models that make vectors, by name or path; `[]` for an index without vectors.
        **options: Those of `linkseek build`, with underscores: `passage_words=50`, `bm25=False`, ...

    Raises:
        InputError: A document is damaged, or its id occurs twice (`on_error="skip"` skips it).
        UsageError: An option does not exist or is invalid, or the folder contains other files.
        BusyError: Another build works on the same folder.
    """
    from linkseek.indexer import build as command
    from linkseek.indexer.readers.in_memory import Documents

    own = {"corpus": None, "index": folder, "encoder": _listed(encoders), "dense": bool(_listed(encoders))}
    chosen = command.BuildOptions.from_keywords("linkseek.build", options, **own)
    corpus = Path(documents) if isinstance(documents, str | Path) else Documents(documents)
    command.build(Path(folder), chosen, corpus, "linkseek.build")
    return open(folder)


def open(folder: str | Path, pipelines_file: str | Path | None = None) -> Index:
    """Open an index.

    Args:
        folder: The folder of the index.
        pipelines_file: A TOML file with pipelines of your own (docs/reference/pipelines.md).

    Raises:
        DamagedIndexError: The folder contains no index, or a part of the index is missing or damaged.
        UsageError: The file of pipelines is invalid.
    """
    return Index(folder, pipelines_file)


def train(
    pairs: str | Path | Sequence[str | Path],
    output: str | Path | Mapping[str, Any],
    *,
    base: str | Path = "google-bert/bert-base-uncased",
    stage: Literal["pretrain", "finetune"] = "pretrain",
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    **tables: Mapping[str, Any],
) -> Path:
    """Train a bi-encoder on pairs, or resume the training; one training at a time in a process.

    Args:
        pairs: Files of pairs, as `Index.mine` writes them.
        output: The folder of the model, or the table `output` with its setting `folder`.
        base: The model to start from, by name or path.
        stage: "pretrain" for mined pairs, "finetune" for labelled ones; decides the defaults.
        model: Further settings of the table `model`.
        data: Further settings of the table `data`.
        **tables: Other tables of settings (docs/reference/training.md):
            `training={"epochs": 1}`, `loss={...}`, ...

    Returns:
        The folder of the model, which `build` takes as an encoder.

    Raises:
        UsageError: A setting does not exist or is invalid, or the folder contains something else.
        InputError: A file of pairs is damaged, or its pairs are for the other stage.
    """
    from linkseek.retriever.training.config import TrainConfig

    config = TrainConfig.from_keywords(
        "linkseek.train",
        tables,
        stage={"kind": stage},
        model={"base": str(base), **(model or {})},
        data={"pairs": _listed(pairs), **(data or {})},
        output=output if isinstance(output, Mapping) else {"folder": output},
    )
    from linkseek.retriever.training.pair_training import train as train_on_pairs

    train_on_pairs(config)
    return config.output.folder


class Index:
    """An open index. Threads may share it; processes that it is sent to reopen it."""

    def __init__(self, folder: str | Path, pipelines_file: str | Path | None = None) -> None:
        from linkseek.app.pipelines.catalogue import Pipelines
        from linkseek.app.pipelines.open_models import Models
        from linkseek.indexer import index
        from linkseek.indexer.program.errors import NoIndexError

        self._file = None if pipelines_file is None else Path(pipelines_file)
        self._models = Models()
        try:
            self._index = index.OpenIndex.open(folder)
        except NoIndexError as error:  # whose hint is a command
            hint = f"To build one: linkseek.build(DOCUMENTS, {str(folder)!r})"
            raise NoIndexError(error.message, hint, error.near) from None
        self._pipelines = Pipelines(self._index, self._file, self._models)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.folder.absolute(), self._file and self._file.absolute())

    def __repr__(self) -> str:
        return f"linkseek.open({str(self.folder)!r})"

    @property
    def folder(self) -> Path:
        """The folder of the index."""
        return self._index.path

    @property
    def passages(self) -> PassageStore:
        """The passages by row: `len(passages)`, `passages[row]`, `passages.rows_of(ids)`, and iteration."""
        return self._index.passages

    @property
    def pipelines(self) -> list[str]:
        """The names of the pipelines that can search the index."""
        return self._pipelines.available()

    def pipeline(self, name: str) -> Pipeline:
        """A pipeline as a function, from which to build your own. Raises `UsageError` for an unknown name."""
        opened = self._pipelines.open(name)

        def pipeline(queries: Sequence[Query], k: int) -> Ranking:
            return opened(queries, k)

        pipeline.__name__ = name
        return pipeline

    def _own(self, function: Pipeline) -> dict[str, Pipeline]:
        """The caller's function under its name, with checks of its results."""
        from linkseek.retriever.search.searching import own_pipeline

        name = str(getattr(function, "__name__", type(function).__name__))
        return {name: own_pipeline(function, name, len(self.passages))}

    def search(self, questions: Questions, k: int = 10, pipeline: str | Pipeline | None = None) -> Hits:
        """Search for the passages that answer one question, or many.

        Args:
            questions: A text, a `Query`, a list of them, texts by id, or the `Path` of a file of questions.
            k: The number of passages for each question; a smaller index returns all of its passages.
            pipeline: The name of a pipeline, or your own function; by default the recommended pipeline.

        Raises:
            UsageError: A question is empty, `k` is below 1, the pipeline does not exist, or the function does
                not return a ranking of the questions.
        """
        from linkseek.hits import Hits
        from linkseek.retriever.queries import as_queries
        from linkseek.retriever.search.searching import search

        queries, chosen = as_queries(questions), pipeline or self._pipelines.recommended
        _check_type(k, SupportsIndex, "k", "a whole number")
        if callable(chosen):
            [(name, opened)] = self._own(chosen).items()
        else:
            _check_type(chosen, str, "pipeline", "a name or a function")
            name, opened = chosen, self._pipelines.open(chosen)
        ranking = search(opened, queries, min(int(k), len(self.passages)), name=name).ranking
        return Hits(self, tuple(queries), ranking, name)

    def rerank(
        self, hits: Hits, model: str | Path | Sequence[str | Path] = "answers", **settings: Any
    ) -> Hits:
        """Re-rank hits by a model that reads each question together with its passages.

        Args:
            hits: The result of a search in this index.
            model: A re-ranker by name or path, or several as an ensemble.
            **settings: Those of a pipeline with `rerank` (docs/reference/pipelines.md):
                `depth=50`, `weight=0.5`, ...

        Raises:
            InputError: There is no such model.
            MismatchError: The hits are of another index.
            UsageError: A setting does not exist or is invalid.
        """
        from linkseek.hits import Hits

        _check_type(hits, Hits, "hits", "the result of a search")
        self._index.check_same(hits.index._index)
        rerank = self._pipelines.reranker("linkseek.Index.rerank", settings, _listed(model))
        name = "+".join([hits.pipeline, *_listed(model)])
        return replace(hits, ranking=rerank(hits.queries, hits.ranking), pipeline=name)

    def evaluate(
        self,
        questions: Questions,
        qrels: Judgements | None = None,
        pipelines: str | Pipeline | Sequence[str | Pipeline] | None = None,
        *,
        answers: Answers | None = None,
        answer_kind: Literal["tokens", "regex"] = "tokens",
        output: str | Path | None = None,
        **options: Any,
    ) -> Results:
        """Measure pipelines, with intervals and significance tests: `print(results)`, `results.to_frame()`.

        Args:
            questions: As for `search`; a `Query` may have answers. Or "headings", "anchors" or "titles":
                questions made from the index itself, with the options `limit`, `seed` and `only`.
            qrels: Relevance by id of the question and of a passage or document, or the path of such a file.
            pipelines: Names of pipelines or your own functions, compared with the first; by default the
                recommended pipeline.
            answers: Short answers by id of the question: a passage that contains one is relevant.
            answer_kind: How they match: "tokens" as in DPR, or "regex".
            output: A folder for runs, results.json and the report; by default nothing is written.
            **options: Those of `linkseek evaluate`, with underscores: `depth=20`, `measure=["nDCG@10"]`, ...

        Raises:
            UsageError: A pipeline, measure or option does not exist, or there are neither answers nor
                judgements.
            InputError: None of the judged ids is in the index.
        """
        from linkseek.app.evaluate import EvaluateOptions, given_test_set, load_test_set, run_evaluation
        from linkseek.app.testsets.known_items import KINDS

        caller = "linkseek.Index.evaluate"
        kind = questions if isinstance(questions, str) and questions in KINDS and qrels is None else None
        given = [self._pipelines.recommended] if pipelines is None else pipelines
        listed = [given] if isinstance(given, str) or callable(given) else [*given]
        own = [self._own(item) if callable(item) else {} for item in listed]
        chosen = EvaluateOptions.from_keywords(
            caller,
            {"latency": 0, **options},
            index=self.folder,
            pipeline=[next(iter(function), item) for function, item in zip(own, listed, strict=True)],
            test_set=kind,
            queries=questions if isinstance(questions, Path) else None,
            qrels=qrels if isinstance(qrels, str | Path) else None,
            answers=answer_kind,
            output=output,
            pipelines_file=self._file,
        )
        test_set = (
            load_test_set(chosen, self._index) if kind else given_test_set(chosen, questions, qrels, answers)
        )
        return run_evaluation(chosen, (), self._index, self._models, test_set, caller, ChainMap(*own))

    def mine(self, output: str | Path, objective: str = "hlp", **options: Any) -> dict[str, int]:
        """Mine training data from links and texts: pairs for bi-encoders, contrasts for cross-encoders.

        Args:
            output: A file in .jsonl or .jsonl.zst.
            objective: An objective of pairs or contrasts (docs/reference/objectives.md); for `ict` and `wlp`,
                which give both, the option `contrasts` selects contrasts.
            **options: Those of `linkseek mine` or `linkseek mine-contrasts`, with underscores:
                `pairs=1000`, `negatives="random"`, `contrasts=1000`, `seed=2`, ...

        Returns:
            The number of lines of each kind.

        Raises:
            UsageError: An objective or option does not exist, or the output is a file of yours.
            InputError: The index has no such data, for example because it has no links.
        """
        from linkseek.retriever.mining.command import write_mined

        chosen, miner, total = self._miner("linkseek.Index.mine", objective, options, Path(output))
        return dict(write_mined(miner, chosen.check_output(), objective, total).written)

    def pairs(self, objective: str = "hlp", **options: Any) -> Iterator[Pair]:
        """The pairs that `mine` would write, one after another; arguments and errors as there."""
        from linkseek.retriever.mining.pairs import read_pair

        _, miner, total = self._miner("linkseek.Index.pairs", objective, options, contrasts=False)
        pairs = (read_pair(line, "a mined pair") for line in miner.lines(total))
        return (pair for pair in pairs if pair is not None)

    def contrasts(self, objective: str, **options: Any) -> Iterator[Contrast]:
        """The contrasts that `mine` would write, one after another; arguments and errors as there."""
        from linkseek.reranker.contrasts import read_contrast

        _, miner, total = self._miner("linkseek.Index.contrasts", objective, options, contrasts=True)
        return (read_contrast(line, "a mined contrast") for line in miner.lines(total))

    def _miner(
        self,
        caller: str,
        objective: str,
        given: Mapping[str, Any],
        output: Path | None = None,
        contrasts: bool | None = None,
    ) -> tuple[MiningOptions, Miner[Any], int | None]:
        from linkseek.reranker.commands import mine_contrasts
        from linkseek.reranker.objectives.registry import CONTRASTS
        from linkseek.retriever.commands import mine
        from linkseek.retriever.mining.command import open_miner
        from linkseek.retriever.objectives.registry import PAIRS

        own = {"index": self.folder, "objective": objective, "output": output}
        if contrasts is None:
            contrasts = "contrasts" in given or CONTRASTS.knows(objective) > PAIRS.knows(objective)
        if contrasts:
            options = mine_contrasts.mine_options().from_keywords(caller, given, **own)
            mix = options.mix(objective, CONTRASTS)
            return options, open_miner(self._index, options, mix), options.contrasts
        pairs = mine.mine_options().from_keywords(caller, given, **own)
        return pairs, open_miner(self._index, pairs, pairs.mix(objective, PAIRS)), pairs.pairs


def _check_type(value: object, kind: type, name: str, expected: str) -> None:
    if not isinstance(value, kind):
        from linkseek.indexer.program.errors import UsageError

        raise UsageError(f"{name} is a {type(value).__name__}", f"Give {expected}.")


def _listed(value: str | Path | Sequence[str | Path]) -> list[str]:
    """One or several names or paths, as texts."""
    return [str(item) for item in ([value] if isinstance(value, str | Path) else value)]
