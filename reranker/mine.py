"""python -m reranker.mine: contrasts for pre-training a cross-encoder, from an index's texts and links.

Entry script: it reads the options, makes the objectives, opens the index and calls `reranker.mining.miner`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field

from indexer.base.errors import UsageError, exit_on_error
from indexer.base.options import MoreHelp, Options, parse_options
from indexer.base.progress import progress
from indexer.base.settings import nearest
from indexer.building.corpus import default_processes
from indexer.index import Index
from reranker.contrasts import write_contrasts
from reranker.mining.miner import ContrastMiner, Mix, Statistics
from reranker.objectives.registry import MIXES, all_objectives

PROGRAM = "python -m reranker.mine"


def _objectives() -> str:
    objectives = [f"{name}, {objective.summary}" for name, objective in all_objectives().items()]
    return "; ".join(objectives + [f"{name}: {', '.join(parts)}" for name, parts in MIXES.items()])


class MineOptions(Options):
    """Mine contrasts from an index: a query with a document that should score higher than others.

    Writes JSON lines. The same seed gives the same file, whatever the number of processes.
    """

    index: Path
    """the index folder"""
    objective: Annotated[str, MoreHelp(_objectives)]
    """what makes a contrast, or several with weights as NAME=WEIGHT,NAME=WEIGHT"""
    contrasts: Annotated[int, Field(ge=1)] | None = None
    """how many, drawn at random; all by default, of several objectives what the scarcest allows"""
    seed: int = 1
    """of all that is drawn"""
    language: str = "en"
    """of the texts, for sentences and stop words: an ISO 639-1 code"""
    processes: Annotated[int, Field(ge=1)] | None = None
    """processes that read texts; default one a core"""
    stats: bool = False
    """print counts as JSON; without --output, those of the candidates alone"""
    output: Path | None = None
    """where the contrasts go: a name in .jsonl or .jsonl.zst"""
    negatives: Annotated[int, Field(ge=1)] | None = None
    """worse documents a contrast; php 24, ict and wlp 1 by default"""
    minimum_count: Annotated[int, Field(ge=1)] | None = None
    """prop: how often a word must occur in the corpus to be drawn; default 50"""
    threshold: Annotated[float, Field(gt=0)] | None = None
    """prop: word2vec's t, below which words are never left out for being frequent; default 1e-5"""
    mu: Annotated[float, Field(gt=0)] | None = None
    """prop: how much the collection smoothes a document's model, in words; default the mean length"""
    per_document: Annotated[int, Field(ge=1)] | None = None
    """prop: contrasts a document; default 5"""
    mean_words: Annotated[float, Field(gt=0, le=100)] | None = None
    """prop, harp: mean number of words drawn for a query (of Poisson's distribution); default 3"""
    encoder: str | None = None
    """harp: whose attentions weight words, a folder or a name of the Hub; default all-MiniLM-L6-v2"""
    temperature: Annotated[float, Field(gt=0)] | None = None
    """harp: of the softmax over weights, the lower the more often the weightiest is drawn; default 1"""


_COMMON = ("config", "index", "objective", "contrasts", "seed", "language", "processes", "stats", "output")


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Run the command."""
    options = parse_options(MineOptions, argv, program)
    if options.output is None and not options.stats:
        raise UsageError("--output is missing", "Name a file for the contrasts, or ask for --stats alone.")
    if options.output and not options.output.name.endswith((".jsonl", ".jsonl.zst")):
        raise UsageError(f"--output {options.output}: no JSONL file", "Use a name in .jsonl or .jsonl.zst.")
    given = {name: getattr(options, name) for name in MineOptions.model_fields if name not in _COMMON}
    mix = make_mix(options.objective, {name: value for name, value in given.items() if value is not None})
    with progress("looking for candidates"):
        mine = ContrastMiner(
            Index.open(options.index),
            mix,
            seed=options.seed,
            language=options.language,
            processes=options.processes or default_processes(),
        )
        missing = mine.missing
    for line in missing:
        print(f"mine: {line}; it is left out", file=sys.stderr)
    report: dict[str, Any] = {"index": str(options.index), "objective": options.objective}
    if options.output:
        report |= _mine(mine, options, options.output)
    if options.stats:
        print(orjson.dumps(report | mine.counts(), option=orjson.OPT_INDENT_2).decode())


def _mine(mine: ContrastMiner, options: MineOptions, output: Path) -> dict[str, Any]:
    """Write the contrasts; returns what `--stats` says of them."""
    statistics = Statistics()
    total = sum(mine.shares(options.contrasts).values())
    with progress(f"mining {options.objective}", total, "contrasts") as advance:
        count = write_contrasts(output, mine.lines(options.contrasts, statistics, advance))
    found = statistics.to_json()
    print(f"{output}: {count:,} contrasts {found['written']}", file=sys.stderr)
    return found


def make_mix(text: str, settings: dict[str, Any]) -> Mix:
    """NAME, or NAME=WEIGHT,NAME=WEIGHT, as objectives with weights; the name of a mix is its parts.

    settings: go to each objective that has them. Raises `UsageError` for an unknown name, a name given
    twice, a weight that is none, and a setting that none of the objectives has.
    """
    known = all_objectives()
    weights: dict[str, float] = {}
    for piece in text.split(","):
        name, _, number = (part.strip() for part in piece.partition("="))
        parts = {part: 1.0 for part in (name,) if part in known} or MIXES.get(name, {})
        if not parts or not parts.keys() <= known.keys():
            raise UsageError(f"no objective {name}", nearest(name, {*known, *MIXES}))
        for part, share in parts.items():
            if part in weights:
                raise UsageError(f"--objective {text}: {part} is there twice", "Name each once.")
            weights[part] = _weight(number, text) * share / sum(parts.values())
    for setting in settings:
        if not any(setting in _settings(known[name]) for name in weights):
            flag = setting.replace("_", "-")
            able = [name for name, objective in known.items() if setting in _settings(objective)]
            raise UsageError(
                f"--{flag}: {text} has no such setting",
                f"Objectives that have it: {', '.join(able)}.",
            )
    return {
        name: (known[name](**{k: v for k, v in settings.items() if k in _settings(known[name])}), weight)
        for name, weight in weights.items()
    }


def _weight(number: str, text: str) -> float:
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"--objective {text}: {number} is no weight", "Weights are numbers above 0.")
    return weight


def _settings(objective: type[Any]) -> set[str]:
    return {field.name for field in fields(objective)}


if __name__ == "__main__":
    with exit_on_error("mine"):
        main(sys.argv[1:])
