"""What a build has read, skipped, dropped and guessed: on the terminal by weight, in a file completely."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkseek.indexer.building.plan import Built
from linkseek.indexer.building.skipped import is_of_files
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.text import byte_size, printable
from linkseek.indexer.readers.formats import how_to_convert, kind_of
from linkseek.indexer.store.artifacts import LINKS
from linkseek.indexer.store.manifests import LinksPart
from linkseek.indexer.store.outputs import write_output, write_output_json

_COUNTS = {
    "documents": "documents",
    "redirects": "redirects",
    "dangling_redirects": "  to nothing",
    "passages": "passages",
    "links": "links in passages",
    "between_documents": "  between documents",
    "dangling": "links without a target, dropped",
    "cut": "links across passages, dropped",
}
_GUESSED = {"site": "site", "markdown": "dialect of Markdown", "versions": "versions side by side"}
_OPTIONS = {"site": "--site", "markdown": "--markdown", "versions": "--exclude"}
_SHOWN = 5
_ALL = 1_000


def report_of(index: Path, built: Built) -> dict[str, Any]:
    """Everything that a build has to say, for JSON."""
    opened = OpenIndex.open(index)
    inputs = opened.parts.documents.fingerprint
    guessed = dict(inputs.get("guessed", ()))
    skipped = {reason: entry.model_dump(mode="json") for reason, entry in built.manifest.skipped.items()}
    parts = [reason for reason, entry in built.manifest.skipped.items() if entry.part]
    files = [reason for reason in skipped if is_of_files(reason)]
    return {
        "index": str(index),
        "bytes": opened.bytes,
        "corpus": built.manifest.corpus.model_dump(mode="json", exclude_defaults=True),
        "counts": {name: getattr(built.manifest.counts, name) for name in _COUNTS},
        "not_read": {reason: skipped[reason] for reason in files},
        "to_read_them": how_to_convert(kind_of(f"x{reason}") for reason in files),
        "dropped_from_pages": {reason: skipped[reason] for reason in parts},
        "skipped": {reason: skipped[reason] for reason in skipped if reason not in (*files, *parts)},
        "links_to_nothing": list(cast(LinksPart, opened.parts[LINKS]).dangling_targets),
        "guessed": {
            name: {
                "value": inputs.get(name) or value,
                "given": bool(inputs.get(name)),
                "option": _OPTIONS[name],
            }
            for name, value in guessed.items()
        },
        "parts": {
            name: {"bytes": part.bytes, "reused": name in built.reused or name in built.retained}
            for name, part in opened.parts.items()
        },
        "seconds": built.seconds,
    }


def write_report(path: Path, index: Path, built: Built) -> None:
    """Write the whole report as JSON, or as a page of HTML, by the file's suffix."""
    report = report_of(index, built)
    if path.suffix.lower() not in (".html", ".htm"):
        write_output_json(path, report)
        return
    console = Console(record=True, file=io.StringIO(), width=120, highlight=False)
    _print(console, report, shown=_ALL)
    write_output(path, console.export_html(inline_styles=True).encode("utf-8", "replace"))


def print_summary(index: Path, built: Built) -> None:
    """Print counts, sizes, seconds per stage, and the most important notes."""
    console = Console(highlight=False)
    _print(console, report_of(index, built), shown=_SHOWN)
    opened = OpenIndex.open(index)
    if hint := opened.reading_hint:
        unread = " and ".join(opened.encoders)
        note = f"{unread}: not for these texts (language: {opened.language}), so searches use bm25. {hint}"
        _line(console, note)
    if opened.has_lucene or opened.encoders:
        console.print()
        _line(console, f'Search it: linkseek search --index {shlex.quote(str(index))} "your question"')


def _line(console: Console, text: str) -> None:
    console.print(printable(text), markup=False, soft_wrap=True)


def _print(console: Console, report: dict[str, Any], *, shown: int) -> None:
    heading = Text("\n").append(printable(report["index"]), style="bold")
    console.print(heading.append(f" is ready: {byte_size(report['bytes'])}"), soft_wrap=True)
    counts = Table(box=None, show_header=False, padding=(0, 2))
    for name, label in _COUNTS.items():
        counts.add_row(label, f"{report['counts'][name]:,}")
    console.print(counts)
    for label, key in (("not read", "not_read"), ("dropped from pages", "dropped_from_pages")):
        _weigh(console, label, [f"{one['count']:,} {reason}" for reason, one in report[key].items()], shown)
        if key == "not_read" and report["to_read_them"]:
            _line(console, f"  {report['to_read_them']}")
    _weigh(console, "most frequent links without a target", report["links_to_nothing"], shown)
    for name, guess in report["guessed"].items():
        value = guess["value"] if guess["given"] else f"{guess['value'] or 'none'} (guessed)"
        _line(console, f"{_GUESSED[name]}: {value}; set by {guess['option']}")
    parts = Table("part", "size", box=None, padding=(0, 2))
    for name, part in report["parts"].items():
        parts.add_row(name, byte_size(part["bytes"]), "reused" if part["reused"] else "")
    console.print(parts)
    _line(console, "time: " + ", ".join(f"{n} {s:.1f} s" for n, s in report["seconds"].items() if s >= 0.05))
    for reason, entry in report["skipped"].items():
        _line(console, f"skipped: {entry['count']:,} {reason}")
        for example in entry["examples"][: 3 if shown < _ALL else None]:
            _line(console, f"  {example}")


def _weigh(console: Console, label: str, entries: Sequence[str], shown: int) -> None:
    """A line of the heaviest entries, and how many others there are."""
    if entries:
        others = [f"{len(entries) - shown:,} more (--report FILE)"] if len(entries) > shown else []
        _line(console, f"{label}: {', '.join([*entries[:shown], *others])}")
