"""MQ2007 and MQ2008 of LETOR 4.0 (Qin and Liu 2013): TREC's million query track on Gov2.

LETOR's files are the user's: a judgement a line, its features left out here.

    2 qid:10032 1:0.056537 2:0.000000 ... 46:0.076923 #docid = GX029-35-5894638 inc = 0.011 prob = 0.139

They hold no texts. The questions are those of NIST's topics of the same number (`10032:TEXT`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.testsets import Contents, Gap, Places, Source, TestSet
from app.testsets.corpora import GOV2
from app.testsets.download import WebFile, check, download
from app.testsets.files import web_gap
from indexer.base.errors import InputError
from indexer.files.sources import open_source, read_lines
from retriever.ranking import Query
from retriever.search.runs import Qrels

_LINE = re.compile(rb"(-?\d+)\s+qid:(\S+)\s.*#\s*docid\s*=\s*(\S+)")
_FOLDS = range(1, 6)


@dataclass(frozen=True, slots=True)
class Letor(Source):
    """FOLDER/Fold1/test.txt to Fold5: each question is in one of them. topics: NIST's file of texts."""

    folder: str
    topics: WebFile

    @property
    def needs(self) -> str:
        """LETOR's folder."""
        return f"`{self.folder}/Fold1/test.txt` to `Fold5`, `--download` for the topics"

    def gap(self, places: Places) -> Gap | None:
        """A fold, or the topics."""
        missing = [path for path in self._folds(places) if not path.is_file()]
        if missing or places.data is None:
            what = str(missing[0]) if missing else f"{self.folder}/Fold1/test.txt (no data folder is named)"
            return Gap(
                what,
                f"Get LETOR 4.0's {self.folder} (supervised ranking) and put its folder into the one that "
                "you name with --data DIR.",
            )
        return None if self._given(places) else web_gap(self.topics, places)

    def fetch(self, places: Places) -> None:
        """Download the topics."""
        download(self.topics, places.cache / self.topics.name)

    def read(self, places: Places) -> Contents:
        """Judgements of the five folds, and the texts of their questions, by number."""
        topics = self._given(places)
        if topics is None:
            topics = places.cache / self.topics.name
            check(self.topics, topics)
        texts = _read_topics(topics)
        qrels: Qrels = {}
        rows = 0
        for path in self._folds(places):
            found = _read_fold(path, qrels)
            if not found:
                raise InputError(f"{path}: no judgements in it", _GET)
            rows += found
        without = next((number for number in qrels if number not in texts), None)
        if without is not None:
            raise InputError(f"{topics}: no topic {without}, which {self.folder} judges", _GET)
        queries = [Query(number, texts[number]) for number in sorted(qrels, key=_number)]
        return Contents(
            queries, qrels, judgements=rows, read_from=f"{self._folds(places)[0].parents[1]}, {topics}"
        )

    def _folds(self, places: Places) -> list[Path]:
        folder = (places.data or Path()) / self.folder
        return [folder / f"Fold{number}" / "test.txt" for number in _FOLDS] if places.data else []

    def _given(self, places: Places) -> Path | None:
        """The topics, if they lie in LETOR's folder."""
        folder = (places.data or Path()) / self.folder
        names = (self.topics.name, self.topics.name.removesuffix(".gz"))
        return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_fold(path: Path, qrels: Qrels) -> int:
    """Add a fold's judgements, and say how many. Raises `InputError` for a line without any."""
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
                raise InputError(f"{path}, line {number:,}: no topic: {line[:60].decode('latin-1')}", _GET)
            texts[topic.strip()] = text.strip()
    return texts


def _number(query: str) -> tuple[int, str]:
    return (int(query) if query.isdecimal() else 0, query)


_GET = "Get the file again."
_TOPICS = "https://trec.nist.gov/data/million.query/"

TEST_SETS = tuple(
    TestSet(
        name=folder.lower(),
        title=f"LETOR 4.0, {folder}",
        description=f"Topics of TREC's million query track of {year}. Right: a relevant page, graded 0 to 2. "
        "Topics without a relevant page count 0, as LETOR counts them.",
        licence="LETOR: for research (Microsoft); topics: public (NIST)",
        citation="Qin and Liu 2013, Introducing LETOR 4.0 datasets.",
        url="https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/",
        corpus=GOV2,
        sources=(Letor(folder, WebFile(_TOPICS + topics, size)),),
        queries=queries,
        judgements=judgements,
        level="documents",
        measures=("nDCG@10", "P@10"),
    )
    for folder, year, topics, size, queries, judgements in (
        ("MQ2007", 2007, "07/07-million-query-topics.1-10000.gz", 143_691, 1_692, 69_623),
        ("MQ2008", 2008, "08/08.million-query-topics.10001-20000.gz", 162_791, 784, 15_211),
    )
)
