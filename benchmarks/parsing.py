"""Parsing Wikipedia articles on one core: the MediaWiki reader compared with mwparserfromhell alone.

Ours produces clean text, links with their positions, and sections; the peer is
`parse(wikitext).strip_code()`, which produces text only and leaves references and captions in it. Times are
processor time. Reading the XML is not included.
"""

from __future__ import annotations

import argparse
import time

import mwparserfromhell

from benchmarks.support.harness import Benchmark, Measurement, as_rate, compare, run
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.readers.mediawiki.mediawiki_pages import MediawikiReader
from linkseek.indexer.readers.reader import Record


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Articles and megabytes of wikitext a second."""
    reader = MediawikiReader(options.corpus)
    articles = [record for record in reader.records() if _is_article(record)]
    if not articles:
        raise UsageError(f"--corpus {options.corpus}: no articles in it", "Name a MediaWiki export.")
    megabytes = sum(len(record.payload.text.encode()) for record in articles) / 1e6

    def ours() -> None:
        for record in articles:
            list(reader.parse(record))

    def peer() -> None:
        for record in articles:
            mwparserfromhell.parse(record.payload.text).strip_code()

    seconds = compare("parse", "s", ours, peer, options.rounds, clock=time.process_time)
    return [
        Measurement("articles", "", len(articles)),
        Measurement("wikitext", "MB", megabytes),
        seconds,
        as_rate(seconds, "articles/s", len(articles)),
        as_rate(seconds, "MB/s", megabytes),
    ]


def _is_article(record: Record) -> bool:
    page = record.payload
    return page.namespace == "0" and not page.redirect and bool(page.text.strip())


BENCHMARK = Benchmark("parsing", __doc__.partition("\n")[0], measure)

if __name__ == "__main__":
    run(BENCHMARK)
