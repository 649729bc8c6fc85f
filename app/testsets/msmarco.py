"""MS MARCO's development questions and TREC's deep learning tracks, on passages and on documents."""

from __future__ import annotations

from dataclasses import dataclass

from app.testsets import Source, TestSet
from app.testsets.corpora import MSMARCO_DOCUMENTS, MSMARCO_PASSAGES
from app.testsets.files import Files
from app.testsets.irds import IrDatasets, Part
from app.testsets.packed import split

_LICENCE = "MS MARCO: non-commercial research only"
_TRACKS = {
    2019: "Craswell et al. 2020, Overview of the TREC 2019 deep learning track.",
    2020: "Craswell et al. 2021, Overview of the TREC 2020 deep learning track.",
}
_MEASURES = {
    "passage": ("nDCG@10", "AP(rel=2)@100", "MRR(rel=2)@10", "R(rel=2)@100"),
    "document": ("nDCG@10", "nDCG@100", "MRR@100", "AP@100", "R@100"),
}


@dataclass(frozen=True, slots=True)
class _Track:
    year: int
    level: str
    queries: int
    judgements: int
    qrels: str
    """NIST's file of judgements."""
    parts: tuple[Part, ...]
    record: tuple[str, str]


_TREC_DL = (
    _Track(
        2019,
        "passage",
        43,
        9_260,
        "2019qrels-pass.txt",
        (Part("trec-dl-2019/queries", ("trec-dl-2019/queries.tsv",)), Part("trec-dl-2019/qrels")),
        ("156493", "do goldfish grow"),
    ),
    _Track(
        2020,
        "passage",
        54,
        11_386,
        "2020qrels-pass.txt",
        (Part("trec-dl-2020/queries"), Part("trec-dl-2020/qrels")),
        ("1030303", "who is aziz hashim"),
    ),
    _Track(
        2019,
        "document",
        43,
        16_258,
        "2019qrels-docs.txt",
        (Part("trec-dl-2019/queries"), Part("trec-dl-2019/qrels")),
        ("156493", "do goldfish grow"),
    ),
    _Track(
        2020,
        "document",
        45,
        9_098,
        "2020qrels-docs.txt",
        (Part("trec-dl-2020/queries"), Part("trec-dl-2020/qrels")),
        ("1030303", "who is aziz hashim"),
    ),
)


def _trec_dl(track: _Track) -> TestSet:
    section = f"msmarco-{track.level}"
    questions = f"msmarco-test{track.year}-queries.tsv"
    sources: tuple[Source, ...] = (
        Files((questions, f"{questions}.gz"), (track.qrels,), judged_only=True),
        IrDatasets(section, (f"{section}/trec-dl-{track.year}/judged",), track.parts),
    )
    if (track.year, track.level) == (2019, "passage"):
        sources = (split("msmarco-dl19", "dl19", "dl19.full"), *sources)
    right = "Right: what NIST graded " + ("2 or 3" if track.level == "passage" else "1 to 3")
    return TestSet(
        name=f"trec-dl-{track.year}-{track.level}",
        title=f"TREC deep learning {track.year}, {track.level}s",
        description="Questions to Bing that NIST judged, of the 200 of the track. "
        f"{right}; nDCG counts every grade.",
        licence=_LICENCE,
        citation=_TRACKS[track.year],
        url=f"https://trec.nist.gov/data/deep{track.year}.html",
        corpus=MSMARCO_PASSAGES if track.level == "passage" else MSMARCO_DOCUMENTS,
        sources=sources,
        queries=track.queries,
        judgements=track.judgements,
        level="passages" if track.level == "passage" else "documents",
        measures=_MEASURES[track.level],
        records=dict([track.record]),
    )


TEST_SETS = (
    TestSet(
        name="msmarco-passage-dev",
        title="MS MARCO passages, dev (small)",
        description="Questions to Bing. Right: the passage that an annotator wrote the answer from; one a "
        "question for the most part, and others that would do are not judged.",
        licence=_LICENCE,
        citation="Bajaj et al. 2016, MS MARCO: a human generated machine reading comprehension dataset.",
        url="https://microsoft.github.io/msmarco/",
        corpus=MSMARCO_PASSAGES,
        sources=(
            Files(("queries.dev.small.tsv",), ("qrels.dev.small.tsv",)),
            IrDatasets(
                "msmarco-passage",
                ("msmarco-passage/dev/small",),
                (Part("collectionandqueries", ("dev/small/queries.tsv", "dev/small/qrels")),),
            ),
        ),
        queries=6_980,
        judgements=7_437,
        level="passages",
        measures=("MRR@10", "nDCG@10", "R@20", "R@100"),
        records={"1048585": "what is paula deen's brother", "1048565": "who plays sebastian michaelis"},
    ),
    TestSet(
        name="msmarco-document-dev",
        title="MS MARCO documents, dev",
        description="Questions to Bing. Right: the document with the passage that an annotator wrote the "
        "answer from; others that would do are not judged.",
        licence=_LICENCE,
        citation="Bajaj et al. 2016, MS MARCO; documents as of TREC's deep learning track.",
        url="https://microsoft.github.io/msmarco/",
        corpus=MSMARCO_DOCUMENTS,
        sources=(
            Files(
                ("msmarco-docdev-queries.tsv.gz", "msmarco-docdev-queries.tsv"),
                ("msmarco-docdev-qrels.tsv.gz", "msmarco-docdev-qrels.tsv"),
            ),
            IrDatasets(
                "msmarco-document", ("msmarco-document/dev",), (Part("dev/queries"), Part("dev/qrels"))
            ),
        ),
        queries=5_193,
        judgements=5_193,
        level="documents",
        measures=("MRR@10", "MRR@100", "R@100"),
        records={"174249": "does xpress bet charge to deposit money in your account"},
    ),
    *map(_trec_dl, _TREC_DL),
)
