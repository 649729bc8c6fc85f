"""HotpotQA's development set (Yang et al. 2018): two documents are right, and both have to be found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.testsets import Contents, Gap, Places, Source, TestSet
from app.testsets.corpora import HOTPOTQA
from app.testsets.files import read_json_rows
from indexer.base.errors import InputError
from retriever.ranking import Query

_FILES = ("hotpot_dev_fullwiki_v1.json", "hotpot_dev_distractor_v1.json")
_NAMES = (*_FILES, *(f"hotpotqa/{name}" for name in _FILES))
_GET = "Get the file again, from https://hotpotqa.github.io."


@dataclass(frozen=True, slots=True)
class HotpotQA(Source):
    """HotpotQA's JSON; either setting's file has the questions and their supporting facts."""

    @property
    def needs(self) -> str:
        """The file."""
        return f"`{_FILES[0]}` or `{_FILES[1]}`"

    def gap(self, places: Places) -> Gap | None:
        """The file."""
        if _path(places) is not None:
            return None
        where = f"in {places.data}" if places.data else "in a data folder (none is named)"
        hint = "Get it from https://hotpotqa.github.io and name its folder: --data DIR."
        return Gap(f"{' or '.join(_FILES)} {where}", hint)

    def read(self, places: Places) -> Contents:
        """Questions, the titles of their supporting facts, and their types as groups."""
        path = _path(places)
        if path is None:
            raise InputError(f"{places.data}: no {_FILES[0]}", _GET)
        queries, qrels = [], {}
        groups: dict[str, list[str]] = {}
        for place, row in read_json_rows(path):
            id_, text = row.get("_id"), row.get("question")
            if not isinstance(id_, str) or not isinstance(text, str) or not text.strip():
                raise InputError(f"{place}: no _id or no question", _GET)
            facts = row.get("supporting_facts")
            pairs = facts if isinstance(facts, list) else []
            titles = {
                pair[0]: 1 for pair in pairs if isinstance(pair, list) and pair and isinstance(pair[0], str)
            }
            if len(titles) != 2:
                raise InputError(
                    f"{place} ({id_}): supporting facts of {len(titles)} documents, expected 2",
                    "HotpotQA's test files have none: this set needs the development file.",
                )
            queries.append(Query(id_, text.strip()))
            qrels[id_] = titles
            groups.setdefault(str(row.get("type")), []).append(id_)
        members = {group: tuple(ids) for group, ids in groups.items()}
        return Contents(queries, qrels, members, read_from=str(path))


def _path(places: Places) -> Path | None:
    folder = places.data
    if folder is None:
        return None
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


TEST_SETS = (
    TestSet(
        name="hotpotqa-dev",
        title="HotpotQA, dev",
        description="Questions that take two articles of Wikipedia. Right at k (measure all@K): both stand "
        "among the first k. Documents are judged by their titles, which the index has to have as ids. A "
        "bridge question leads from one article to the other, a comparison names both. Answers are not used: "
        "many are yes or no.",
        licence="CC BY-SA 4.0",
        citation="Yang et al. 2018, HotpotQA: a dataset for diverse, explainable multi-hop "
        "question answering.",
        url="https://hotpotqa.github.io/",
        corpus=HOTPOTQA,
        sources=(HotpotQA(),),
        queries=7_405,
        judgements=14_810,
        groups={"bridge": 5_918, "comparison": 1_487},
        level="documents",
        measures=("all@5", "all@20", "all@100", "R@20"),
        records={"5a8b57f25542995d1e6f1371": "Were Scott Derrickson and Ed Wood of the same nationality?"},
    ),
)
