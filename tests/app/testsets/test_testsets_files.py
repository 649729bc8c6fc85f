"""Sets that are read from files in formats of their own: DPR's CSV, HotpotQA, BioASQ, LETOR, BEIR."""

import gzip
import re

import orjson
import pytest

from experiments.testsets import letor
from linkseek.app import testsets
from linkseek.app.testsets.definition import write_test_set
from linkseek.app.testsets.download import WebFile
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import read_qrels

SETS = testsets.all_test_sets()


def changed(test_set, **changes):
    return test_set.model_copy(update=changes)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Where downloads are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    monkeypatch.delenv("LINKSEEK_DATA", raising=False)
    folder = tmp_path / "cache/linkseek/test-sets"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


# --- DPR's files ---------------------------------------------------------------------------------

CSV = (
    "who got the first nobel prize in physics\t['Wilhelm Conrad Röntgen']\n"
    'who wrote "Dune"\t["Frank Herbert", \'F. Herbert\']\n'
    'when\t"[\'1973\', ""L\'An I""]"\n'
)
QUERIES = [
    Query("0", "who got the first nobel prize in physics", ("Wilhelm Conrad Röntgen",)),
    Query("1", 'who wrote "Dune"', ("Frank Herbert", "F. Herbert")),
    Query("2", "when", ("1973", "L'An I")),
]
NQ = changed(SETS["nq-test"], queries=3)


@pytest.mark.parametrize(
    "name", ["nq-test.qa.csv", "qa/nq-test.qa.csv", "data/retriever/qas/nq-test.csv"], ids=str
)
def test_dprs_csv_in_the_data_folder(data, name):
    (data / name).parent.mkdir(parents=True, exist_ok=True)
    (data / name).write_text(CSV, "utf-8")
    loaded = NQ.load(testsets.places(data))
    assert loaded.queries == QUERIES
    assert (loaded.qrels, loaded.answer_kind) == (None, "tokens")
    assert loaded.origin["read_from"] == str(data / name)


def test_dprs_csv_in_the_cache(cache):
    (cache / "nq-test.qa.csv").write_text(CSV, "utf-8")
    assert NQ.load(testsets.places()).queries == QUERIES
    assert (cache / "nq-test.qa.csv.sha256").exists()
    (cache / "nq-test.qa.csv").write_text(CSV + "one more\t['x']\n", "utf-8")
    with pytest.raises(InputError, match="the file was altered"):
        NQ.load(testsets.places())


def test_json_lines_get_dprs_row_numbers_as_ids_and_are_the_same_set(data):
    (data / "qa").mkdir()
    rows = [{"id": f"nq.test-{q.id}", "text": q.text, "answers": q.answers} for q in QUERIES]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    (data / "qa/dpr-nq-test.jsonl.gz").write_bytes(gzip.compress(lines))
    loaded = NQ.load(testsets.places(data))
    assert loaded.queries == QUERIES
    (data / "nq-test.qa.csv").write_text(CSV, "utf-8")
    assert NQ.load(testsets.places(data)).origin["sha256"] == loaded.origin["sha256"]


def test_curatedtrecs_answers_are_patterns(cache):
    line = "When did it fly?\t['July\\\\s+20,?\\\\s+1969']\n"
    (cache / "curatedtrec-test.qa.csv").write_text(line, "utf-8")
    loaded = changed(SETS["curatedtrec-test"], queries=1, records={}).load(testsets.places())
    assert loaded.queries[0].answers == (r"July\s+20,?\s+1969",)
    assert loaded.answer_kind == "regex"
    assert re.search(loaded.queries[0].answers[0], "on July 20, 1969")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "who\t['a']\nwhat\t__import__('os').listdir()\nwhen\t['b']\n",
            r"line 2: the answers are not a list",
        ),
        ("who\t['a']\nwhat\t['b']\n", "2 questions, expected 3"),
        ("0\twho\n1\twhat\n2\twhen\n", 'question "0" has no answers'),
        ("a\t['x']\nb\t['y']\nc\t['z']\n", 'question "0" is "a", expected "who got the first'),
        ("", "nq-test.qa.csv: the file has no questions"),
    ],
)
def test_damaged_files_of_dpr(data, content, message):
    (data / "nq-test.qa.csv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        NQ.load(testsets.places(data))


def test_a_download_is_read_at_once(cache, monkeypatch):
    asked = []

    def pretend(file, path):
        asked.append((file.url, path))
        path.write_text(CSV, "utf-8")

    monkeypatch.setattr("linkseek.app.testsets.download.download", pretend)
    with pytest.raises(InputError, match="is missing"):
        NQ.load(testsets.places())
    assert asked == []
    assert NQ.load(testsets.places(), download=True).queries == QUERIES
    url = "https://dl.fbaipublicfiles.com/dpr/data/retriever/nq-test.qa.csv"
    assert asked == [(url, cache / "nq-test.qa.csv")]


# --- HotpotQA ------------------------------------------------------------------------------------


def hotpot(id_, kind, titles, **changes):
    facts = [[title, sentence] for title in titles for sentence in (0, 2)]
    row = {
        "_id": id_,
        "question": f" About {id_}? ",
        "answer": "yes",
        "type": kind,
        "level": "hard",
        "supporting_facts": facts,
        "context": [[title, ["One.", "Two."]] for title in [*titles, "Other"]],
    }
    return {**row, **changes}


HOTPOT = changed(
    SETS["hotpotqa-dev"], queries=2, judgements=4, groups={"bridge": 1, "comparison": 1}, records={}
)


@pytest.mark.parametrize(
    "name", ["hotpot_dev_distractor_v1.json", "hotpotqa/hotpot_dev_fullwiki_v1.json"], ids=str
)
def test_hotpotqa(data, name):
    rows = [
        hotpot("a", "comparison", ["Ed Wood", "Scott Derrickson"]),
        hotpot("b", "bridge", ["X", "Y (film)"]),
    ]
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).write_bytes(orjson.dumps(rows))
    loaded = HOTPOT.load(testsets.places(data))
    assert loaded.queries == [Query("a", "About a?"), Query("b", "About b?")]
    assert loaded.qrels == {"a": {"Ed Wood": 1, "Scott Derrickson": 1}, "b": {"X": 1, "Y (film)": 1}}
    assert loaded.groups == {"comparison": ("a",), "bridge": ("b",)}
    assert loaded.measures[0] == "all@5"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [hotpot("a", "bridge", ["X", "Y"]), {"_id": "b", "question": "test?", "type": "bridge"}],
            r"v1.json, question 2 \(b\): supporting facts of 0 documents, expected 2",
        ),
        ([hotpot("a", "bridge", ["X"])], r"question 1 \(a\): supporting facts of 1 documents"),
        ([hotpot("a", "bridge", ["X", "Y"], question="")], "question 1: no _id or no question"),
        ([hotpot("a", "bridge", ["X", "Y"], supporting_facts="X")], "supporting facts of 0 documents"),
        ([hotpot("a", "bridge", ["X", "Y"])], "1 questions, expected 2"),
        (["a"], "question 1: expected an object, not str"),
        ([], "expected an array of questions"),
        ({"data": []}, "expected an array of questions"),
    ],
)
def test_damaged_hotpotqa(data, content, message):
    (data / "hotpot_dev_distractor_v1.json").write_bytes(orjson.dumps(content))
    with pytest.raises(InputError, match=message):
        HOTPOT.load(testsets.places(data))


# --- BioASQ --------------------------------------------------------------------------------------


def bioasq(data, extra=(), folder="bioasq"):
    """Five golden files with a factoid question each, and what is in `extra` in the first."""
    (data / folder).mkdir(exist_ok=True)
    for number in range(1, 6):
        question = {
            "id": f"5e{number}",
            "type": "factoid",
            "body": f"Which gene,\nnumber {number}?",
            "exact_answer": [[f"BRCA{number}", f"breast cancer {number}"], ["FANCS"], ["FANCS"]],
            "documents": ["http://www.ncbi.nlm.nih.gov/pubmed/1"],
        }
        rows = [question, *(extra if number == 1 else ())]
        path = data / folder / f"8B{number}_golden.json"
        path.write_bytes(orjson.dumps({"questions": rows}))


BIOASQ = SETS["bioasq"]


def test_bioasq(data):
    older = {"id": "6a", "type": "factoid", "body": "What?", "exact_answer": ["insulin"]}
    other = {"id": "6b", "type": "yesno", "body": "Is it?", "exact_answer": "yes"}
    bioasq(data, [older, other])
    loaded = BIOASQ.load(testsets.places(data))
    assert [query.id for query in loaded.queries] == ["5e1", "6a", "5e2", "5e3", "5e4", "5e5"]
    assert loaded.queries[0] == Query("5e1", "Which gene, number 1?", ("BRCA1", "breast cancer 1", "FANCS"))
    assert loaded.queries[1] == Query("6a", "What?", ("insulin",))
    assert loaded.qrels is None
    assert loaded.measures == ("accuracy@20", "accuracy@100")


def test_bioasq_needs_all_five_batches(data):
    bioasq(data, folder="Task8BGoldenEnriched")
    (data / "Task8BGoldenEnriched/8B4_golden.json").unlink()
    with pytest.raises(InputError, match=r"8B1_golden.json to 8B5_golden.json in .*data"):
        BIOASQ.load(testsets.places(data))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            {"id": "6a", "type": "factoid", "body": "What?"},
            r"8B1_golden.json, question 2 \(6a\): no exact_answer",
        ),
        ({"id": "6a", "type": "factoid", "body": " "}, "question 2: no id or no body"),
        ({"id": "6a", "type": "factoid", "body": "x", "exact_answer": [[" "]]}, "no exact_answer"),
    ],
)
def test_damaged_bioasq(data, question, message):
    bioasq(data, [question])
    with pytest.raises(InputError, match=message):
        BIOASQ.load(testsets.places(data))


# --- LETOR ---------------------------------------------------------------------------------------


def line(grade, query, document):
    features = " ".join(f"{n}:{n / 50:.6f}" for n in range(1, 47))
    return f"{grade} qid:{query} {features} #docid = {document} inc = 0.0119881192468859 prob = 0.139842\n"


MQ = changed(SETS["mq2008"], queries=6, judgements=7)
TOPICS = "08.million-query-topics.10001-20000.gz"


def letor_folder(data, topics=True):
    for fold in letor._FOLDS:
        folder = data / f"MQ2008/Fold{fold}"
        folder.mkdir(parents=True)
        text = line(2, 10002 + fold, f"GX00{fold}-35-5894638") + (line(0, 10001, "GX1") if fold == 5 else "")
        (folder / "test.txt").write_text(text + (line(-1, 10003, "GX2") if fold == 1 else ""))
        (folder / "train.txt").write_text("not read\n")
    if topics:
        lines = "".join(f"{n}:topic {n}: caf\xe9\n" for n in range(10001, 10010))
        (data / "MQ2008" / TOPICS).write_bytes(gzip.compress(lines.encode("latin-1")))


def test_letor(data):
    letor_folder(data)
    loaded = MQ.load(testsets.places(data))
    assert [query.id for query in loaded.queries] == ["10001", "10003", "10004", "10005", "10006", "10007"]
    assert loaded.queries[0] == Query("10001", "topic 10001: café")
    assert loaded.qrels["10003"] == {"GX001-35-5894638": 2, "GX2": -1}
    assert loaded.qrels["10001"] == {"GX1": 0}  # nothing relevant: counts 0, as LETOR does
    assert loaded.measures == ("LETOR-nDCG@10", "P@10")


def test_letors_folds_choose_by_the_questions_that_letor_validates_with(data, tmp_path):
    letor_folder(data)
    loaded = MQ.load(testsets.places(data))
    tested = {f"{10002 + number}": number for number in letor._FOLDS} | {"10001": 5}
    for query, number in tested.items():
        validated = [other for other in tested if loaded.folds[other] == (loaded.folds[query] + 1) % 5]
        assert {tested[other] for other in validated} == {(number - 2) % 5 + 1}  # S5 is tested, S4 validates
    paths = write_test_set(loaded, tmp_path / "out")
    assert [path.name for path in paths] == ["queries.jsonl", "qrels.txt", "folds.tsv"]
    assert read_queries(paths[0]) == loaded.queries
    assert read_qrels(paths[1]) == loaded.qrels
    lines = ["0\t10001", "4\t10003", "3\t10004", "2\t10005", "1\t10006", "0\t10007"]
    assert paths[2].read_text().splitlines() == lines


def test_letors_topics_come_from_nist(data, cache, monkeypatch):
    letor_folder(data, topics=False)
    with pytest.raises(InputError) as caught:
        MQ.load(testsets.places(data))
    assert f"is missing: {cache / TOPICS}" in caught.value.message
    assert f"https://trec.nist.gov/data/million.query/08/{TOPICS} (162.8 kB)" in caught.value.hint

    def pretend(file: WebFile, path):
        lines = "".join(f"{n}:topic {n}\n" for n in range(10001, 10010))
        path.write_bytes(gzip.compress(lines.encode()))

    monkeypatch.setattr("linkseek.app.testsets.download.download", pretend)
    loaded = MQ.load(testsets.places(data), download=True)
    assert loaded.queries[0] == Query("10001", "topic 10001")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:10003 1:0.5\n", r"Fold2/test.txt, line 1: no judgement: 1 qid:10003 1:0.5"),
        (line(1, 10003, "GX9") + "1 qid:10003 1:0.5 #inc = 1\n", "Fold2/test.txt, line 2: no judgement"),
        ("x qid:10003 1:0.5 #docid = GX9\n", "line 1: no judgement"),
        ("", "Fold2/test.txt: no judgements in it"),
        (line(1, 99999, "GX9"), "no topic 99999, which MQ2008 judges"),
        (line(1, 10003, "GX9"), "5 questions, expected 6"),
    ],
)
def test_damaged_letor(data, text, message):
    letor_folder(data)
    (data / "MQ2008/Fold2/test.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        MQ.load(testsets.places(data))


# --- published files in the data folder ----------------------------------------------------------


def test_beirs_folder_as_it_unpacks(data):
    folder = data / "beir/nfcorpus"
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": f"PLAIN-{n}", "text": f"Food {n}?", "metadata": {"url": "u"}} for n in (1, 2, 3)]
    (folder / "queries.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (folder / "qrels/test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nPLAIN-2\tMED-10\t2\nPLAIN-2\tMED-11\t1\n"
    )
    small = changed(SETS["beir-nfcorpus"], queries=1, judgements=2, records={})
    loaded = small.load(testsets.places(data))
    assert loaded.queries == [Query("PLAIN-2", "Food 2?")]  # the others are of other splits
    assert loaded.qrels == {"PLAIN-2": {"MED-10": 2, "MED-11": 1}}


def test_nists_judgements_choose_the_questions_of_a_track(data):
    (data / "msmarco-test2020-queries.tsv").write_text("1030303\twho is aziz hashim\n7\tnot judged\n")
    (data / "2020qrels-pass.txt").write_text("1030303 0 8726436 3\n1030303 0 99 0\n")
    small = changed(SETS["trec-dl-2020-passage"], queries=1, judgements=2)
    loaded = small.load(testsets.places(data))
    assert loaded.queries == [Query("1030303", "who is aziz hashim")]
    assert loaded.qrels == {"1030303": {"8726436": 3, "99": 0}}
