"""python -m benchmarks.report: benchmarks/README.md from the recorded results, and nothing else.

Of each benchmark the last record with the same settings counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.harness import RESULTS, cells, machine_text
from benchmarks.suite import ON_CPU, ON_GPU, description

README = Path(__file__).with_name("README.md")

_HEAD = """# Benchmarks

Made from `benchmarks/results/` by `python -m benchmarks.report`; measured again by `make bench`. Ours and the
peer's run in turn in one process, and the median round counts. The ratio is ours over the peer's: of times
and memory, less is better; of rates, more. The limit is what the machine allows at best, by its memory or its
arithmetic, measured in the same run; beside it stands ours over the limit.
"""


def report() -> str:
    """The text of benchmarks/README.md."""
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
    found: dict[bytes, dict[str, Any]] = {}
    for line in lines:
        record = orjson.loads(line)
        found[orjson.dumps(record["settings"])] = record
    return list(found.values())


def _section(name: str, record: dict[str, Any]) -> str:
    on = record["machine"]
    settings = " ".join(
        f"{'-' if len(key) == 1 else '--'}{key.replace('_', '-')} {_shown(value)}"
        for key, value in record["settings"].items()
        if value is not None and value is not False
    )
    libraries = ", ".join(f"{library} {version}" for library, version in on["libraries"].items())
    limited = any(figure.get("limit") is not None for figure in record["figures"])
    rows = [
        "",
        f"`python -m benchmarks.{name} {settings}`",
        "",
        f"{record['date']}, {machine_text(on)}; {libraries}",
        "",
        "| | ours | peer | ratio |" + " limit | of it |" * limited,
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
    README.write_text(report(), "utf-8")
