"""Groups from labelled pairs, or from a run with judgements, as a table that training reads in any order.

A group is a pair of `retriever.mining.pairs`: a query, its relevant text, and as hard negatives others that a
first stage ranks high, the best-ranked first.

Labelled pairs to the inputs of a re-ranker and its loss: groups of tokenised pairs, in pieces.

Pairs are tokenised and padded exactly as `reranker.models` does it for scoring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding
from torch import Tensor

from linkseek.indexer.encoding.batches import TokenRows
from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.indexer.store.tables import Row
from linkseek.reranker.models.cross_encoder import token_rows
from linkseek.reranker.pair_texts import UrlPlace
from linkseek.reranker.training.config import GroupSettings
from linkseek.reranker.training.run_groups import RowGroup, RunGroupTable, run_groups
from linkseek.retriever.mining.pairs import Pair, PairContext, read_pairs
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.checks.tokenizer_costs import tokenized
from linkseek.retriever.models.facts import ModelFacts, decoded, open_tokenizer, padded
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.log import NEGATIVES
from linkseek.retriever.training.losses.teacher import Teacher
from linkseek.retriever.training.samples.pair_inputs import context_keys, draw, key_of
from linkseek.retriever.training.samples.sample_table import PairTable, Sample, draw_shots

T = TypeVar("T")

GroupTable = PairTable | RunGroupTable

Group = tuple[str, T, Sequence[T], str]
"""A query, its relevant text, others, and a place for messages; a text is a `PairContext` or a row."""


def data_sha256(settings: GroupSettings) -> str:
    """One hash of all data; of an index, the hash of its passages. Raises `InputError` for a missing file."""
    files = [path for path in (settings.run, settings.queries, settings.qrels) if path is not None]
    hashes = [file_sha256(path) for path in existing([*settings.pairs, *files])]
    if settings.index is not None:
        hashes.append(str(OpenIndex.open(settings.index).parts.passages.to_json()["fingerprint"]))
    return combined_sha256(hashes)


def open_groups(settings: GroupSettings, url: UrlPlace, folder: Path, sha256: str) -> GroupTable:
    """The groups of all queries as a table in the folder, written if it is missing.

    url: whether and where a document's address is read. sha256: of the data. Raises `InputError` naming file
    and pair for an invalid pair and for one whose relevant text is empty, and if no query has a negative.
    """
    if settings.pairs:
        stored = folder / f"groups-{sha256[:16]}.arrow"
        return PairTable.open(stored, _pairs(settings.pairs), "groups")
    assert settings.index
    index = OpenIndex.open(settings.index)
    stored = folder / f"groups-{sha256[:16]}-{settings.depth}-rows.arrow"
    table = RunGroupTable.open(stored, _run_rows(settings, index), "groups")
    table.read_from(index, url)
    return table


def _pairs(paths: Sequence[Path]) -> Iterator[tuple[Pair, Row]]:
    read = (
        (pair.query, pair.positive, _others(pair), f"{path.name}, pair {number:,}")
        for path in paths
        for number, pair in enumerate(read_pairs(path), start=1)
    )
    for query, positive, negatives, place in _usable(read, _is_blank):
        yield PairTable.row(Pair(query, positive, hard_negatives=tuple(negatives)), place)


def dev_pairs(paths: Sequence[Path], limit: int) -> list[Pair]:
    """All pairs of the first `limit` queries of some files. Raises as `open_groups`."""
    number_of: dict[str, int] = {}
    pairs = (pair for pair, _ in _pairs(paths)) if paths else ()
    return [pair for pair in pairs if number_of.setdefault(pair.query, len(number_of)) < limit]


def _others(pair: Pair) -> list[PairContext]:
    """The negatives that are read, without copies of the relevant passage."""
    relevant = pair.positive.title, pair.positive.text
    return [c for c in pair.hard_negatives or pair.negatives if (c.title, c.text) != relevant]


def _run_rows(settings: GroupSettings, index: OpenIndex) -> Iterator[tuple[RowGroup, Row]]:
    texts, groups = run_groups(settings, index)
    are_documents = texts.candidates.level == "documents"
    is_blank = cache(lambda row: _is_blank(texts(row)))
    for query, positive, negatives, place in _usable(groups, is_blank, are_judged=True):
        columns = {"place": place, "query": query, "documents": are_documents}
        yield RowGroup(query, positive, tuple(negatives)), columns


def _is_blank(context: PairContext) -> bool:
    return not f"{context.title}{context.text}".strip()


def _usable(
    groups: Iterable[Group[T]], is_blank: Callable[[T], bool], *, are_judged: bool = False
) -> Iterator[Group[T]]:
    """Groups with a relevant text and a negative; how many lack one of them is printed on stderr.

    are_judged: published collections, such as Cranfield, judge empty texts; in pairs these are an error.
    """
    lacking = usable = empty = 0
    for query, positive, given, place in groups:
        negatives = [negative for negative in given if not is_blank(negative)]
        if is_blank(positive):
            if not are_judged:
                raise InputError(f"{place}: its relevant passage is empty", "Remove the pair.")
            empty += 1
        elif negatives:
            usable += 1
            yield query, positive, negatives, place
        else:
            lacking += 1
    if empty:
        log_line(f"{empty:,} judgements of empty texts are skipped")
    if not usable:
        raise InputError(
            f"none of {lacking:,} labelled pairs has a negative",
            "A re-ranker learns from both: linkseek negatives adds hard negatives.",
        )
    if lacking:
        log_line(f"{lacking:,} pairs without a negative are skipped")


Pairs = list[tuple[str, str]]
Features = dict[str, Tensor]
Reader = Callable[[slice], Features]
Texts = Callable[[Sample[Any], int], Pairs]
"""(sample, epoch) -> (query, text), the one to score highest first."""
Goals = Callable[[Sample[Any], int], NDArray[np.float32]]
"""(sample, epoch) -> a teacher's scores of these, float32 [1 + n]."""


class PairTokenizer:
    """(query, text) pairs to token ids, and those to tensors."""

    def __init__(self, facts: ModelFacts) -> None:
        self._facts = facts
        self._tokenizer = open_tokenizer(facts)

    def tokens(self, pairs: Sequence[tuple[str, str]]) -> TokenRows:
        """Token ids, in the second text as ~id."""
        return token_rows(tokenized(self._tokenizer, pairs))

    def encodings(self, pairs: Sequence[tuple[str, str]]) -> list[Encoding]:
        """The same tokens, each with its text and its place there."""
        encodings: list[Encoding] = self._tokenizer.encode_batch(list(pairs))
        return encodings

    def text_of(self, tokens: Any) -> str:
        """The words of a pair, for messages."""
        return decoded(self._tokenizer, tokens)

    def features(self, tokens: Sequence[Any]) -> Features:
        """Tokens of P pairs as the model's inputs, int64 [P, L] each."""
        return {name: torch.from_numpy(array) for name, array in padded(tokens, self._facts).items()}


@dataclass(frozen=True)
class GroupTexts:
    """How a labelled pair becomes a group. negatives: a limit on the texts that are not relevant."""

    format: TextFormat
    negatives: int
    seed: int = 0

    def contexts(self, sample: Sample[Pair], epoch: int) -> list[PairContext]:
        """The texts, the relevant one first; others are drawn anew for each epoch if there are more."""
        hard = draw(sample.record.hard_negatives, self.negatives, (self.seed, epoch, sample.row))
        return [sample.record.positive, *hard]

    def pairs(self, sample: Sample[Pair], epoch: int) -> Pairs:
        """(query, text) for each of `contexts`."""
        return self._read(sample.record.query, self.contexts(sample, epoch))

    def goals(self, teacher: Teacher, sample: Sample[Pair], epoch: int) -> NDArray[np.float32]:
        """A teacher's scores of `contexts`, float32 [1 + n]."""
        query = key_of(self.format.query(sample.record.query))
        return teacher.scores(query, [context_keys(c)[0] for c in self.contexts(sample, epoch)])

    def dev_pairs(self, pairs: Sequence[Pair]) -> Pairs:
        """The relevant texts of one query's pairs, then the best-ranked negatives, for the dev measure."""
        relevant = [pair.positive for pair in pairs]
        ranks = zip_longest(*(pair.hard_negatives for pair in pairs))
        negatives = dict.fromkeys(
            context for rank in ranks for context in rank if context not in (None, *relevant)
        )
        return self._read(pairs[0].query, [*relevant, *islice(negatives, self.negatives)])

    def _read(self, query: str, contexts: Sequence[PairContext]) -> Pairs:
        query = self.format.query(query)
        return [(query, self.format.passage(context.title, context.text)) for context in contexts]


class GroupCollator:
    """Samples to the inputs of one step.

    mini_batch: pairs in a piece; 0: all of them. goals: a teacher's scores.
    """

    def __init__(
        self, tokenizer: PairTokenizer, texts: Texts, mini_batch: int = 0, goals: Goals | None = None
    ) -> None:
        self._tokenizer, self._texts, self._mini_batch, self._goals = tokenizer, texts, mini_batch, goals

    def __call__(self, samples: Sequence[Sample[Any]], epoch: int) -> dict[str, Any]:
        """`pieces`: features of all pairs, group by group; `mask`: bool [B, 1 + n], the places they fill;
        `negatives`: [], the mean number of pairs that differ from the first; with a teacher `goals`: float32
        [B, 1 + n]."""
        groups = [self._texts(sample, epoch) for sample in samples]
        sizes = np.array([len(group) for group in groups])  # [B]
        mask = np.arange(sizes.max()) < sizes[:, None]  # [B, 1 + n]
        features = self._reader(samples, epoch, groups)
        pieces = [features(piece) for piece in cut(sizes.tolist(), self._mini_batch)]
        others = np.array([sum(pair != group[0] for pair in group) for group in groups], np.float32)  # [B]
        inputs: dict[str, Any] = {"pieces": pieces, "mask": torch.from_numpy(mask)}
        inputs[NEGATIVES] = torch.tensor(others.mean())
        if self._goals is not None:
            goals = np.zeros(mask.shape, np.float32)
            goals[mask] = np.concatenate([self._goals(sample, epoch) for sample in samples])
            inputs["goals"] = torch.from_numpy(goals)
        return inputs

    def _reader(self, samples: Sequence[Sample[Any]], epoch: int, groups: Sequence[Pairs]) -> Reader:
        """A function that makes the features of a piece of all groups' pairs."""
        tokens = self._tokenizer.tokens([pair for group in groups for pair in group])
        return lambda piece: self._tokenizer.features(tokens[piece])


def cut(sizes: Sequence[int], limit: int) -> list[slice]:
    """Pieces of groups of these sizes, each of at most `limit` pairs; 0: one piece.

    Whole groups stay together as long as each fits; otherwise all pieces but the last have the limit's size.
    """
    total = sum(sizes)
    if not limit or total <= limit:
        return [slice(0, total)]
    if max(sizes) > limit:
        return [slice(start, min(start + limit, total)) for start in range(0, total, limit)]
    starts, end = [0], 0
    for size in sizes:
        if end + size - starts[-1] > limit:
            starts.append(end)
        end += size
    return [slice(*ends) for ends in zip(starts, [*starts[1:], total], strict=True)]


def query_numbers(queries: Iterable[str]) -> NDArray[np.int64]:
    """The number of each row's query, int64 [N], in the order in which queries first appear.

    queries: the queries of all rows [N].
    """
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(text, len(number_of)) for text in queries], np.int64)


def draw_queries(numbers: NDArray[np.int64], shots: int | None, seed: int) -> NDArray[np.int64]:
    """The places of that many queries' rows, int64 [n] ascending: fewer shots of a seed are a part of more.

    numbers: int64 [N], of each row's query. Raises `InputError` if there are fewer.
    """
    queries = np.unique(numbers)
    chosen = queries[draw_shots(len(queries), shots, seed, "queries")]
    return np.flatnonzero(np.isin(numbers, chosen))
