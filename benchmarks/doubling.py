"""Repeated markup at a size and at two, four and eight times that: does every parser take linear time?

    python -m benchmarks.doubling [PARSER ...] [--all] [--pairs]

A ratio of 2 from one column to the next is linear, 4 is quadratic. A text may be refused ("refused"), but
not slowly. Printed are the slowest text of each parser, and those that grow by more than 2.5; with --all,
all. The texts are in doubling.toml; --pairs makes them of any two of the pieces there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

from linkseek.indexer.files.json_stream import first_keys, read_entries
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.settings import parse_toml
from linkseek.indexer.readers.formats import all_readers
from linkseek.indexer.readers.mediawiki.mediawiki_titles import Site, titles_of
from linkseek.indexer.readers.reader import Record, parse_at
from linkseek.indexer.wikitext import read_wikitext
from linkseek.retriever.models.checks.only_data import read_settings
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.runs import read_qrels, read_run

TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PIECES: dict[str, list[str]] = {
    name: [*pieces.split(" "), " "] for name, pieces in TEXTS.pop("pieces").items()
}
LARGEST = {"front matter": 60_000, "html": 56_000, "markdown": 40_000, "mediawiki": 80_000}
"""Characters in the last column, of 400,000 for the others."""
LIMIT = 2.5
_NOTICEABLE = 0.05  # seconds; ratios of less are noise


def text_of(pattern: str | Sequence[str], size: int) -> str:
    """A pattern of doubling.toml, repeated to about `size` characters."""
    parts = ["", pattern] if isinstance(pattern, str) else pattern
    count = max(1, size // sum(len(part) + 4 * part.count("№") for part in parts[1::2]))
    return "".join(
        "".join(part.replace("№", str(number)) for number in range(count)) if place % 2 else part
        for place, part in enumerate(parts)
    )


def read(parser: str, text: str, file: Path) -> None:
    """Parse a text as a build, a search or an evaluation does. file: where it may lie."""
    if parser == "mediawiki":
        read_wikitext(text, titles_of(Site()).resolve)
    elif parser == "toml":
        parse_toml(text, "a.toml")
    elif parser in _FILES:
        file.write_text(text, "utf-8")
        _FILES[parser](file)
    else:
        name, text = ("markdown", f"---\n{text}\n---\na") if parser == "front matter" else (parser, text)
        content: Any = text.encode()
        record = Record("a", (content, frozenset()) if name == "harp" else content)
        list(parse_at(all_readers()[name](Path("a")), record))


def _read_entries(file: Path) -> None:
    first_keys(file.read_bytes()[: 1 << 16])
    with file.open("rb") as stream:
        list(read_entries(stream, "a.json"))


_FILES: dict[str, Callable[[Path], Any]] = {
    "json": _read_entries,
    "questions": read_queries,
    "run": read_run,
    "qrels": read_qrels,
    "model settings": read_settings,
}


def seconds(parser: str, pattern: str | Sequence[str], size: int, file: Path) -> tuple[float, bool]:
    """Processor time, the best of three if it is short, and whether the text was refused."""
    text, times, refused = text_of(pattern, size), list[float](), False
    while len(times) < 3 and sum(times) < 1:
        started = time.process_time()
        try:
            read(parser, text, file)
        except LinkseekError:
            refused = True
        times.append(time.process_time() - started)
    return min(times), refused


def measure(parser: str, patterns: Sequence[Any], everything: bool, file: Path) -> None:
    """Print the rows of a parser. A text is measured at the smaller sizes only if its row is printed."""
    largest = LARGEST.get(parser, 400_000)
    at = partial(seconds, parser, file=file)
    last = [at(pattern, size=largest)[0] for pattern in patterns]
    slowest = max(last)
    for pattern, time_taken in zip(patterns, last, strict=True):
        is_slowest = time_taken == slowest
        grows = time_taken > _NOTICEABLE and time_taken > LIMIT * at(pattern, size=largest // 2)[0]
        if everything or is_slowest or grows:
            columns = [at(pattern, size=largest // parts) for parts in (8, 4, 2, 1)]
            times = [taken for taken, _ in columns]
            ratio = times[-1] / times[-2] if times[-1] > _NOTICEABLE else 0
            shown = " | ".join(f"{taken:.3f}" for taken in times)
            mark = " refused" * columns[-1][1] + " GROWS" * (ratio > LIMIT)
            print(f"| {parser} {pattern!r:.80} | {largest // 8:,} | {shown} |{mark}", flush=True)


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser("python -m benchmarks.doubling", description=__doc__)
    options.add_argument("parsers", nargs="*", metavar="PARSER", help=f"of {', '.join(TEXTS)}")
    options.add_argument("--all", action="store_true", help="print every row")
    options.add_argument("--pairs", action="store_true", help="try any two pieces of markup")
    chosen = options.parse_args()
    texts = TEXTS
    if chosen.pairs:
        texts = {name: ["".join(two) for two in permutations(pieces, 2)] for name, pieces in PIECES.items()}
    with tempfile.TemporaryDirectory() as folder:
        for parser, patterns in texts.items():
            if parser in (chosen.parsers or texts):
                measure(parser, patterns, chosen.all, Path(folder, "text"))


if __name__ == "__main__":
    main()
