"""What the two mining commands share: their options, and how they mine and report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import Field, create_model

from linkseek.indexer.base.cluster import connected, worker_count
from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.options import Options
from linkseek.indexer.base.progress import progress
from linkseek.indexer.building.corpus import default_processes
from linkseek.indexer.index import Index
from linkseek.indexer.store.outputs import check_replaceable
from linkseek.retriever.links.source import Source
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.pairs import write_lines
from linkseek.retriever.mining.registry import Registry
from linkseek.retriever.mining.statistics import Statistics


class MiningOptions(Options):
    """Mine training data from an index."""

    index: Path
    """the index folder"""
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 1
    """of all random choices"""
    language: str = "en"
    """of the texts, for sentences and stop words: an ISO 639-1 code"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that read texts; default one per core"""
    ray: str | None = None
    """read texts on a Ray cluster, a worker for each of its cores: its address, or local to start one here"""
    stats: bool = False
    """print counts as JSON; without --output, those that need no texts"""
    output: Path | None = None
    """the file to write: a name in .jsonl or .jsonl.zst"""

    def check_output(self) -> None:
        """Raise `UsageError` for a missing or invalid file name, or one that a file of the user has."""
        if self.output is None and not self.stats:
            raise UsageError("--output is missing", "Name a file, or ask for --stats alone.")
        if self.output and not self.output.name.endswith((".jsonl", ".jsonl.zst")):
            raise UsageError(f"--output {self.output}: no JSONL file", "Use a name in .jsonl or .jsonl.zst.")
        if self.output:
            check_replaceable(self.output)


Command = TypeVar("Command", bound=MiningOptions)


def with_settings(options: type[Command], registry: Registry[Any]) -> type[Command]:
    """The options of a command, with one for each setting of its objectives."""
    fields: dict[str, Any] = {
        name: (
            Annotated[setting.type, Field(**setting.bounds)] | None,
            Field(None, description=f"{setting.meaning}; default {setting.default}"),
        )
        for name, setting in registry.settings.items()
    }
    return create_model("Command", __base__=options, __doc__=options.__doc__, **fields)


def mine(
    options: MiningOptions,
    objective: str,
    total: int | None,
    registry: Registry[Any],
    corpus_counts: Callable[[Source], dict[str, Any]] = lambda source: {},
) -> None:
    """Run a command. corpus_counts: for `--stats`, of any objective."""
    given = {name: getattr(options, name) for name in registry.settings}
    mix = registry.mix(objective, {name: value for name, value in given.items() if value is not None})
    options.check_output()
    report: dict[str, Any] = {"index": str(options.index), "objective": objective}
    with connected(options.ray):
        with progress("looking for candidates"):
            processes = worker_count(options.processes or default_processes())
            index = Index.open(options.index)
            miner = Miner(index, mix, seed=options.seed, language=options.language, processes=processes)
            missing = miner.missing
            limit = sum(miner.shares(total).values()) if options.output else 0
        for line in missing:
            print(f"mine: {line}; it is skipped", file=sys.stderr)
        if options.output:
            statistics, units = Statistics(), f"{miner.unit}s"
            with progress(f"mining {objective}", limit, units) as advance:
                count = write_lines(options.output, miner.lines(total, statistics, advance))
            report |= statistics.to_json()
            print(f"{options.output}: {count:,} {units} {report['written']}", file=sys.stderr)
            if statistics.without_negative and given.get("negatives") not in (None, "none"):
                print(f"{statistics.without_negative:,} {units} without a negative", file=sys.stderr)
    if options.stats:
        with progress("counting"):
            report |= miner.counts() | corpus_counts(miner.source)
        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
