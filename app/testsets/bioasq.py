"""BioASQ's factoid questions of task 8B (Tsatsaronis et al. 2015; HLP, section 4.2 and table 4).

HLP measured the split of Reddy et al. 2021, which is not published as a file. This set is the one that it
was drawn from: the factoid questions of the five test batches, with their golden answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from app.testsets.files import read_json_rows
from app.testsets.sources import Contents, Gap, Places, Source
from indexer.base.errors import InputError
from retriever.ranking import Query

_BATCHES = tuple(f"8B{number}_golden.json" for number in range(1, 6))
_FOLDERS = ("", "Task8BGoldenEnriched", "bioasq", "bioasq/Task8BGoldenEnriched")
_GET = "Get the golden files of task 8B from http://participants-area.bioasq.org (registration)."


class BioASQ(Source):
    """The five golden files of the test of 8B."""

    kind: Literal["bioasq"] = "bioasq"

    @property
    def needs(self) -> str:
        """The files."""
        return f"`{_BATCHES[0]}` to `{_BATCHES[-1]}`"

    def gap(self, places: Places) -> Gap | None:
        """The batches, if not all are in one folder."""
        if len(_paths(places)) == len(_BATCHES):
            return None
        hint = f"{_GET} Name their folder with --data DIR."
        return Gap(f"{_BATCHES[0]} to {_BATCHES[-1]} {places.in_data()}", hint)

    def read(self, places: Places) -> Contents:
        """The factoid questions of all batches with their answers and synonyms."""
        queries = []
        paths = _paths(places)
        for path in paths:
            for place, row in read_json_rows(path, "questions"):
                if row.get("type") != "factoid":
                    continue
                id_, text = row.get("id"), row.get("body")
                if not isinstance(id_, str) or not isinstance(text, str) or not text.strip():
                    raise InputError(f"{place}: no id or no body", _GET)
                answers = _answers(row.get("exact_answer"))
                if not answers:
                    raise InputError(
                        f"{place} ({id_}): no exact_answer",
                        "The files for participants have none: this set needs the golden ones.",
                    )
                queries.append(Query(id_, " ".join(text.split()), answers))
        if not queries:
            raise InputError(f"{paths[0]}: no factoid questions", _GET)
        return Contents(queries, read_from=", ".join(map(str, paths)))


def _answers(value: Any) -> tuple[str, ...]:
    """["a", "b"] or [["a", "synonym"], ["b"]] or "a", each text once."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    flat = [text for part in texts for text in (part if isinstance(part, list) else [part])]
    return tuple(dict.fromkeys(text for text in flat if isinstance(text, str) and text.strip()))


def _paths(places: Places) -> list[Path]:
    """The batches in the first folder that has any."""
    folders = [places.data / name for name in _FOLDERS] if places.data else []
    existing = ([folder / name for name in _BATCHES if (folder / name).is_file()] for folder in folders)
    return next(filter(None, existing), [])
