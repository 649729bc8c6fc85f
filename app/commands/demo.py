"""linkseek demo: an index of the bundled sample, and pipelines measured on it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from linkseek.app.pipelines.catalogue import RECOMMENDED, Pipelines
from linkseek.app.service import SAMPLE_ENCODERS
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import log_line
from linkseek.indexer.program.options import Options, parse_options

PROGRAM = "linkseek demo"
MEASURED = {"sample": ("bm25", "dense", "hlp", RECOMMENDED), "sample-two-steps": (RECOMMENDED, "hops")}
"""The pipelines measured on each test set."""


class DemoOptions(Options):
    """Build an index of the bundled sample, 150 articles, and measure four kinds of retrieval on it.

    These are BM25, a zero-shot encoder (dense), one taught by links (hlp), and a fusion (hybrid-weighted).
    Then 20 questions of two steps are asked, whose second article is linked from the first, without and with
    hops by links. The index goes to index/sample, the reports to results/. Re-ranking is omitted, because it
    takes minutes on two cores; the last lines say how to measure it. Its model is prepared for the search
    page, which compares four pipelines at a first visit.
    """


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    parse_options(DemoOptions, argv, PROGRAM)
    encoders = [word for name in SAMPLE_ENCODERS for word in ("--encoder", name)]
    import_module("linkseek.indexer.build").main(encoders)
    for test_set, pipelines in MEASURED.items():
        evaluated = ("--index", "index/sample", "--test-set", test_set, "--output", f"results/{test_set}")
        import_module("linkseek.app.evaluate").main([*evaluated, "--pipeline", *pipelines])
    prepare_first_visit(Path("index/sample"))
    installed = os.path.relpath(Path(sys.executable).with_name("linkseek"))
    linkseek = "linkseek" if shutil.which("linkseek") else installed
    print(f"""
Ask it something:     {linkseek} search "How long does Mercury take to go around the Sun?"
Open the search page: {linkseek} app
Measure re-ranking:   {linkseek} evaluate --index index/sample --test-set sample --pipeline bm25 best \\
                        --output results/reranked     (one to three minutes on two cores)
Without a GPU:        {linkseek} build --corpus DUMP.xml.bz2 --index index/mine --encoder linkseek-static
Index your own wiki:  {linkseek} build --corpus DUMP.xml.bz2 --index index/mine --encoder auto
Not in English:       {linkseek} update --index index/mine --encoder multilingual-e5-small
All commands:         {linkseek} --help""")


def prepare_first_visit(index: Path) -> None:
    """Open the pipelines of a first visit to the search page once, so that their models are converted."""
    pipelines = Pipelines(OpenIndex.open(index))
    names = pipelines.first_visit
    for number, name in enumerate(names, start=1):
        log_line(f"search page: opening {name} ({number} of {len(names)})")
        pipelines.open(name)
