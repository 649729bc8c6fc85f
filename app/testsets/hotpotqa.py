"""HotpotQA's questions (Yang et al. 2018): two documents are relevant, and a search must return both."""

from __future__ import annotations

from typing import Literal

from app.testsets.files import read_json_rows
from app.testsets.sources import Contents, Gap, Places, Source, grouped
from indexer.base.errors import InputError
from retriever.ranking import Query
from retriever.search.runs import Qrels

_FILES = ("hotpot_dev_fullwiki_v1.json", "hotpot_dev_distractor_v1.json")
_NAMES = (*_FILES, *(f"hotpotqa/{name}" for name in _FILES))
_GET = "Get the file again, from https://hotpotqa.github.io."


class HotpotQA(Source):
    """HotpotQA's JSON; the files of both settings hold the questions and their supporting facts."""

    kind: Literal["hotpotqa"] = "hotpotqa"

    @property
    def needs(self) -> str:
        """One of the files."""
        return " or ".join(f"`{name}`" for name in _FILES)

    def gap(self, places: Places) -> Gap | None:
        """Both files."""
        if places.first(_NAMES) is not None:
            return None
        hint = "Get it from https://hotpotqa.github.io and name its folder: --data DIR."
        return Gap(f"{' or '.join(_FILES)} {places.in_data()}", hint)

    def read(self, places: Places) -> Contents:
        """Questions, the titles of their supporting facts, and their types as groups."""
        path = places.first(_NAMES)
        if path is None:
            raise InputError(f"{places.data}: {_FILES[0]} is missing", _GET)
        queries: list[Query] = []
        qrels: Qrels = {}
        types: list[tuple[str, str]] = []
        for place, row in read_json_rows(path):
            id_, text = row.get("_id"), row.get("question")
            if not isinstance(id_, str) or not isinstance(text, str) or not text.strip():
                raise InputError(f"{place}: no _id or no question", _GET)
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
