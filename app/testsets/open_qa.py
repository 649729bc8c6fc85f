"""Questions with short answers for any Wikipedia, from DPR's own files (Karpukhin et al. 2020).

A question's id is its row in DPR's file, whichever packing it is read from. These are DPR's versions:
other files called "nq-test" have answers in other spellings and give about a point more or less. What
other papers call NQ-open dev is `nq-test`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.evaluation.measures import ACCURACY
from app.testsets import AnswerKind, TestSet
from app.testsets.corpora import WIKIPEDIA
from app.testsets.download import WebFile
from app.testsets.files import Files, Web

_SERVER = "https://dl.fbaipublicfiles.com/dpr/data/retriever/"
_RIGHT = (
    "Right: one of the answers stands in the passage, token for token by DPR's rules; titles do not count."
)
_OF_DPR = "DPR's file: CC BY-NC 4.0"
_NQ = "Kwiatkowski et al. 2019, Natural Questions; split of Karpukhin et al. 2020 (DPR)."
_TRIVIA = "Joshi et al. 2017, TriviaQA; split of Karpukhin et al. 2020 (DPR)."


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    title: str
    file: str
    """DPR's file on its server."""
    short: str
    """What DPR's own download script calls it."""
    packed: str
    """Its name as JSON lines, "" where that is not usual."""
    queries: int
    about: str
    licence: str
    citation: str
    url: str
    also: tuple[str, ...] = ()
    records: dict[str, str] = field(default_factory=dict)
    answer_kind: AnswerKind = "tokens"


_NQ_LICENCE = f"CC BY-SA 3.0; {_OF_DPR}"
_NQ_URL = "https://ai.google.com/research/NaturalQuestions"
_TRIVIA_URL = "https://nlp.cs.washington.edu/triviaqa/"

_ROWS = (
    _Row(
        "nq-test",
        "Natural Questions, test (open)",
        "nq-test.qa.csv",
        "nq-test",
        "qa/dpr-nq-test.jsonl.gz",
        3_610,
        "Questions to Google with answers of at most five tokens. The same as NQ-open's dev.",
        _NQ_LICENCE,
        _NQ,
        _NQ_URL,
        records={"0": "who got the first nobel prize in physics"},
    ),
    _Row(
        "nq-dev",
        "Natural Questions, dev (open)",
        "nq-dev.qa.csv",
        "nq-dev",
        "qa/dpr-nq-dev.jsonl.gz",
        8_757,
        "Questions to Google that DPR held out of NQ's training set.",
        _NQ_LICENCE,
        _NQ,
        _NQ_URL,
        records={"0": "who sings does he love me with reba"},
    ),
    _Row(
        "nq-train",
        "Natural Questions, train (open)",
        "nq-train.qa.csv",
        "nq-train",
        "",
        79_168,
        "Questions to Google for training.",
        _NQ_LICENCE,
        _NQ,
        _NQ_URL,
    ),
    _Row(
        "trivia-test",
        "TriviaQA, test (open)",
        "trivia-test.qa.csv.gz",
        "trivia-test",
        "",
        11_313,
        "Trivia questions with all aliases of the answer.",
        _OF_DPR,
        _TRIVIA,
        _TRIVIA_URL,
        records={"0": "Who was the man behind The Chipmunks?"},
    ),
    _Row(
        "trivia-dev",
        "TriviaQA, dev (open)",
        "trivia-dev.qa.csv.gz",
        "trivia-dev",
        "qa/dpr-trivia-dev.jsonl.gz",
        8_837,
        "Trivia questions with all aliases of the answer, held out of the training set.",
        _OF_DPR,
        _TRIVIA,
        _TRIVIA_URL,
        records={"0": "The VS-300 was a type of what?"},
    ),
    _Row(
        "trivia-train",
        "TriviaQA, train (open)",
        "trivia-train.qa.csv.gz",
        "trivia-train",
        "",
        78_785,
        "Trivia questions for training.",
        _OF_DPR,
        _TRIVIA,
        _TRIVIA_URL,
        records={"0": "Who was President when the first Peanuts cartoon was published?"},
    ),
    _Row(
        "webquestions-test",
        "WebQuestions, test",
        "webquestions-test.qa.csv",
        "webq-test",
        "qa/dpr-wq-test.jsonl.gz",
        2_032,
        "Questions from Google Suggest with entities of Freebase as answers.",
        _OF_DPR,
        "Berant et al. 2013, Semantic parsing on Freebase from question-answer pairs.",
        "https://nlp.stanford.edu/software/sempre/",
        also=("wq-test", "webq-test"),
        records={"0": "what does jamaican people speak?"},
    ),
    _Row(
        "curatedtrec-test",
        "CuratedTREC, test",
        "curatedtrec-test.qa.csv",
        "curatedtrec-test",
        "",
        694,
        "Questions of TREC's question answering tracks.",
        _OF_DPR,
        "Baudis and Sedivy 2015, Modeling of the question answering task in the YodaQA system.",
        "https://github.com/brmson/dataset-factoid-curated",
        also=("trec-test",),
        records={"0": "How tall is Mount McKinley?"},
        answer_kind="regex",
    ),
    _Row(
        "squad-open-test",
        "SQuAD 1.1 as open questions, test",
        "squad1-test.qa.csv",
        "squad1-test",
        "",
        10_570,
        "SQuAD's development set, asked without its paragraphs; it must not be trained on.",
        f"CC BY-SA 4.0; {_OF_DPR}",
        "Rajpurkar et al. 2016, SQuAD; as in Chen et al. 2017 and Karpukhin et al. 2020 (DPR).",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        also=("squad1-test",),
        records={"0": "Which NFL team represented the AFC at Super Bowl 50?"},
    ),
)


def _names(row: _Row) -> tuple[str, ...]:
    """Where the file may lie in a data folder: as served, as DPR's script keeps it, as JSON lines."""
    plain = row.file.removesuffix(".gz")
    served = dict.fromkeys((row.file, plain, f"qa/{row.file}", f"qa/{plain}"))
    kept = f"data/retriever/qas/{row.short}.csv"
    return (*served, kept, *filter(None, (row.packed,)))


TEST_SETS = tuple(
    TestSet(
        name=row.name,
        also=row.also,
        title=row.title,
        description=f"{row.about} "
        + (
            _RIGHT
            if row.answer_kind == "tokens"
            else "Right: the answer, a regular expression, is found in the passage."
        ),
        licence=row.licence,
        citation=row.citation,
        url=row.url,
        corpus=WIKIPEDIA,
        sources=(Files(_names(row), numbered=True), Web(WebFile(_SERVER + row.file))),
        queries=row.queries,
        answers=True,
        answer_kind=row.answer_kind,
        measures=ACCURACY,
        records=row.records,
    )
    for row in _ROWS
)
