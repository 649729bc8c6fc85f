"""python -m experiments late-head: a layer over an encoder's token vectors, which follows a re-ranker.

The encoder stays as it is. The first results of a pipeline for training questions are scored by a re-ranker,
and the layer learns to give them the same order: the KL divergence of the softmax of its scores from that of
the re-ranker's (Hinton et al. 2015), or, without a re-ranker, the likelihood of the passages that contain an
answer. It starts from the first principal components of the token vectors. Vectors are computed once, so that
an epoch takes seconds where `linkseek train` runs the network for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.encoding.batches import encoded_batches
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.outputs import check_replaceable
from linkseek.reranker.models.scoring import PairScorer, open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.retriever.answers import find_answers
from linkseek.retriever.mining.pairs import read_pairs
from linkseek.retriever.models.late import LateEncoder, late_library_model, open_late, save_head, with_layer
from linkseek.retriever.models.locations import find_base
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query

PROGRAM = "python -m experiments late-head"
_SCALE = 20.0
"""Factor of the layer's scores, as for other vectors of length 1."""


class HeadOptions(Options):
    """Train a layer over the token vectors of an encoder on questions with answers."""

    index: Path
    """an index that the pipeline can search"""
    questions: Annotated[list[Path], Field(min_length=1)]
    """files of questions, with answers unless there is a teacher"""
    first: Annotated[list[int], Field(min_length=1)]
    """of each file, draw from so many first questions"""
    draw: Annotated[list[int], Field(min_length=1)]
    """how many questions to draw of each file"""
    output: Path
    """the folder of the layer"""
    pipeline: str = "hybrid-weighted"
    """whose first results are learned from"""
    pairs: Path | None = None
    """mined pairs, which are learned from as well: each query's passage among those of a batch"""
    pairs_weight: Annotated[float, Field(gt=0)] = 0.3
    """of the loss of these pairs"""
    teacher: str = ""
    """a re-ranker whose scores are followed; without one, passages with an answer are relevant"""
    encoder: str = DEFAULT_ENCODER
    """whose token vectors the layer reads"""
    dimension: Annotated[int, Field(ge=1)] = 96
    """numbers of a vector that the layer makes"""
    depth: Annotated[int, Field(ge=2)] = 16
    """results of a question"""
    epochs: Annotated[float, Field(gt=0)] = 3
    """passes over the questions"""
    batch: Annotated[int, Field(ge=1)] = 16
    """questions in a batch"""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """the highest; it rises for a tenth of the steps, then falls to 0"""
    seed: int = 1
    """of the draw of questions, and of their order"""


@dataclass(frozen=True)
class Lesson:
    """A question's token vectors [L, d], the rows of its results [D], and the goal, which sums to 1, [D].

    Of a mined pair, its passage is the only row.
    """

    query: Tensor
    rows: NDArray[np.int64]
    goal: Tensor


def main(argv: Sequence[str]) -> None:
    """Run the command. Raises `UsageError` unless there is a number for each file."""
    options = parse_options(HeadOptions, argv, PROGRAM)
    if not len(options.questions) == len(options.first) == len(options.draw):
        raise UsageError("--first and --draw need a number for each file of --questions", "Give as many.")
    check_replaceable(options.output)
    encoder = open_late(options.encoder)
    if options.dimension > encoder.dimension:
        raise UsageError(f"--dimension: its vectors have {encoder.dimension} numbers", "Give fewer.")
    index = OpenIndex.open(options.index)
    lessons = [*_lessons(options, index, encoder)]
    pairs = [*_mined(options.pairs, index, encoder)] if options.pairs else []
    rows = np.unique(np.concatenate([lesson.rows for lesson in [*lessons, *pairs]]))
    passages = _passages(index, encoder, rows)
    log_line(f"{len(lessons):,} questions, {len(pairs):,} pairs, {len(passages):,} passages")
    weights = taught(lessons, pairs, passages, options)
    model = with_layer(late_library_model(find_base(options.encoder), options.encoder), options.dimension)
    layer = next(
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.shape == weights.shape
    )
    layer.weight.data.copy_(weights)
    save_head(model, options.encoder, options.output)


def _drawn(options: HeadOptions) -> Iterator[Query]:
    generator = np.random.default_rng(options.seed)
    for file, first, count in zip(options.questions, options.first, options.draw, strict=True):
        queries = read_queries(file, first)
        rows = generator.choice(len(queries), min(count, len(queries)), replace=False)
        yield from (queries[row] for row in sorted(rows.tolist()))


def _lessons(options: HeadOptions, index: OpenIndex, encoder: LateEncoder) -> Iterator[Lesson]:
    """What is learned from; questions whose results are all relevant, or none, teach nothing."""
    queries = [*_drawn(options)]
    rows = Pipelines(index).open(options.pipeline)(queries, options.depth).rows  # [Q, D]
    vectors = encoder.encode_queries([query.text for query in queries])
    if options.teacher:
        scorer = open_scorer(options.teacher)
        goals = [
            torch.from_numpy(scores).softmax(0)
            for scores in (_scores(scorer, index, query, own) for query, own in _each(queries, rows))
        ]
    else:
        found = find_answers([query.answers for query in queries], rows, lambda row: index.passages[row].text)
        goals = [torch.from_numpy(own / max(own.sum(), 1)).float() for own in found]
    for vector, own, goal in zip(vectors, rows, goals, strict=True):
        if (own >= 0).all() and goal.sum() > 0 and goal.std() > 0:
            yield Lesson(torch.from_numpy(vector), own, goal)


def _mined(file: Path, index: OpenIndex, encoder: LateEncoder) -> Iterator[Lesson]:
    """The pairs whose passage the index has; their queries are cut to 1,000 characters."""
    pairs = [*read_pairs(file)]
    rows = index.passages.rows_of([pair.positive.id for pair in pairs])
    vectors = encoder.encode_queries([pair.query[:1_000] for pair in pairs])
    for row, vector in zip(rows, vectors, strict=True):
        if row >= 0:
            yield Lesson(torch.from_numpy(vector), np.array([row]), torch.ones(1))


def _each(queries: Sequence[Query], rows: NDArray[np.int64]) -> Iterator[tuple[Query, NDArray[np.int64]]]:
    with progress("scoring", len(queries), "questions") as advance:
        for pair in zip(queries, rows, strict=True):
            yield pair
            advance(1)


def _scores(
    scorer: PairScorer, index: OpenIndex, query: Query, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    form = scorer.text_format
    passages = [index.passages[row] for row in rows.tolist()]
    texts = [form.head(Candidate(passage.title, passage.text)) + passage.text for passage in passages]
    return scorer.score([form.query(query.text)] * len(texts), texts)


def _passages(index: OpenIndex, encoder: LateEncoder, rows: NDArray[np.int64]) -> dict[int, Tensor]:
    """The token vectors of passages by row, float16 [tokens, d] each."""
    passages = [index.passages[row] for row in rows.tolist()]
    tokens = encoder.tokenize_passages([p.title for p in passages], [p.text for p in passages])
    found = {}
    with progress("token vectors", len(rows), "passages") as advance:
        for batch, vectors in encoded_batches(encoder, tokens, advance, encoder.token_vectors):
            for place, own in zip(batch, vectors, strict=True):
                found[int(rows[place])] = torch.from_numpy(own.astype(np.float16))
    return found


def components(vectors: Tensor, count: int) -> Tensor:
    """The first principal components of vectors [T, d] about 0, [count, d]."""
    _, found = torch.linalg.eigh(vectors.T @ vectors)  # ascending
    return torch.as_tensor(found.flip(1)[:, :count].T.contiguous())


def maxsim(query: Tensor, passages: Sequence[Tensor]) -> Tensor:
    """The mean over a query's tokens [L, d] of the best products with those of passages [T, d], [D]."""
    products = torch.cat([*passages]) @ query.T
    return torch.stack([own.amax(0).mean() for own in torch.split(products, [len(own) for own in passages])])


def taught(
    lessons: Sequence[Lesson], pairs: Sequence[Lesson], passages: dict[int, Tensor], options: HeadOptions
) -> Tensor:
    """The weights of the layer, [dimension, d]."""
    generator = np.random.default_rng(options.seed)
    sample = generator.choice(list(passages), min(1_500, len(passages)), replace=False)
    weights = components(torch.cat([passages[row].float() for row in sample]), options.dimension)
    weights = weights.requires_grad_()
    optimizer = torch.optim.AdamW([weights], lr=options.learning_rate, weight_decay=0)
    steps = max(int(len(lessons) * options.epochs / options.batch), 1)
    with progress("training", steps, "steps") as advance:
        for step in range(steps):
            rate = min(1, (step + 1) / (0.1 * steps)) * (1 - step / steps)
            optimizer.param_groups[0]["lr"] = options.learning_rate * rate
            drawn = generator.choice(len(lessons), min(options.batch, len(lessons)), replace=False)
            loss = torch.stack([_loss(lessons[row], passages, weights) for row in drawn]).mean()
            if pairs:
                some = generator.choice(len(pairs), min(options.batch, len(pairs)), replace=False)
                loss = loss + options.pairs_weight * _in_batch(
                    [pairs[row] for row in some], passages, weights
                )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            advance(1)
    return weights.detach()


def _in_batch(pairs: Sequence[Lesson], passages: dict[int, Tensor], weights: Tensor) -> Tensor:
    rows = np.concatenate([pair.rows for pair in pairs])
    goals = torch.eye(len(pairs))
    losses = [
        _loss(Lesson(pair.query, rows, goal), passages, weights)
        for pair, goal in zip(pairs, goals, strict=True)
    ]
    return torch.stack(losses).mean()


def _loss(lesson: Lesson, passages: dict[int, Tensor], weights: Tensor) -> Tensor:
    tokens = [passages[row] for row in lesson.rows.tolist()]
    mapped = functional.normalize(torch.cat(tokens).float() @ weights.T, dim=-1)  # [T, dimension]
    scores = maxsim(
        functional.normalize(lesson.query @ weights.T, dim=-1),
        torch.split(mapped, [len(own) for own in tokens]),
    )
    return functional.cross_entropy(_SCALE * scores, lesson.goal)
