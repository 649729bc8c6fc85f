"""MQ2007 and MQ2008 of LETOR 4.0 (Qin and Liu 2013): TREC's million query track on Gov2.

The user has LETOR's files: one judgement per line, whose features are ignored.

    2 qid:10032 1:0.056537 2:0.000000 ... 46:0.076923 #docid = GX029-35-5894638 inc = 0.011 prob = 0.139

They contain no texts. The questions are NIST's topics of the same number (`10032:TEXT`).

Those of FoldN/test.txt get the fold 5 - N: LETOR chooses by the test questions of the fold before (Fold1: S1
to S3 for training, S4 for validation, S5 for testing; Fold2: S2 to S4, S5, S1), `linkseek finetune` by those
of the fold after.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from experiments.testsets.json_questions import PLUGIN
from linkseek.app.testsets.definition import AGAIN, Contents, Gap, Places, TestSetSource
from linkseek.app.testsets.download import WebFile
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels

_LINE = re.compile(rb"(-?\d+)\s+qid:(\S+)\s.*#\s*docid\s*=\s*(\S+)")
_FOLDS = range(1, 6)


class Letor(TestSetSource):
    """FOLDER/Fold1/test.txt to Fold5: each question is in one of them. topics: NIST's file of texts."""

    kind: Literal["letor"] = "letor"
    folder: str
    topics: WebFile

    @property
    def needs(self) -> str:
        return f"`{self.folder}/Fold1/test.txt` to `Fold5`, `--download` for the topics, {PLUGIN}"

    def gap(self, places: Places) -> Gap | None:
        missing = [path for path in self._folds(places) if not path.is_file()]
        if missing or places.data is None:
            first = str(missing[0]) if missing else f"{self.folder}/Fold1/test.txt (no data folder is named)"
            return Gap(
                first,
                f"Get LETOR 4.0's {self.folder} (supervised ranking) and put its folder into the one that "
                "you name with --data DIR.",
            )
        return None if self._own_topics(places) else self.topics.gap(places)

    def fetch(self, places: Places) -> None:
        self.topics.fetch(places)

    def read(self, places: Places) -> Contents:
        """Judgements of the five folds, and the texts of their questions, by number."""
        topics = self._own_topics(places) or self.topics.checked(places)
        texts = _read_topics(topics)
        qrels: Qrels = {}
        fold_of: dict[str, int] = {}
        rows = 0
        for number, path in zip(_FOLDS, self._folds(places), strict=True):
            added = _read_fold(path, qrels)
            if not added:
                raise InputError(f"{path}: no judgements in it", AGAIN)
            rows += added
            for query in qrels:
                fold_of.setdefault(query, max(_FOLDS) - number)
        without = next((number for number in qrels if number not in texts), None)
        if without is not None:
            raise InputError(f"{topics}: no topic {without}, which {self.folder} judges", AGAIN)
        numbers = sorted(qrels, key=lambda query: (int(query) if query.isdecimal() else 0, query))
        queries = [Query(number, texts[number]) for number in numbers]
        read_from = f"{self._folds(places)[0].parents[1]}, {topics}"
        return Contents(queries, qrels, judgements=rows, folds=fold_of, read_from=read_from)

    def _folds(self, places: Places) -> list[Path]:
        folder = (places.data or Path()) / self.folder
        return [folder / f"Fold{number}" / "test.txt" for number in _FOLDS] if places.data else []

    def _own_topics(self, places: Places) -> Path | None:
        """The topics, if they are in LETOR's folder."""
        names = (self.topics.name, self.topics.name.removesuffix(".gz"))
        return places.first(tuple(f"{self.folder}/{name}" for name in names))


def _read_fold(path: Path, qrels: Qrels) -> int:
    """Add the judgements of a fold and return their number. Raises `InputError` for any other line."""
    rows = 0
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            match = _LINE.match(line)
            if match is None:
                raise InputError(
                    f"{path}, line {number:,}: no judgement: {line[:60].decode('latin-1')}",
                    'Expected "GRADE qid:NUMBER ... #docid = DOCUMENT ..." in every line.',
                )
            query, document = match[2].decode("latin-1"), match[3].decode("latin-1")
            qrels.setdefault(query, {})[document] = int(match[1])
            rows += 1
    return rows


def _read_topics(path: Path) -> dict[str, str]:
    """Number -> text, from lines `NUMBER:TEXT` in Latin-1."""
    texts = {}
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            topic, colon, text = line.decode("latin-1").partition(":")
            if not colon or not text.strip():
                raise InputError(f"{path}, line {number:,}: no topic: {line[:60].decode('latin-1')}", AGAIN)
            texts[topic.strip()] = text.strip()
    return texts
