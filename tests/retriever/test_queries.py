"""Questions from every format, and every way in which a file of them can be wrong."""

import bz2
import gzip
from pathlib import Path

import pandas
import pytest
import zstandard

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import as_queries, read_queries
from linkseek.retriever.ranking import Query


def write(tmp_path: Path, text: str | bytes, name: str = "queries") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "1", "text": "who", "answers": ["a", "b"]}\n', Query("1", "who", ("a", "b"))),
        ('{"_id": 1, "text": "who", "kind": "x", "article": "X"}', Query("1", "who")),
        ('{"id": "1", "question": "who", "answer": "a"}', Query("1", "who", ("a",))),
        ('\ufeff{"id": "1", "text": "who", "answers": null}', Query("1", "who")),
        ('{"id": "1", "text": "a\u2028b\u0085c"}\n', Query("1", "a\u2028b\u0085c")),
        ("1\twho\r\n", Query("1", "who")),
        ("\ufeff1\twho", Query("1", "who")),
        ('1\t"who', Query("1", '"who')),
        ("who\t['a', \"L'A\"]", Query("0", "who", ("a", "L'A"))),
        ('who\t"[\'a\', ""L\'A""]"', Query("0", "who", ("a", "L'A"))),
        ('who "x\t["a"]', Query("0", 'who "x', ("a",))),
        ("who\t[]", Query("0", "who")),
        ('{"question": "who", "answer": ["a", "b"]}', Query("0", "who", ("a", "b"))),
        ("\"who, when\",\"['a', 'b, c']\"", Query("0", "who, when", ("a", "b, c"))),
        ("who,['a']", Query("0", "who", ("a",))),
        ("question,answers\nwho,\"['a', 'b']\"", Query("0", "who", ("a", "b"))),
        ('\ufeffId,kind,Question,Answer\r\n7,x,"who, when",a one\r\n', Query("7", "who, when", ("a one",))),
        ("question\tanswers\nwho\t", Query("0", "who")),
        ("qid;question;answers\r\n007;who;['a|b']", Query("007", "who", ("a|b",))),
        ('"7"\t"who, when"', Query("7", "who, when")),
        (",qid,question\n0,q 7,who", Query("q 7", "who")),
        ('id;question;answers\r\n7;"who; when";1,5 km\r\n', Query("7", "who; when", ("1,5 km",))),
        ("\r\n\nquestion,answers\nwho,a", Query("0", "who", ("a",))),
        ("\tquestion\tanswers\n0\twho\t['a']", Query("0", "who", ("a",))),  # an index without a name
        ('question,answers\n"who \\"x, y\\"","a"', Query("0", 'who "x, y"', ("a",))),  # as Spark writes it
        ('question,answers\n"C:\\",["a"]', Query("0", "C:\\", ("a",))),
    ],
)
def test_formats(tmp_path, text, expected):
    assert read_queries(write(tmp_path, text)) == [expected]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
def test_compressed(tmp_path, compress):
    path = write(tmp_path, compress(b"1\twho\n2\twhat\n"))
    assert read_queries(path) == [Query("1", "who"), Query("2", "what")]


def test_limit_stops_before_what_follows(tmp_path):
    path = write(tmp_path, "1\twho\n2\twhat\n2\twhat\n")
    assert [query.id for query in read_queries(path, limit=2)] == ["1", "2"]


def test_csv_numbers_its_questions(tmp_path):
    path = write(tmp_path, "who\t['a']\n\nwhat\t['b']\n")
    assert [query.id for query in read_queries(path)] == ["0", "1"]


def test_a_bracketed_search_does_not_make_a_tsv_a_csv(tmp_path):
    path = write(tmp_path, "1\t[whisky]\n2\twhat is whisky\n")
    assert [query.text for query in read_queries(path)] == ["[whisky]", "what is whisky"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "no questions"),
        ("\n\n", None, "no questions"),
        ("1\twho\n2\t \n", 2, "question is empty"),
        ('{"id": "1", "text": ""}', 1, "question is empty"),
        ('{"id": " ", "text": "a"}', 1, "id is empty"),
        ("1\twho\n\n1\twhat\n", 3, "also in line 1"),
        ('{"id": "1"}', 1, '"text" is missing'),
        ('{"id": "0", "text": "a"}\n\n{"text": "b"}\n{"id": "1", "text": "c"}', 4, "also in line 3"),
        ("question,answers\nwho\n", 2, "1 comma-separated fields, expected 2"),
        ("question;answers\nwho\n", 2, "1 semicolon-separated fields, expected 2"),
        ("question,answers\nwho,['a'\n", 2, "not a list of texts"),
        ('{"id": "1", "text": ["a"]}', 1, '"text" is list'),
        ('{"id": "1", "text": "a", "answers": {"a": 1}}', 1, "not a list of texts"),
        ('{"id": "1", "text": "a"}\n[1]\n', 2, "expected a JSON object"),
        ('{"id": "1", "text": "a"}\n{"id"', 2, "not JSON"),
        ("1\twho\n2\n", 2, "1 tab-separated"),
        ("1\twho\n2\ta\tb\n", 2, "3 tab-separated"),
        ("who\t['a']\nwhat\t['b'\n", 2, "not a list of texts"),
        (b"1\twho\n2\tcaf\xe9\n", 2, "not UTF-8 (byte 6 is 0xe9"),
        ('{"id": 1234567890123456789012, "text": "a"}', 1, '"id" is float'),
    ],
)
def test_errors_name_file_and_line(tmp_path, text, line, message):
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_queries(path)
    where = str(path) if line is None else f"{path}, line {line}:"
    assert where in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint


def test_answers_are_never_run(tmp_path):
    victim = tmp_path / "victim"
    path = write(tmp_path, f"who\t[__import__('pathlib').Path({str(victim)!r}).touch()]\n")
    with pytest.raises(InputError, match="not a list"):
        read_queries(path)
    assert not victim.exists()


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("dpr-nq-test", 3610, ("Wilhelm Conrad Röntgen",)),
        ("dpr-wq-test", 2032, ("Jamaican Creole English Language", "Jamaican English")),
    ],
)
def test_real_questions(name, count, first):
    path = Path(__file__).parents[2].parent / "shared" / "data" / "qa" / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    queries = read_queries(path)
    assert len(queries) == count
    assert queries[0].answers == first


@pytest.mark.parametrize(
    "name",
    ["id", "_id", "qid", "query_id", "question_id", "queryId", "QID", "Query ID", "topic-id", "example_id"],
)
def test_the_id_has_many_names(tmp_path, name):
    texts = {"queries.jsonl": f'{{"{name}": "7", "question": "who"}}\n{{"{name}": 8, "query": "what"}}'}
    texts["heads.csv"] = f"{name},question,answers\n7,who,\n8,what,"
    texts["answers.tsv"] = f"question\tanswers\t{name}\nwho\t\t7\nwhat\t\t8"
    texts["plain.csv"] = f"{name},text\n7,who\n8,what"
    texts["plain.tsv"] = f"{name}\tquery\n7\twho\n8\twhat"
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
        assert read_queries(tmp_path / file) == [Query("7", "who"), Query("8", "what")], file


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "7", "text": "She wrote it.", "question": "who"}',
        "id\ttext\tquestion\n7\tShe wrote it.\twho",
        "query,text,id\nwho,She wrote it.,7",
    ],
)
def test_the_text_next_to_a_question_is_its_passage(tmp_path, text):
    assert read_queries(write(tmp_path, text)) == [Query("7", "who")]


def test_null_is_no_id_and_no_answer(tmp_path):
    (tmp_path / "q.jsonl").write_text(
        '{"id": null, "query_id": "q1", "text": null, "question": "who", "answers": null, "answer": "x"}\n'
        '{"id": null, "text": "what"}'
    )
    assert read_queries(tmp_path / "q.jsonl") == [Query("q1", "who", ("x",)), Query("1", "what")]


def test_questions_and_answers_of_python():
    asked = {1: "who", 2: "what"}
    assert as_queries(asked, {1: "She", "2": ("it", "that")}) == [
        Query("1", "who", ("She",)),  # one answer, not three letters
        Query("2", "what", ("it", "that")),
    ]
    assert as_queries(Query(7, "who", "She")) == [Query("7", "who", ("She",))]
    series = pandas.Series(["who", "what"], index=[17, 4])
    assert as_queries(series) == [Query("17", "who"), Query("4", "what")]


@pytest.mark.parametrize(
    ("questions", "answers", "told"),
    [
        (pandas.DataFrame({"id": ["1"], "text": ["who"]}), None, "the questions are of type DataFrame"),
        (Query("1", None), None, "a question is NoneType"),
        (None, None, "a question is NoneType"),
        (b"who", None, "a question is bytes"),
        ({" ": "who"}, None, "the id of a question is empty"),
        ("who", pandas.Series(["She"]), "the answers are of type Series"),
        ("who", ["She"], "the answers are of type list"),
        ("who", {"0": [1969]}, 'an answer to "0" is int'),
        ("who", {1: ["She"]}, 'there are answers for "1"'),
    ],
)
def test_questions_and_answers_that_are_refused(questions, answers, told):
    with pytest.raises(UsageError, match=told):
        as_queries(questions, answers)
