"""Options, mining and reports shared by the two mining commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import Field, create_model

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.language.detection import Language
from linkseek.indexer.machine.cluster import connected, worker_count
from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Seed
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.objective import Statistics
from linkseek.retriever.mining.objective_registry import Mix, O, Registry
from linkseek.retriever.mining.pairs import check_output, write_lines


class MiningOptions(Options):
    """Mine training data from an index."""

    not_keywords = Options.not_keywords | {"ray", "stats"}

    index: Path
    """the index folder"""
    seed: Seed = 1
    """seed of all random choices"""
    language: Language | None = None
    """language of the texts, for sentences and stop words: an ISO 639-1 code; by default the index's"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that read texts; default one per core"""
    ray: str | None = None
    """read texts on a Ray cluster, with a worker per core: its address, or local to start one here"""
    stats: bool = False
    """print statistics as JSON; without --output, only those that need no texts"""
    output: Path | None = None
    """the file to write, ending in .jsonl or .jsonl.zst"""

    def check_output(self) -> Path:
        """Return the output. Raises `UsageError` if it is missing, invalid, or a file of the user."""
        if self.output is None:
            raise UsageError("--output is missing", "Name a file, or ask for --stats alone.")
        check_output(self.output)
        return self.output

    def mix(self, objective: str, registry: Registry[O]) -> Mix[O]:
        """The objectives with the settings that the options give.

        Raises `UsageError` for an unknown objective or one without such a setting.
        """
        given = {name: value for name in registry.settings if (value := getattr(self, name)) is not None}
        return registry.mix(objective, given)


Command = TypeVar("Command", bound=MiningOptions)


def with_settings(options: type[Command], registry: Registry[Any]) -> type[Command]:
    """Add an option for each setting of a command's objectives."""
    fields: dict[str, Any] = {
        name: (
            Annotated[setting.type, Field(**setting.bounds)] | None,
            Field(None, description=f"{setting.meaning}; default {setting.default}"),
        )
        for name, setting in registry.settings.items()
    }
    return create_model("Command", __base__=options, __doc__=options.__doc__, **fields)


def open_miner(index: OpenIndex, options: MiningOptions, mix: Mix[O]) -> Miner[O]:
    """Open a miner of the objectives, and log objectives without candidates."""
    with progress("looking for candidates"):
        processes = worker_count(options.processes or usable_cores())
        language = None if options.language == "auto" else options.language
        miner = Miner(index, mix, seed=options.seed, language=language, processes=processes)
        missing = miner.missing
    for line in missing:
        log_line(f"mine: {line}; it is skipped")
    return miner


def write_mined(miner: Miner[Any], output: Path, objective: str, total: int | None) -> Statistics:
    """Write lines to a file, with a progress bar. total: how many; by default all."""
    statistics, units = Statistics(), f"{miner.unit}s"
    with progress(f"mining {objective}", sum(miner.shares(total).values()), units) as advance:
        write_lines(output, miner.lines(total, statistics, advance))
    return statistics


def mine(
    options: MiningOptions,
    objective: str,
    total: int | None,
    registry: Registry[Any],
    corpus_counts: Callable[[LinkSource], dict[str, Any]] = lambda source: {},
) -> None:
    """Run a command. corpus_counts: for `--stats`, of any objective.

    Raises the errors of `MiningOptions.mix` before anything is opened.
    """
    mix = options.mix(objective, registry)
    output = None if options.stats and options.output is None else options.check_output()
    report: dict[str, Any] = {"index": str(options.index), "objective": objective}
    with connected(options.ray):
        miner = open_miner(OpenIndex.open(options.index), options, mix)
        if output:
            statistics, units = write_mined(miner, output, objective, total), f"{miner.unit}s"
            report |= statistics.to_json()
            log_line(f"{output}: {statistics.written.total():,} {units} {report['written']}")
            if statistics.without_negative and getattr(options, "negatives", None) not in (None, "none"):
                log_line(f"{statistics.without_negative:,} {units} without a negative")
    if options.stats:
        with progress("counting"):
            report |= miner.counts() | corpus_counts(miner.source)
        print(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
