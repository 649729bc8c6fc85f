"""BEIR's thirteen public test sets (Thakur et al. 2021), through ir_datasets or from BEIR's own folders.

CQADupStack's twelve forums and MS MARCO, which its systems are trained on, are not among the thirteen.
Touché is BEIR's second version. Published figures leave the query's own document out of its ranking,
which matters in ArguAna and Quora.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.testsets import Corpus, TestSet
from app.testsets.corpora import SCIFACT
from app.testsets.files import Files
from app.testsets.irds import IrDatasets, Part
from app.testsets.packed import split

_SERVER = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/"
_ORIGIN = "its origin's terms"


@dataclass(frozen=True, slots=True)
class _Row:
    dataset: str
    """BEIR's name, and ir_datasets'."""
    title: str
    about: str
    licence: str
    documents: int
    queries: int
    judgements: int
    record: tuple[str, str]
    split: str = "test"
    only_split: bool = True
    """Whether ir_datasets has no other split."""


_ROWS = (
    _Row(
        "trec-covid",
        "TREC-COVID",
        "Questions about the pandemic. Right: an article of CORD-19, graded 0 to 2.",
        _ORIGIN,
        171_332,
        50,
        66_336,
        ("1", "what is the origin of COVID-19"),
    ),
    _Row(
        "nfcorpus",
        "NFCorpus",
        "Headlines on nutrition. Right: a medical abstract that their article links to, graded 1 and 2.",
        _ORIGIN,
        3_633,
        323,
        12_334,
        ("PLAIN-2", "Do Cholesterol Statin Drugs Cause Breast Cancer?"),
        only_split=False,
    ),
    _Row(
        "nq",
        "Natural Questions (BEIR's)",
        "Questions to Google; not the questions of `nq-test`. Right: a paragraph that people marked.",
        "CC BY-SA 3.0",
        2_681_468,
        3_452,
        4_201,
        ("test0", "what is non controlling interest on balance sheet"),
    ),
    _Row(
        "hotpotqa",
        "HotpotQA (BEIR's)",
        "The questions of `hotpotqa-dev`, judged on BEIR's ids. Right: each of two abstracts.",
        "CC BY-SA 4.0",
        5_233_329,
        7_405,
        14_810,
        ("5a8b57f25542995d1e6f1371", "Were Scott Derrickson and Ed Wood of the same nationality?"),
        only_split=False,
    ),
    _Row(
        "fiqa",
        "FiQA-2018",
        "Questions about finance. Right: an answer that was given to them.",
        _ORIGIN,
        57_638,
        648,
        1_706,
        ("4641", "Where should I park my rainy-day / emergency fund?"),
        only_split=False,
    ),
    _Row(
        "arguana",
        "ArguAna",
        "Arguments. Right: the best counter-argument. The argument itself is in the corpus, under the id of "
        "the question, and published figures leave it out of the ranking.",
        "CC BY 4.0",
        8_674,
        1_406,
        1_406,
        ("", ""),
    ),
    _Row(
        "webis-touche2020/v2",
        "Touché 2020",
        "Questions of principle. Right: an argument, graded 0 to 2.",
        "CC BY 4.0",
        382_545,
        49,
        2_214,
        ("1", "Should teachers get tenure?"),
    ),
    _Row(
        "quora",
        "Quora",
        "Questions. Right: a question that asks the same.",
        _ORIGIN,
        522_931,
        10_000,
        15_675,
        ("46", "Which question should I ask on Quora?"),
        only_split=False,
    ),
    _Row(
        "dbpedia-entity",
        "DBpedia-Entity v2",
        "Names, lists and questions. Right: an entity's abstract, graded 0 to 2.",
        "CC BY-SA 3.0",
        4_635_922,
        400,
        43_515,
        ("INEX_LD-20120111", "vietnam war movie"),
        only_split=False,
    ),
    _Row(
        "scidocs",
        "SCIDOCS",
        "Titles of papers. Right: an abstract that the paper cites.",
        _ORIGIN,
        25_657,
        1_000,
        29_928,
        (
            "78495383450e02c5fe817e408726134b3084905d",
            "A Direct Search Method to solve Economic Dispatch Problem with Valve-Point Effect",
        ),
    ),
    _Row(
        "fever",
        "FEVER",
        "Claims. Right: an article of Wikipedia that proves or disproves the claim.",
        "CC BY-SA 3.0",
        5_416_568,
        6_666,
        7_937,
        ("163803", "Ukrainian Soviet Socialist Republic was a founding participant of the UN."),
        only_split=False,
    ),
    _Row(
        "climate-fever",
        "Climate-FEVER",
        "Claims about the climate. Right: an article of Wikipedia that proves or disproves the claim.",
        _ORIGIN,
        5_416_593,
        1_535,
        4_681,
        ("0", "Global warming is driving polar bears toward extinction"),
    ),
)


def _irds(dataset: str, split: str, only_split: bool) -> IrDatasets:
    name = f"beir/{dataset}" if only_split else f"beir/{dataset}/{split}"
    made = (f"{dataset}/queries.json", f"{dataset}/{split}.qrels")
    return IrDatasets("beir", (name,), (Part(dataset, made),))


def _unpacked(dataset: str, split: str) -> Files:
    """BEIR's archive as it unpacks; its questions are those of all splits."""
    folder = dataset.split("/", 1)[0]
    return Files(
        (f"beir/{folder}/queries.jsonl", f"{folder}/queries.jsonl"),
        (f"beir/{folder}/qrels/{split}.tsv", f"{folder}/qrels/{split}.tsv"),
        judged_only=True,
        label=f"BEIR's folder `{folder}`",
    )


def _corpus(row: _Row) -> Corpus:
    folder = row.dataset.split("/", 1)[0]
    return Corpus(
        f"BEIR's {folder}",
        f"{folder}/corpus.jsonl",
        "--format beir",
        f"beir-{folder}",
        row.documents,
        f"{_SERVER}{folder}.zip",
    )


_CITATION = "Thakur et al. 2021, BEIR: a heterogeneous benchmark for zero-shot evaluation."

TEST_SETS = (
    *(
        TestSet(
            name=f"beir-{row.dataset.split('/', 1)[0]}",
            title=f"BEIR: {row.title}",
            description=row.about,
            licence=f"{row.licence}; BEIR's packing: CC BY-SA 4.0",
            citation=_CITATION,
            url="https://github.com/beir-cellar/beir",
            corpus=_corpus(row),
            sources=(_unpacked(row.dataset, row.split), _irds(row.dataset, row.split, row.only_split)),
            queries=row.queries,
            judgements=row.judgements,
            level="documents",
            measures=("nDCG@10", "R@100"),
            records=dict([row.record]) if row.record[0] else {},
        )
        for row in _ROWS
    ),
    *(
        TestSet(
            name=f"scifact-{split_name}",
            also=("beir-scifact",) if split_name == "test" else (),
            title=f"SciFact, {split_name} (BEIR's)",
            description="Scientific claims. Right: an abstract that supports or refutes the claim.",
            licence="CC BY-NC 2.0",
            citation=f"Wadden et al. 2020, Fact or fiction: verifying scientific claims; {_CITATION}",
            url="https://github.com/allenai/scifact",
            corpus=SCIFACT,
            sources=(
                split("scifact", split_name),
                _unpacked("scifact", split_name),
                _irds("scifact", split_name, only_split=False),
            ),
            queries=queries,
            judgements=judgements,
            level="documents",
            measures=("nDCG@10", "R@100"),
            records=dict([record]),
        )
        for split_name, queries, judgements, record in (
            ("test", 300, 339, ("1", "0-dimensional biomaterials show inductive properties.")),
            ("train", 809, 919, ("0", "0-dimensional biomaterials lack inductive properties.")),
        )
    ),
)
