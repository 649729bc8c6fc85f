"""Test sets in plain files of a data folder, beside the documents that they are asked on.

FOLDER/docs.jsonl.zst             documents, as indexer/build.py reads them
FOLDER/queries.SPLIT.jsonl.gz     {"id", "text", "answers"}
FOLDER/qrels.SPLIT.txt[.gz]       TREC judgements
qa/NAME.jsonl.gz                  questions with answers; "article" names the right document
"""

from __future__ import annotations

from typing import Any

from app.evaluation.measures import ACCURACY
from app.testsets import TestSet
from app.testsets.corpora import (
    CACM,
    CRANFIELD,
    DL19_POOL,
    NQ_GOLD,
    SAMPLE,
    SQUAD,
    WIKISPEEDIA,
)
from app.testsets.files import SAMPLE as SAMPLE_FOLDER
from app.testsets.files import Files

_NON_COMMERCIAL = "MS MARCO: non-commercial research only"


def split(folder: str, name: str, judged: str = "") -> Files:
    """The files of one split; judged: the name in the judgements' file, if it is another."""
    qrels = f"{folder}/qrels.{judged or name}.txt"
    return Files((f"{folder}/queries.{name}.jsonl.gz",), (qrels, f"{qrels}.gz"))


_SQUAD: dict[str, Any] = {
    "licence": "CC BY-SA 4.0",
    "citation": "Rajpurkar et al. 2016, SQuAD: 100,000+ questions for machine comprehension of text.",
    "url": "https://rajpurkar.github.io/SQuAD-explorer/",
    "answers": True,
}
_NQ: dict[str, Any] = {
    "licence": "CC BY-SA 3.0",
    "citation": "Kwiatkowski et al. 2019, Natural Questions; passages: Liu et al. 2023, Lost in the middle.",
    "url": "https://github.com/nelson-liu/lost-in-the-middle",
    "answers": True,
}
_PARAGRAPH = "Questions that people wrote for a paragraph of Wikipedia. Right: that paragraph."
_DL19: dict[str, Any] = {
    "licence": _NON_COMMERCIAL,
    "citation": "Craswell et al. 2020, Overview of the TREC 2019 deep learning track.",
    "url": "https://trec.nist.gov/data/deep2019.html",
    "corpus": DL19_POOL,
    "queries": 43,
    "level": "passages",
    "measures": ("nDCG@10", "AP(rel=2)@100", "MRR(rel=2)@10", "R(rel=2)@100"),
    "records": {"1037798": "who is robert gray"},
}
_ON_WIKISPEEDIA: dict[str, Any] = {
    "corpus": WIKISPEEDIA,
    "level": "documents",
    "measures": (*ACCURACY, "R@20", "R@100"),
}

TEST_SETS = (
    TestSet(
        name="sample",
        title="Linkseek's sample",
        description="Questions written for the bundled wiki: plain ones, ones that turn on a rare name, and "
        "reworded ones. Right: an answer stands in the passage; or by judgement, the article.",
        licence="CC0 1.0",
        citation="Written for Linkseek.",
        url="samples/README.md",
        corpus=SAMPLE,
        sources=(Files(("questions.jsonl",), ("qrels.txt",), group="kind", folder=SAMPLE_FOLDER),),
        queries=200,
        judgements=200,
        groups={"plain": 67, "rare": 66, "reworded": 67},
        answers=True,
        level="documents",
        records={
            "sample-001": "Who won after the pupil of Onni Niskanen had left the course at Mexico City?"
        },
    ),
    TestSet(
        name="squad-dev",
        title="SQuAD 1.1, dev, with its paragraphs",
        description=f"{_PARAGRAPH} It must not be trained on.",
        corpus=SQUAD,
        sources=(split("squad", "dev"),),
        queries=10_570,
        judgements=10_570,
        level="passages",
        measures=("R@1", "R@20", "MRR@100", "nDCG@10"),
        records={
            "5725b33f6a3fe71400b8952d": "When did the 1973 oil crisis begin?",
            "572885c44b864d1900164a7c": "What was the Chinese name for the Central Secretariat?",
        },
        **_SQUAD,
    ),
    TestSet(
        name="squad-train",
        title="SQuAD 1.1, train, with its paragraphs",
        description=_PARAGRAPH,
        corpus=SQUAD,
        sources=(split("squad", "train"),),
        queries=86_144,
        judgements=86_144,
        level="passages",
        measures=("R@1", "R@20", "MRR@100", "nDCG@10"),
        records={
            "train:2008_Sichuan_earthquake:0:q0": "In what year did the earthquake in Sichuan occur?",
        },
        **_SQUAD,
    ),
    TestSet(
        name="nq-gold",
        title="Natural Questions with gold passages",
        description="Questions of NQ's test set whose passage is known. Right: that passage.",
        corpus=NQ_GOLD,
        sources=(split("nq-gold", "test"),),
        queries=2_655,
        judgements=2_655,
        level="passages",
        measures=("R@1", "R@20", "MRR@100", "nDCG@10"),
        records={
            "nq-0": "who got the first nobel prize in physics",
            "nq-2654": "when did computer become widespread in homes and schools",
        },
        **_NQ,
    ),
    TestSet(
        name="cranfield",
        title="Cranfield",
        description="Questions of aerodynamicists. Right: an abstract that was judged useful; grades are not "
        "told apart.",
        licence="public",
        citation="Cleverdon 1967, The Cranfield tests on index language devices.",
        url="http://ir.dcs.gla.ac.uk/resources/test_collections/cran/",
        corpus=CRANFIELD,
        sources=(split("cranfield", "test"),),
        queries=225,
        judgements=1_837,
        level="documents",
        measures=("nDCG@10", "MRR@10", "R@100"),
        records={
            "1": "what similarity laws must be obeyed when constructing aeroelastic models of heated high "
            "speed aircraft .",
            "225": "what design factors can be used to control lift-drag ratios at mach numbers above 5 .",
        },
    ),
    TestSet(
        name="cacm",
        title="CACM",
        description="Information needs of computer scientists, 52 of 64 judged. Right: a relevant abstract.",
        licence="public",
        citation="Fox 1983, Characterization of two new experimental collections.",
        url="http://ir.dcs.gla.ac.uk/resources/test_collections/cacm/",
        corpus=CACM,
        sources=(split("cacm", "test"),),
        queries=64,
        judgements=796,
        judged=52,
        level="documents",
        measures=("nDCG@10", "MRR@10", "R@100"),
        records={
            "1": "What articles exist which deal with TSS (Time Sharing System), an operating system for "
            "IBM computers?",
        },
    ),
    TestSet(
        name="msmarco-dl19-full",
        title="TREC DL 2019 on a pool, all judgements",
        description="The questions of `trec-dl-2019-passage` on the passages that six systems found, with "
        "all judgements: for re-ranking a run. Right: what NIST graded 2 or 3; nDCG counts every grade.",
        sources=(split("msmarco-dl19", "dl19", "dl19.full"),),
        judgements=9_260,
        **_DL19,
    ),
    TestSet(
        name="msmarco-dl19-pool",
        title="TREC DL 2019 on a pool, judgements of the pool",
        description="The questions of `trec-dl-2019-passage` on the passages that six systems found, with "
        "the judgements of those passages: for searching the pool. Right: what NIST graded 2 or 3; nDCG "
        "counts every grade.",
        sources=(split("msmarco-dl19", "dl19", "dl19.pool"),),
        judgements=4_342,
        **_DL19,
    ),
    TestSet(
        name="squad-dev-on-wikispeedia",
        title="SQuAD 1.1, dev, on Wikipedia for Schools",
        description="Questions of SQuAD whose article is in the corpus. Right: an answer stands in the "
        "passage; or by judgement, the article. It must not be trained on.",
        sources=(Files(("qa/squad-dev-on-wikispeedia.jsonl.gz",), document="article"),),
        queries=2_000,
        judgements=2_000,
        records={"5725b33f6a3fe71400b8952d": "When did the 1973 oil crisis begin?"},
        **_SQUAD,
        **_ON_WIKISPEEDIA,
    ),
    TestSet(
        name="squad-train-on-wikispeedia",
        title="SQuAD 1.1, train, on Wikipedia for Schools",
        description="Questions of SQuAD's training set whose article is in the corpus. Right: an answer "
        "stands in the passage; or by judgement, the article.",
        sources=(Files(("qa/squad-train-on-wikispeedia.jsonl.gz",), document="article"),),
        queries=10_260,
        judgements=10_260,
        records={"train:ASCII:0:q1156": "What is the ASCII based on?"},
        **_SQUAD,
        **_ON_WIKISPEEDIA,
    ),
    TestSet(
        name="nq-gold-on-wikispeedia",
        title="Natural Questions on Wikipedia for Schools",
        description="Questions of `nq-gold` whose article is in the corpus. Right: an answer stands in the "
        "passage; or by judgement, the article.",
        sources=(Files(("qa/nq-gold-on-wikispeedia.jsonl.gz",), document="article"),),
        queries=109,
        judgements=109,
        records={"nq-13": "what is the main mineral in lithium batteries"},
        **_NQ,
        **_ON_WIKISPEEDIA,
    ),
)
