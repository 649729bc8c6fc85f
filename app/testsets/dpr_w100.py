"""NQ and TriviaQA with judged passages of DPR's Wikipedia: what DPR was trained on, through ir_datasets.

Passages are graded 2 (a person marked them; NQ alone) and 1 (BM25 found them, and they hold an answer).
DPR's negatives are left out: a hundred a question, and what is not judged counts as wrong anyway.
"""

from __future__ import annotations

from app.evaluation.measures import ACCURACY
from app.testsets import TestSet
from app.testsets.corpora import DPR_W100
from app.testsets.irds import IrDatasets, Part

_NQ = ("Natural Questions", "natural-questions", "nq", "Kwiatkowski et al. 2019, Natural Questions;")
_TRIVIA = ("TriviaQA", "trivia-qa", "tqa", "Joshi et al. 2017, TriviaQA;")

# (family, name, split, questions, judgements of 1 and 2, first question)
_ROWS = (
    (_NQ, "nq-dev-on-dpr-w100", "dev", 6_515, 51_251, "who sings does he love me with reba"),
    (_NQ, "nq-train-on-dpr-w100", "train", 58_880, 464_609, "big little lies season 2 how many episodes"),
    (_TRIVIA, "trivia-dev-on-dpr-w100", "dev", 8_837, 82_658, "The VS-300 was a type of what?"),
    (
        _TRIVIA,
        "trivia-train-on-dpr-w100",
        "train",
        78_785,
        741_436,
        "Who was President when the first Peanuts cartoon was published?",
    ),
)

TEST_SETS = tuple(
    TestSet(
        name=name,
        title=f"{title}, {split}, with DPR's passages",
        description=f"The questions of {title} that DPR found passages for. Right: an answer stands in the "
        "passage; or by judgement, a passage that a person marked (2), or that holds an answer and was found "
        "by BM25 (1).",
        licence="DPR's files: CC BY-NC 4.0",
        citation=f"{citation} passages of Karpukhin et al. 2020 (DPR).",
        url="https://ir-datasets.com/dpr-w100.html",
        corpus=DPR_W100,
        sources=(
            IrDatasets(
                "dpr-w100",
                (f"dpr-w100/{dataset}/{split}",),
                (Part(f"{short}-{split}", (f"{short}-{split}/queries.tsv", f"{short}-{split}/qrels")),),
                right_only=True,
            ),
        ),
        queries=queries,
        judgements=judgements,
        answers=True,
        level="passages",
        measures=(*ACCURACY, "MRR@10", "R@20", "R@100"),
        records={"0": first},
    )
    for (title, dataset, short, citation), name, split, queries, judgements, first in _ROWS
)
