"""python -m experiments sweep CONFIG: train with every combination of some settings, and choose one.

Each combination is a training run of its own, in a folder named after its values, and is scored on questions
for development: the share that has a passage with an answer among the best of an index, by exact search with
the new encoder over all of its passages. With static encoders that takes seconds. Runs that are finished are
kept, so the same command resumes. OUTPUT/best.toml has the settings of the best run, for others like it, such
as with other seeds. Never choose by questions on which you report.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from linkseek.indexer.encoding.batches import TokenRows, encode_texts
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.bundled import bundled, find_preset
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.paths import inside
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import read_settings, settings_text
from linkseek.indexer.search.faiss_tools import exhaustive_search
from linkseek.indexer.store.artifacts import read_json, value_sha256
from linkseek.indexer.store.outputs import check_replaceable, locked, write_output, write_output_json
from linkseek.retriever.mining.labels import holds_answers
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.training.config import TrainConfig

PROGRAM = "python -m experiments sweep"

_BLOCK = 8_192  # passages that are tokenised, and searched, together
_RESULTS = "sweep.json"
_BEST = "best.toml"
_MAX_RUNS = 10_000


class SweepOptions(Options):
    """Train a bi-encoder with each combination of some settings, and choose the best on a development set.

    Made for static encoders, which train in minutes and read an index in seconds. The table of all runs is
    printed and written to OUTPUT/sweep.json, the settings of the best to OUTPUT/best.toml. After an
    interruption, the same command resumes.
    """

    training: Positional[Path]
    """the settings that all runs share: a file, or the name of one in configs/, such as static-pretrain"""
    vary: Annotated[list[str], Field(min_length=1)]
    """TABLE.KEY=VALUE,VALUE,...: the values of one setting; may be repeated, for all combinations"""
    set: list[str] = Field(default_factory=list)
    """TABLE.KEY=VALUE for all runs; may be repeated"""
    index: Path
    """the index whose passages are searched"""
    questions: Path
    """questions with answers to choose by, such as dpr-nq-dev's; never the questions of a test set"""
    limit: Annotated[int, Field(ge=1)] | None = None
    """the number of questions, from the first on; by default all"""
    depth: Annotated[int, Field(ge=1)] = 20
    """how many passages may contain the answer"""
    output: Path
    """the folder of the runs, one model each, and of the table"""


@dataclass
class Development:
    """Questions and an index by which encoders are compared. Passages are tokenised once a tokenizer."""

    index: OpenIndex
    queries: Sequence[Query]
    depth: int
    _tokens: dict[tuple[Any, ...], TokenRows] = field(default_factory=dict)

    def accuracy(self, encoder: BiEncoder) -> float:
        """The share of questions with an answer among the best passages, 0 to 1."""
        tokens = self._tokenised(encoder)
        with progress("encoding passages", len(tokens), "passages") as advance:
            passages = encoder.comparable(encode_texts(encoder, tokens, advance))  # [P, d]
        queries = encoder.search_vectors([query.text for query in self.queries])  # [Q, d]
        blocks = (passages[start : start + _BLOCK] for start in range(0, len(passages), _BLOCK))
        rows, scores = exhaustive_search(blocks, queries, min(self.depth, len(passages)))
        ranking = Ranking.of([query.id for query in self.queries], rows, scores)
        return float(holds_answers(self.index, self.queries, ranking).any(axis=1).mean())

    def _tokenised(self, encoder: BiEncoder) -> TokenRows:
        key = (encoder.facts.tokenizer, encoder.max_tokens, encoder.text_format)
        if key not in self._tokens:
            blocks, texts = [], self.index.passages
            with progress("tokenising passages", len(texts), "passages") as advance:
                for start in range(0, len(texts), _BLOCK):
                    block = [texts[row] for row in range(start, min(start + _BLOCK, len(texts)))]
                    titles = [passage.title for passage in block]
                    tokens = encoder.tokenize_passages(titles, [passage.text for passage in block])
                    blocks.append(TokenRows.of(tokens))
                    advance(len(block))
            self._tokens = {key: TokenRows.joined(blocks)}  # of one tokenizer at a time
        return self._tokens[key]


def combinations(vary: Sequence[str]) -> Iterator[dict[str, str]]:
    """Each combination of values, by setting.

    Raises `UsageError` for a text that names no values, and for more than `_MAX_RUNS` combinations.
    """
    axes = []
    for text in vary:
        key, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            hint = "For example: --vary training.learning_rate=1e-3,2e-3"
            raise UsageError(f"--vary {text}: expected TABLE.KEY=VALUE,VALUE", hint)
        axes.append([(key.strip(), value.strip()) for value in values.split(",")])
    runs = math.prod(map(len, axes))
    if runs > _MAX_RUNS:
        raise UsageError(
            f"--vary: {runs:,} combinations, expected {_MAX_RUNS:,} at most", "Vary less at a time."
        )
    yield from map(dict, product(*axes))


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(SweepOptions, argv, PROGRAM)
    file = find_preset(bundled("configs"), options.training)
    runs = {folder_name(chosen): chosen for chosen in combinations(options.vary)}
    configs = {name: _config(options, file, name, chosen) for name, chosen in runs.items()}
    index = OpenIndex.open(options.index)
    queries = read_queries(options.questions, options.limit)
    if not all(query.answers for query in queries):
        raise UsageError(
            f"{options.questions}: questions without answers", "Each needs answers to choose by."
        )
    measured_on = {
        "passages": value_sha256(index.parts.passages.fingerprint),
        "questions": file_sha256(options.questions),
        "count": len(queries),
        "depth": options.depth,
    }
    results, best = options.output / _RESULTS, options.output / _BEST
    with locked(results):
        check_replaceable(results, best)
        stored = read_json(results) if results.is_file() else {}
        rows = stored["runs"] if stored.get("measured_on") == measured_on else {}
        development = Development(index, queries, options.depth)
        for number, (name, config) in enumerate(configs.items(), start=1):
            print(f"run {number} of {len(configs)}: {name}", file=sys.stderr)
            rows[name] = {"settings": runs[name], **_measure(config, rows.get(name, {}), development)}
            write_output_json(results, {"measured_on": measured_on, "runs": rows})
        ranked = sorted(configs, key=lambda name: -rows[name]["accuracy"])
        write_output(best, settings_text(configs[ranked[0]]).encode())
    for name in ranked:
        value = rows[name]["accuracy"]
        error = 196 * (value * (1 - value) / len(queries)) ** 0.5
        print(f"{100 * value:5.1f} ± {error:.1f}  {name}")
    print(f"best accuracy@{options.depth} of {len(queries):,} questions: {options.output / ranked[0]}")


def folder_name(chosen: dict[str, str]) -> str:
    """A folder's name from values: learning_rate=1e-3,epochs=2."""
    names = [f"{key.rpartition('.')[2]}={value}" for key, value in chosen.items()]
    return re.sub(r"[^\w.,=+-]+", "-", ",".join(names))


def _config(options: SweepOptions, file: Path, name: str, chosen: dict[str, str]) -> TrainConfig:
    values = [f"{key}={value}" for key, value in chosen.items()]
    folder = inside(options.output, name, "--vary: the run")
    return read_settings(TrainConfig, file, [*options.set, *values, f"output.folder={str(folder)!r}"])


def _measure(config: TrainConfig, known: dict[str, Any], development: Development) -> dict[str, Any]:
    """Train if need be; the hash and the accuracy of the model, measured unless it is known for this hash."""
    from linkseek.retriever.training.pair_training import train

    train(config)
    folder = config.output.folder
    sha256 = model_sha256(folder)
    if known.get("sha256") != sha256:
        accuracy = development.accuracy(open_biencoder(str(folder), title=config.texts.title))
        known = {"sha256": sha256, "accuracy": accuracy}
    return known
