"""Test sets in JSON files of their own: BioASQ's factoid questions and HotpotQA's questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson

from linkseek.app.testsets.definition import AGAIN, Contents, Gap, Places, TestSetSource, grouped
from linkseek.indexer.files.sources import open_source
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels

PLUGIN = "`python -m experiments evaluate`"
"""What users need, for the list of test sets."""

_BATCHES = tuple(f"8B{number}_golden.json" for number in range(1, 6))
_BIOASQ_FOLDERS = ("", "Task8BGoldenEnriched", "bioasq", "bioasq/Task8BGoldenEnriched")
_GET_BIOASQ = "Get the golden files of task 8B from http://participants-area.bioasq.org (registration)."

_SETTINGS = ("hotpot_dev_fullwiki_v1.json", "hotpot_dev_distractor_v1.json")
_HOTPOTQA_NAMES = (*_SETTINGS, *(f"hotpotqa/{name}" for name in _SETTINGS))
_GET_HOTPOTQA = "Get the file again, from https://hotpotqa.github.io."


class BioASQ(TestSetSource):
    """BioASQ's factoid questions of task 8B (Tsatsaronis et al. 2015; HLP, section 4.2 and table 4).

    HLP measured the split of Reddy et al. 2021, which is not published as a file. This set is the one that
    it was drawn from: the factoid questions of the five test batches, with their golden answers.
    """

    kind: Literal["bioasq"] = "bioasq"
    needs: ClassVar[str] = f"`{_BATCHES[0]}` to `{_BATCHES[-1]}`, {PLUGIN}"

    def gap(self, places: Places) -> Gap | None:
        if len(_paths(places)) == len(_BATCHES):
            return None
        hint = f"{_GET_BIOASQ} Name their folder with --data DIR."
        return Gap(f"{_BATCHES[0]} to {_BATCHES[-1]} {places.in_data()}", hint)

    def read(self, places: Places) -> Contents:
        """The factoid questions of all batches with their answers and synonyms."""
        queries = []
        paths = _paths(places)
        for path in paths:
            for place, row in _read_rows(path, "questions"):
                if row.get("type") != "factoid":
                    continue
                id_, text = row.get("id"), row.get("body")
                if not isinstance(id_, str) or not isinstance(text, str) or not text.strip():
                    raise InputError(f"{place}: no id or no body", _GET_BIOASQ)
                answers = _answers(row.get("exact_answer"))
                if not answers:
                    raise InputError(
                        f"{place} ({id_}): no exact_answer",
                        "The files for participants have none: this set needs the golden ones.",
                    )
                queries.append(Query(id_, " ".join(text.split()), answers))
        if not queries:
            raise InputError(f"{paths[0]}: no factoid questions", _GET_BIOASQ)
        return Contents(queries, read_from=", ".join(map(str, paths)))


def _answers(value: Any) -> tuple[str, ...]:
    """["a", "b"] or [["a", "synonym"], ["b"]] or "a", each text once."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    flat = [text for part in texts for text in (part if isinstance(part, list) else [part])]
    return tuple(dict.fromkeys(text for text in flat if isinstance(text, str) and text.strip()))


def _paths(places: Places) -> list[Path]:
    """BioASQ's batches in the first folder that has any."""
    folders = [places.data / name for name in _BIOASQ_FOLDERS] if places.data else []
    existing = ([folder / name for name in _BATCHES if (folder / name).is_file()] for folder in folders)
    return next(filter(None, existing), [])


class HotpotQA(TestSetSource):
    """HotpotQA (Yang et al. 2018): two documents are relevant, and a search must return both.

    The files of both settings contain the questions and their supporting facts.
    """

    kind: Literal["hotpotqa"] = "hotpotqa"
    needs: ClassVar[str] = f"{' or '.join(f'`{name}`' for name in _SETTINGS)}, {PLUGIN}"

    def gap(self, places: Places) -> Gap | None:
        if places.first(_HOTPOTQA_NAMES) is not None:
            return None
        hint = "Get it from https://hotpotqa.github.io and name its folder: --data DIR."
        return Gap(f"{' or '.join(_SETTINGS)} {places.in_data()}", hint)

    def read(self, places: Places) -> Contents:
        """Questions, the titles of their supporting facts, and their types as groups."""
        path = places.first(_HOTPOTQA_NAMES)
        if path is None:
            raise InputError(f"{places.data}: {_SETTINGS[0]} is missing", _GET_HOTPOTQA)
        queries: list[Query] = []
        qrels: Qrels = {}
        types: list[tuple[str, str]] = []
        for place, row in _read_rows(path):
            id_, text = row.get("_id"), row.get("question")
            if not isinstance(id_, str) or not isinstance(text, str) or not text.strip():
                raise InputError(f"{place}: no _id or no question", _GET_HOTPOTQA)
            facts = row.get("supporting_facts")
            pairs = facts if isinstance(facts, list) else []
            titles = {pair[0] for pair in pairs if isinstance(pair, list) and pair}
            titles = {title for title in titles if isinstance(title, str)}
            if len(titles) != 2:
                raise InputError(
                    f"{place} ({id_}): supporting facts of {len(titles)} documents, expected 2",
                    "HotpotQA's test files have none: this set needs the development file.",
                )
            queries.append(Query(id_, text.strip()))
            qrels[id_] = dict.fromkeys(titles, 1)
            types.append((id_, str(row.get("type"))))
        return Contents(queries, qrels, grouped(types), read_from=str(path))


def _read_rows(path: Path, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for errors, object) for each entry of a JSON array, or of the array under `key`.

    Raises `InputError` for anything else, and for an empty array.
    """
    _, stream = open_source(path)
    with stream:
        data = stream.read()
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error})", AGAIN) from None
    rows = value.get(key) if key and isinstance(value, dict) else value
    if not isinstance(rows, list) or not rows:
        expected = f'an array of questions under "{key}"' if key else "an array of questions"
        raise InputError(f"{path}: expected {expected}", AGAIN)
    for number, row in enumerate(rows, start=1):
        place = f"{path}, question {number:,}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object, not {type(row).__name__}", AGAIN)
        yield place, row
