"""Test sets by name: what is pinned, what is checked, where files are looked for, and the real ones."""

import gzip

import orjson
import pytest
from pydantic import ValidationError

from linkseek.app import testsets
from linkseek.app.evaluation.measures import parse_measure
from linkseek.app.testsets import registry
from linkseek.app.testsets.files import Files
from linkseek.app.testsets.registry import read_test_sets
from linkseek.indexer.build import BuildOptions
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.options import parse_options
from linkseek.indexer.readers.formats import all_readers
from linkseek.retriever.ranking import Query

SETS = testsets.all_test_sets()


def changed(test_set, **changes):
    return test_set.model_copy(update=changes)


@pytest.fixture(autouse=True)
def no_real_places(tmp_path, monkeypatch):
    """Neither the cache nor ir_datasets' home of whoever runs the tests counts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    monkeypatch.delenv("LINKSEEK_DATA", raising=False)


# --- what is pinned ------------------------------------------------------------------------------


WITHOUT_RECORDS = {"bioasq", "beir-arguana", "mq2007", "mq2008", "nq-train"}  # not read by us, or pages long


@pytest.mark.parametrize("name", sorted(SETS))
def test_every_record_is_whole(name):
    test_set = SETS[name]
    for text in (test_set.title, test_set.licence, test_set.citation, test_set.url, test_set.sources):
        assert text
    assert "Relevant" in test_set.description or "counts" in test_set.description
    assert test_set.queries or name == "bioasq"
    assert test_set.records or name in WITHOUT_RECORDS
    assert (test_set.level is None) == (test_set.judgements is None)
    assert test_set.answers or test_set.judgements
    for measure in test_set.measures:
        assert parse_measure(measure).cutoff <= 100  # the default --depth


@pytest.mark.parametrize(
    "corpus", dict.fromkeys(s.corpus for s in SETS.values()), ids=lambda corpus: corpus.index
)
def test_the_command_that_builds_an_index_is_valid(corpus):
    program, script, *arguments = corpus.build.split()
    assert (program, script) == ("linkseek", "build")
    options = parse_options(BuildOptions, arguments, "build")
    assert options.format in all_readers()


def test_other_names_lead_to_the_set_and_clash_with_none():
    assert testsets.find_test_set("wq-test") is SETS["webquestions-test"]
    assert testsets.find_test_set("beir-scifact") is SETS["scifact-test"]
    others = [other for s in SETS.values() for other in s.also]
    assert len(others) == len(set(others)) > 2
    assert not set(others) & set(SETS)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        testsets.open_test_set("msmarco-pasage-dev")
    assert "--test-set msmarco-pasage-dev: no such test set" in caught.value.message
    assert caught.value.hint == "Did you mean msmarco-passage-dev? --list-test-sets lists all."


# --- what is checked -----------------------------------------------------------------------------


def packed(folder, rows, qrels, name="cranfield"):
    folder = folder / name
    folder.mkdir(parents=True)
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    (folder / "queries.test.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "qrels.test.txt").write_text(qrels, "utf-8")
    return folder.parent


ROWS = [{"id": "1", "text": "what lifts a wing"}, {"id": "2", "text": "what drags"}]
QRELS = "1 0 d7 1\n1 0 d8 0\n2 0 d7 3\n"
SMALL = changed(SETS["cranfield"], queries=2, judgements=3, records={"1": "what lifts a wing"})


@pytest.fixture
def data(tmp_path):
    return packed(tmp_path / "data", ROWS, QRELS)


def test_a_packed_set_is_read_exactly(data):
    loaded = SMALL.load(testsets.places(data))
    assert loaded.name == "cranfield"
    assert loaded.queries == [Query("1", "what lifts a wing"), Query("2", "what drags")]
    assert loaded.qrels == {"1": {"d7": 1, "d8": 0}, "2": {"d7": 3}}
    assert (loaded.answer_kind, loaded.groups) == ("tokens", {})
    assert loaded.measures == ("nDCG@10", "MRR@10", "R@100")
    assert loaded.origin["read_from"].endswith(
        "queries.test.jsonl.gz, " + str(data / "cranfield/qrels.test.txt")
    )
    assert loaded.origin["licence"] == "public"
    assert "Cleverdon" in loaded.origin["source"]


def test_the_hash_is_of_the_content_not_of_the_packing(data, tmp_path):
    other = packed(tmp_path / "other", ROWS[::-1], "".join(sorted(QRELS.splitlines(True))[::-1]))
    changed = packed(tmp_path / "changed", ROWS, QRELS.replace("d8 0", "d8 1"))
    first, same, differs = (
        SMALL.load(testsets.places(folder)).origin["sha256"] for folder in (data, other, changed)
    )
    assert first == same != differs
    assert len(first) == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": 225}, "2 questions, expected 225"),
        ({"judgements": 1837}, "3 judgements, expected 1,837"),
        ({"judged": 1}, "2 questions with judgements, expected 1"),
        ({"records": {"1": "who"}}, 'question "1" is "what lifts a wing", expected "who"'),
        ({"records": {"9": "who"}}, 'question "9" is missing, expected "who"'),
        ({"groups": {"bridge": 5}}, '0 questions of the group "bridge", expected 5'),
        ({"answers": True}, 'question "1" has no answers'),
    ],
)
def test_what_is_not_the_set_is_refused(data, changes, message):
    with pytest.raises(InputError) as caught:
        changed(SMALL, **changes).load(testsets.places(data))
    assert message in caught.value.message
    assert str(data / "cranfield") in caught.value.message


def test_judgements_of_an_unknown_question_are_refused(tmp_path):
    data = packed(tmp_path / "data", ROWS, QRELS + "77 0 d1 1\n")
    with pytest.raises(InputError, match='judgements of question "77"'):
        changed(SMALL, judgements=None).load(testsets.places(data))


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    data = packed(tmp_path / "data", ROWS, "1 0 d7\n")
    with pytest.raises(InputError, match=r"qrels.test.txt, line 1: 3 columns"):
        SMALL.load(testsets.places(data))


# --- where files are looked for ------------------------------------------------------------------


def test_the_data_folder_may_be_named_by_the_environment(data, monkeypatch):
    monkeypatch.setenv("LINKSEEK_DATA", str(data))
    assert testsets.places().data == data
    assert testsets.places(data / "cranfield").data == data / "cranfield"


def test_a_data_folder_that_is_none_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        testsets.places(tmp_path / "nowhere")


def test_sources_are_tried_in_their_order(tmp_path):
    first, second = (Files(queries=(f"{n}.tsv",)) for n in "ab")
    test_set = changed(SMALL, queries=1, judgements=None, records={}, sources=(first, second))
    (tmp_path / "b.tsv").write_text("1\tfrom b\n")
    assert test_set.load(testsets.places(tmp_path)).queries == [Query("1", "from b")]
    (tmp_path / "a.tsv").write_text("1\tfrom a\n")
    assert test_set.load(testsets.places(tmp_path)).queries == [Query("1", "from a")]


def test_the_sample_needs_nothing():
    loaded = testsets.open_test_set("sample")
    assert len(loaded.queries) == len(loaded.qrels) == 200
    groups = {group: len(ids) for group, ids in loaded.groups.items()}
    assert groups == {"plain": 67, "rare": 66, "reworded": 67}
    assert loaded.groups["rare"][0] == "sample-001"
    assert loaded.qrels["sample-001"] == {"Abebe_Bikila": 1}
    assert loaded.queries[0].answers == ("Mamo Wolde",)
    loaded = testsets.open_test_set("sample-two-steps")
    assert loaded.qrels["steps-01"] == {"James_Cook": 1, "John_Harrison": 1} and not loaded.groups


def test_the_right_article_is_a_judgement_on_documents(tmp_path):
    (tmp_path / "qa").mkdir()
    row = {"id": "nq-13", "text": "what is it", "answers": ["Lithium"], "article": "Lithium"}
    path = tmp_path / "qa/nq-gold-on-wikispeedia.jsonl.gz"
    path.write_bytes(gzip.compress(orjson.dumps(row)))
    small = changed(SETS["nq-gold-on-wikispeedia"], queries=1, judgements=1, records={})
    loaded = small.load(testsets.places(tmp_path))
    assert loaded.queries == [Query("nq-13", "what is it", ("Lithium",))]
    assert loaded.qrels == {"nq-13": {"Lithium": 1}}
    path.write_bytes(gzip.compress(orjson.dumps({**row, "article": None})))
    with pytest.raises(InputError, match=r'line 1: the field "article" is None'):
        small.load(testsets.places(tmp_path))


# --- the list and the page -----------------------------------------------------------------------


def test_the_list_says_what_is_ready_and_what_is_needed(data):
    rows = {row.name: row for row in registry.test_set_rows(data)}
    assert list(rows) == sorted(SETS)
    assert rows["sample"].state == rows["cranfield"].state == "ready"
    assert rows["trivia-test"].state == "--download"
    assert rows["msmarco-passage-dev"].state == "--download (1.1 GB)"
    assert rows["cacm"].state == f"needs cacm/queries.test.jsonl.gz in {data}"
    assert rows["mq2007"].state.startswith(f"needs {data / 'MQ2007/Fold1/test.txt'}")
    assert (rows["nq-test"].queries, rows["bioasq"].queries) == ("3,610", "")


def test_an_unknown_key_of_a_table_is_refused():
    table = {"title": "t", "description": "d", "licence": "l", "citation": "c", "url": "u", "corpus": "x"}
    table["sources"] = [{"kind": "packed", "folder": "x", "split": "test"}]
    corpora = {"x": SETS["cranfield"].corpus}
    [test_set] = read_test_sets({"defaults": {"level": "documents"}, "mine": table}, corpora)
    assert (test_set.name, test_set.level) == ("mine", "documents")
    for wrong in ({"corpsu": 1}, {"sources": [{"kind": "packed", "folder": "x", "split": "a", "qrel": "b"}]}):
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            read_test_sets({"mine": table | wrong}, corpora)
    with pytest.raises(ValidationError, match="pakced"):
        read_test_sets({"mine": table | {"sources": [{"kind": "pakced"}]}}, corpora)


# --- real files ----------------------------------------------------------------------------------

LOCAL = """
nq-test nq-dev trivia-dev webquestions-test squad-dev squad-train nq-gold scifact-test scifact-train cranfield
cacm msmarco-dl19-full msmarco-dl19-pool trec-dl-2019-passage squad-dev-on-wikispeedia
squad-train-on-wikispeedia nq-gold-on-wikispeedia
""".split()
"""Whose records are compared as they are loaded."""


@pytest.mark.realdata
@pytest.mark.parametrize("name", LOCAL)
def test_real_files(name, shared_data):
    loaded = testsets.open_test_set(name, shared_data)
    test_set = SETS[name]
    assert len(loaded.queries) == test_set.queries
    assert test_set.records
    if test_set.judgements is not None:
        assert sum(map(len, loaded.qrels.values())) == test_set.judgements
    assert loaded.origin["read_from"].startswith(str(shared_data))


@pytest.mark.realdata
def test_real_grades(shared_data):
    full = testsets.open_test_set("msmarco-dl19-full", shared_data).qrels
    pool = testsets.open_test_set("msmarco-dl19-pool", shared_data).qrels
    grades = [grade for judged in full.values() for grade in judged.values()]
    assert [grades.count(grade) for grade in range(4)] == [5158, 1601, 1804, 697]
    assert all(judged.items() <= full[query].items() for query, judged in pool.items())


@pytest.mark.realdata
def test_every_real_local_set_is_ready(shared_data):
    ready = {row.name for row in registry.test_set_rows(shared_data) if row.state == "ready"}
    assert ready >= set(LOCAL) | {"sample"}
