"""python -m benchmarks.report: write docs/results/benchmarks.md from the recorded results.

The last record of a benchmark with the same settings counts, and none whose pipelines a later one measured
over the same index. A benchmark is a table of its figures with a peer or a limit, a column for each record;
p50, p95 and p99 share a row. The other figures stay in the records, and the chosen ones are in speed.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.harness import RESULTS, machine_text
from benchmarks.suite import ON_CPU, ON_GPU, description

PAGE = Path(__file__).parents[1] / "docs" / "results" / "benchmarks.md"

_HEAD = """# Benchmarks

{answer}

![Speed of Linkseek as a multiple of the peers', with the line of equal speed](../pictures/results/peers.svg)

Generated from `benchmarks/results/` by `python -m benchmarks.report`; `make bench` measures again, and
`python -m benchmarks.NAME --help` says what a benchmark measures. Ours and the peer's run in alternating
rounds in one process, and the median round counts. A column is a record, a cell "ours / peer = ratio"; a
limit is the best that the machine's memory or arithmetic allows in the same run. Several values of a row are
p50, p95 and p99. Figures without a peer are in the records and in [speed and size](speed.md).
"""
_PERCENTILES = re.compile(r"(.*), (?:p50|p95|p99)( \(.*\))?$")
_NO_PEERS = {"partitions", "serving"}  # their "peers" are the search itself


def report() -> str:
    """The text of docs/results/benchmarks.md."""
    found = {name: _records(name) for name in (*ON_CPU, *ON_GPU)}
    machines = list(dict.fromkeys(_machine(record) for records in found.values() for record in records))
    parts = [_HEAD.format(answer=_answer(found)), "\nMachines:\n\n"]
    parts += [f"- {letter}: {machine}\n" for letter, machine in zip("ABCDEFGH", machines, strict=False)]
    parts.append(f"\nNot measured: {', '.join(name for name, records in found.items() if not records)}.\n")
    for name, records in found.items():
        purpose = description(name).partition("\n\n")[0]
        if any(_rows(record["figures"]) for record in records):
            parts.append(f"\n## {name}\n\n{purpose}\n{_section(name, records, machines)}")
    return "".join(parts)


def speeds(name: str, record: dict[str, Any]) -> dict[str, float]:
    """How many times as fast as its peer each figure of a record is; none for the search of partitions."""
    return {
        figure["name"].strip(): figure["ratio"] if figure["unit"].endswith("/s") else 1 / figure["ratio"]
        for figure in record["figures"]
        if figure["ratio"] and re.search(r"/s$|^m?s\b", figure["unit"]) and name not in _NO_PEERS
    }


def _answer(found: dict[str, list[dict[str, Any]]]) -> str:
    last = [(name, speeds(name, records[-1])) for name, records in found.items() if records]
    rows = [(f"{name}: {row}", times) for name, times_of in last for row, times in times_of.items()]
    slower = ", ".join(f"{row} ({times:.2f} times)" for row, times in rows if times < 1)
    fast = sum(times >= 1.5 for _, times in rows)
    return (
        f"Of {len(rows)} figures of speed with a peer, Linkseek is at least 1.5 times as fast in {fast},\n"
        f"and slower than the peer in {sum(times < 1 for _, times in rows)}: {slower}."
    )


def _records(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.jsonl"
    return latest(path.read_bytes().splitlines()) if path.exists() else []


def latest(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """The last record of each group with the same settings, or with an index and pipelines of a later one."""
    records: dict[bytes, dict[str, Any]] = {}
    for line in lines:
        record = orjson.loads(line)
        records[orjson.dumps(record["settings"])] = record
    kept = list(records.values())
    return [record for place, record in enumerate(kept) if not _measured_again(record, kept[place + 1 :])]


def _measured_again(record: dict[str, Any], later: list[dict[str, Any]]) -> bool:
    settings = record["settings"]
    pipelines = {*(settings.get("pipeline") or ())}
    return bool(pipelines) and any(
        pipelines <= {*(other["settings"].get("pipeline") or ())}
        and settings["index"] == other["settings"]["index"]
        for other in later
    )


def _machine(record: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in record["machine"]["libraries"].items())
    return f"{machine_text(record['machine'])}; {libraries}"


def _section(name: str, records: list[dict[str, Any]], machines: list[str]) -> str:
    records = [record for record in records if _rows(record["figures"])]
    lines = [""]
    for number, record in enumerate(records, start=1):
        settings = " ".join(
            f"{'-' if len(key) == 1 else '--'}{key.replace('_', '-')} {_shown(value)}"
            for key, value in record["settings"].items()
            if value is not None and value is not False and value != []
        )
        letter = "ABCDEFGH"[machines.index(_machine(record))]
        lines.append(f"{number}. `python -m benchmarks.{name} {settings}` ({record['date']}, {letter})")
    columns = {number: _rows(record["figures"]) for number, record in enumerate(records, start=1)}
    lines += ["", f"| | {' | '.join(map(str, columns))} |", "|---" * (len(columns) + 1) + "|"]
    for row in dict.fromkeys(row for rows in columns.values() for row in rows):
        lines.append(f"| {row} | {' | '.join(', '.join(rows.get(row, ())) for rows in columns.values())} |")
    return "\n".join(lines) + "\n"


def _rows(figures: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The cells of figures with a peer or a limit by their labels, percentiles of one thing together."""
    rows: dict[str, list[str]] = {}
    for figure in figures:
        name = figure["name"].strip()
        if figure["peer"] is None and figure.get("limit") is None:  # records of an earlier version have none
            continue
        match = _PERCENTILES.match(name)
        label = f"{match[1]}{match[2] or ''}" if match else name
        rows.setdefault(f"{label}, {figure['unit']}".removesuffix(", "), []).append(_cell(figure))
    return rows


def _cell(figure: dict[str, Any]) -> str:
    text = _number(figure["ours"])
    if figure["peer"] is not None:
        text += f" / {_number(figure['peer'])} = {figure['ratio']:.2f}"
    limit = figure.get("limit")
    return text if limit is None else f"{text} (limit {_number(limit)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    PAGE.write_text(report(), "utf-8")
