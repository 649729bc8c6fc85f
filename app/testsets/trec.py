"""TREC's ad-hoc collections that PROP was measured on (Ma et al. 2021, table 1): topics and judgements.

Topics and judgements are NIST's public files, through ir_datasets; the documents need an agreement. A
question is a topic's title. Topics without any relevant document are not measured, as in TREC's means.
"""

from __future__ import annotations

from app.testsets import TestSet
from app.testsets.corpora import CLUEWEB09B, GOV2, ROBUST04
from app.testsets.irds import IrDatasets, Part

_MEASURES = ("nDCG@20", "P@20", "R@100")
_PUBLIC = "topics and judgements: public (NIST); documents: by agreement"


def _clueweb(name: str, years: range, queries: int, judgements: int, note: str) -> TestSet:
    return TestSet(
        name=name,
        title=f"ClueWeb09-B, TREC Web {years[0]} to {years[-1]}",
        description=f"Topics of the web tracks, judged on category B. {note} Right: a relevant page, graded "
        "up to 4; -2 is junk.",
        licence=_PUBLIC,
        citation="Clarke et al. 2009 to 2012, Overview of the TREC web track.",
        url="https://ir-datasets.com/clueweb09.html",
        corpus=CLUEWEB09B,
        sources=(
            IrDatasets(
                "clueweb09",
                tuple(f"clueweb09/catb/trec-web-{year}" for year in years),
                tuple(
                    Part(f"trec-web-{year}/{kind}") for year in years for kind in ("queries", "qrels.adhoc")
                ),
                answerable_only=True,
            ),
        ),
        queries=queries,
        judgements=judgements,
        level="documents",
        measures=_MEASURES,
        records={"1": "obama family tree", "101": "ritz carlton lake las vegas"},
    )


TEST_SETS = (
    TestSet(
        name="robust04",
        title="TREC Robust 2004",
        description="Topics of news, of which one has no relevant document. Right: a relevant article, "
        "graded 0 to 2.",
        licence=_PUBLIC,
        citation="Voorhees 2004, Overview of the TREC 2004 robust retrieval track.",
        url="https://trec.nist.gov/data/t13_robust.html",
        corpus=ROBUST04,
        sources=(
            IrDatasets(
                "disks45",
                ("disks45/nocr/trec-robust-2004",),
                (Part("robust04-queries"), Part("robust04-qrels")),
                answerable_only=True,
            ),
        ),
        queries=250,
        judgements=311_410,
        judged=249,
        level="documents",
        measures=_MEASURES,
        records={"301": "International Organized Crime", "700": "gasoline tax U.S."},
    ),
    _clueweb("clueweb09b", range(2009, 2012), 150, 42_044, "The three years of PROP's paper."),
    _clueweb("clueweb09b-200", range(2009, 2013), 200, 52_066, "All four years."),
    TestSet(
        name="gov2",
        title="TREC Terabyte 2004 to 2006",
        description="Topics of the terabyte tracks, of which one has no relevant document. Right: a relevant "
        "page, graded 0 to 2.",
        licence=_PUBLIC,
        citation="Clarke et al. 2004, Overview of the TREC 2004 terabyte track; and of 2005, 2006.",
        url="https://ir-datasets.com/gov2.html",
        corpus=GOV2,
        sources=(
            IrDatasets(
                "gov2",
                tuple(f"gov2/trec-tb-{year}" for year in (2004, 2005, 2006)),
                tuple(
                    Part(f"trec-tb-{year}/{kind}")
                    for year in (2004, 2005, 2006)
                    for kind in ("queries", "qrels")
                ),
                answerable_only=True,
            ),
        ),
        queries=150,
        judgements=135_352,
        judged=149,
        level="documents",
        measures=_MEASURES,
        records={"701": "U.S. oil industry history", "850": "Mississippi River flood"},
    ),
)
