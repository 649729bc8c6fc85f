"""python -m benchmarks.report: write docs/results/benchmarks.md from the recorded results.

The last record of a benchmark with the same settings counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.harness import RESULTS, cells, machine_text
from benchmarks.suite import ON_CPU, ON_GPU, description

PAGE = Path(__file__).parents[1] / "docs" / "results" / "benchmarks.md"

_HEAD = """# Benchmarks

Generated from `benchmarks/results/` by `python -m benchmarks.report`; `make bench` measures again. Ours and
the peer's run in alternating rounds in one process, and the median round counts. "Ratio" is ours over the
peer's: less is better for times and memory, more for rates. "Limit" is the best that the machine's memory or
arithmetic allows, measured in the same run, and the last column is ours over the limit.
"""


def report() -> str:
    """The text of docs/results/benchmarks.md."""
    parts = [_HEAD]
    for name in (*ON_CPU, *ON_GPU):
        path = RESULTS / f"{name}.jsonl"
        records = latest(path.read_bytes().splitlines()) if path.exists() else []
        parts.append(f"\n## {name}\n\n{description(name)}\n")
        if not records:
            parts.append("\nNot measured.\n")
        parts += [_section(name, record) for record in records]
    return "".join(parts)


def latest(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """The last record of each group with the same settings."""
    records: dict[bytes, dict[str, Any]] = {}
    for line in lines:
        record = orjson.loads(line)
        records[orjson.dumps(record["settings"])] = record
    return list(records.values())


def _section(name: str, record: dict[str, Any]) -> str:
    on = record["machine"]
    settings = " ".join(
        f"{'-' if len(key) == 1 else '--'}{key.replace('_', '-')} {_shown(value)}"
        for key, value in record["settings"].items()
        if value is not None and value is not False and value != []
    )
    libraries = ", ".join(f"{library} {version}" for library, version in on["libraries"].items())
    limited = any(figure.get("limit") is not None for figure in record["figures"])
    rows = [
        "",
        f"`python -m benchmarks.{name} {settings}`",
        "",
        f"{record['date']}, {machine_text(on)}; {libraries}",
        "",
        "| | ours | peer | ratio |" + " limit | ours / limit |" * limited,
        "|---|---|---|---|" + "---|---|" * limited,
    ]
    for figure in record["figures"]:
        label = f"{figure['name'].strip()}, {figure['unit']}" if figure["unit"] else figure["name"].strip()
        ours, peer, ratio, limit, share = cells(figure)
        rows.append(f"| {label} | {ours} | {peer} | {ratio} |" + f" {limit} | {share} |" * limited)
    return "\n".join(rows) + "\n"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    PAGE.write_text(report(), "utf-8")
