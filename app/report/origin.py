"""Where the results come from, so that they can be made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from app.report.document import Block, Bullets, Data, Facts, Heading, Line, Section
from app.report.results import Results
from indexer.base.text import counted

_COUNTS = {
    "queries": "questions",
    "queries_with_answers": "questions with answers",
    "queries_with_judgements": "questions with judgements",
    "judgements": "judgements",
    "judged_ids_not_in_index": "judged ids that are not in the index",
}


def origin_section(results: Results) -> Section:
    """Command, versions, hashes, counts, seeds and notes."""
    origin = dict(results.provenance)
    if results.test_set:
        told = {"licence": results.test_set.licence, "source": results.test_set.source}
        known = origin.get("test_set")
        origin["test_set"] = {k: v for k, v in told.items() if v} | (known if isinstance(known, dict) else {})
    order = [*(key for key in _ORDER if key in origin), *(key for key in origin if key not in _ORDER)]
    rows = [(_words(key), _TOLD.get(key, _lines)(origin[key])) for key in order]
    rows.append(("counts", tuple(_counts(results))))
    rows.append(("seeds", tuple((Data(f"{name}: {seed}"),) for name, seed in results.seeds.items())))
    blocks: list[Block] = [Facts(tuple((name, lines) for name, lines in rows if lines))]
    notes: list[Line] = [(Data(note),) for note in results.notes]
    if results.left_out:
        missing = ", ".join(f"{name} ({n})" for name, n in Counter(results.left_out).items())
        notes.append((f"Left out of this report, because a value was missing in the results: {missing}.",))
    if notes:
        blocks += [Heading("Notes"), Bullets(tuple(notes))]
    return Section("origin", "Provenance", tuple(blocks))


def _counts(results: Results) -> list[Line]:
    lines: list[Line] = [(f"{_COUNTS.get(key, _words(key))}: {n:,}",) for key, n in results.counts.items()]
    for name, pipeline in results.pipelines.items():
        if pipeline.queries_without_results:
            empty = counted(pipeline.queries_without_results, "question")
            lines.append((Data(name, "name"), f": {empty} without any result"))
    return lines


def _lines(value: Any) -> tuple[Line, ...]:
    """Any value: a record has a line for each of its parts. A key that leads to a record is a name."""
    if not isinstance(value, dict):
        return ((Data(_said(value)),),) if value not in (None, "", []) else ()
    return tuple(
        (Data(f"{key if isinstance(item, dict) else _words(str(key))}: {_said(item)}"),)
        for key, item in value.items()
        if item not in (None, "", [], {})
    )


def _index(value: Any) -> tuple[Line, ...]:
    """The hashes of its parts on lines of their own."""
    if not isinstance(value, dict) or not isinstance(value.get("parts_sha256"), dict):
        return _lines(value)
    parts = {f"SHA-256 of {part}": digest for part, digest in value["parts_sha256"].items()}
    return _lines({key: item for key, item in value.items() if key != "parts_sha256"} | parts)


def _revision(value: Any) -> tuple[Line, ...]:
    if not isinstance(value, dict):
        return _lines(value)
    changed = ", with changes that were not committed" if value.get("changed_since") else ""
    return ((Data(str(value.get("commit")), "code"), changed),)


def _machine(value: Any) -> tuple[Line, ...]:
    if not isinstance(value, dict):
        return _lines(value)
    units = {"cores": "{} cores", "memory_gb": "{} GB of memory"}
    parts = [units.get(str(key), "{}").format(_said(item)) for key, item in value.items()]
    return ((Data(", ".join(parts)),),) if parts else ()


def _code(value: Any) -> tuple[Line, ...]:
    return ((Data(str(value), "code"),),)


def _in_a_row(value: Any) -> tuple[Line, ...]:
    return ((Data(_said(value)),),) if value else ()


def _said(value: Any) -> str:
    if isinstance(value, dict):
        parts = ((str(key), _said(item)) for key, item in value.items())
        return ", ".join(said if key in _PLAIN else f"{_words(key)} {said}" for key, said in parts)
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


_PLAIN = frozenset({"file", "path"})  # told without their names
_TOLD: dict[str, Callable[[Any], tuple[Line, ...]]] = {
    "command": _code,
    "revision": _revision,
    "machine": _machine,
    "versions": _in_a_row,
    "index": _index,
    "corpus": _in_a_row,
}
_ORDER = (
    *("command", "date", "revision", "machine", "versions"),
    *("index", "corpus", "models", "test_set", "files"),
)


def _words(key: str) -> str:
    return key.replace("_", " ").replace("sha256", "SHA-256")
