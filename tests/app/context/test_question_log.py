"""The questions of finished evaluations are known in a search, and those of logs are listed and forgotten."""

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import orjson
import pytest

from linkseek.app.background.services import Services
from linkseek.app.commands import asked as command
from linkseek.app.context.question_log import forget_asked, note_asked, read_asked
from linkseek.app.evaluation.results import Results
from linkseek.app.evaluation.runner import EvaluationPlan, evaluate
from linkseek.app.page import evaluation_page
from linkseek.app.preferences import judged_sets
from linkseek.app.report.finished import find_asked, find_in_report
from linkseek.app.serving.monitoring import RequestLog
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from tests.support.pages import bodies, button, notices, run
from tests.support.results_records import RESULTS
from tests.support.tiny.index import build


def write(folder, name, questions, index="own"):
    results = copy.deepcopy(RESULTS)
    results["questions"] = questions
    results["provenance"]["index"]["path"] = f"index/{index}"
    Results.model_validate(results).write(folder / name)


def test_answers_count_on_every_index_and_judgements_on_theirs(tmp_path):
    questions = [
        {"id": "1", "text": "Which river?", "answers": ["the Seine"]},
        {"id": "2", "text": "Which town?", "answers": [], "relevant": ["Lyon"]},
    ]
    write(tmp_path, "one", questions)
    own, other = partial(find_asked, tmp_path, "own"), partial(find_asked, tmp_path, "other")
    assert own("which river").answers == other("Which river?").answers == ("the Seine",)
    assert own("which town").relevance == {"Lyon": 1} and not other("which town")
    assert not own("Which sea?")
    write(tmp_path, "two", [{"id": "1", "text": "Which sea?", "answers": ["North"]}])
    assert own("Which sea?").answers == ("North",)
    (tmp_path / "two" / "results.json").write_text("{")
    assert not own("Which sea?")


def test_a_report_of_its_own_counts_what_it_counted(tmp_path):
    text = "Which river?"
    write(tmp_path, "old", [{"id": "1", "text": text, "answers": ["the Seine"], "relevant": ["Paris"]}])
    write(tmp_path, "new", [{"id": "1", "text": text, "answers": ["the Rhone"], "relevant": ["Lyon"]}])
    known = find_in_report(tmp_path, "old", "own", text)
    assert (known.answers, known.relevance) == (("the Seine",), {"Paris": 1})
    assert find_in_report(tmp_path, "old", "other", text).grounds == ["answers"]


def test_an_evaluation_makes_its_questions_known(tmp_path, word_encoder):
    index = build(tmp_path / "index" / "own")
    services, results = Services(), tmp_path / "results"
    service = services.open(index, None, results)
    assert service.search("which river", "bm25").hits[0].relevant is None
    queries = [Query("1", "Which river?", ("the Seine",)), Query("2", "Which volcano?")]
    plan = EvaluationPlan(
        index=OpenIndex.open(index),
        test_set=LoadedTestSet("x", queries, {"2": {"Naples": 1, "Paris": 0}}),
        pipelines={"bm25": service.pipelines.open("bm25")},
        output=results / "one",
    )
    evaluate(plan).write(results / "one")
    answer = service.search("which river", "bm25")
    assert {hit.document_id: hit.relevant for hit in answer.hits}["Seine"]
    assert any(hit.answers for hit in answer.hits)
    assert not service.search("which volcano", "bm25").hits[0].relevant  # judged on an index without a name


# --- what people asked ----------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    """A log as the service writes it, with its older part and what a crash leaves."""
    lines = [
        {"route": "/search", "status": 200, "asked": ["volcano", " a  river "]},
        {"route": "/healthz", "status": 200},
        {"asked": ["volcano", "zzz"]},
        {"asked": ["volcano"]},
        {"asked": ["x" * 10_001]},
        {"asked": "volcano"},
        {"asked": [1, None, "volcano"]},
    ]
    (tmp_path / "log.1").write_bytes(orjson.dumps({"asked": ["a river"]}) + b"\n")
    written = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    (tmp_path / "log").write_bytes(written + b"[1]\n" + b'{"asked": ["vol')
    return tmp_path / "log"


def test_questions_are_counted(log):
    asked, damaged = read_asked([log])
    assert [*asked.items()] == [("volcano", 3), ("a river", 2), ("zzz", 1)] and damaged == 5
    note_asked(log, "first")  # on the line that a crash has cut off
    note_asked(log, "zzz", index="own")
    assert read_asked([log])[0].items() >= {"zzz": 2, "first": 1}.items()
    with pytest.raises(InputError, match="No such file"):
        read_asked([log.with_name("none")])


def test_the_command_lists_and_forgets(log, capsys, tmp_path):
    command.main([str(log), "--output", str(tmp_path / "q.jsonl")])
    out, err = capsys.readouterr()
    assert out.splitlines() == ["     3  volcano", "     2  a river", "     1  zzz"] and "5 lines" in err
    assert [query.text for query in read_queries(tmp_path / "q.jsonl")] == ["volcano", "a river", "zzz"]
    command.main([str(log), "--words", "RIVER"])
    assert capsys.readouterr().out == "     2  a river\n"
    command.main([str(log), "--forget", "--words", "volc"])
    assert capsys.readouterr().out == "6 lines removed\n"  # three could not be read
    assert [*read_asked([log])[0]] == ["a river"] and b"healthz" in log.read_bytes()
    command.main([str(log), "--forget"])
    assert read_asked([log]) == ({}, 1) and b"river" not in log.with_name("log.1").read_bytes()
    with pytest.raises(UsageError, match="no log"):
        command.main([])


def test_a_service_that_writes_meanwhile_loses_nothing(tmp_path):
    path, kept = tmp_path / "log", 0
    log = RequestLog(path)
    with ThreadPoolExecutor(1) as threads:
        written = threads.submit(lambda: [log.write({"asked": [f"{n % 3} {n}"]}) for n in range(3_000)])
        while not written.done():
            kept += forget_asked([path], "0 ")
    assert kept and not forget_asked([path], "no such") and forget_asked([path], "0 ") + kept == 1_000
    asked, damaged = read_asked([path])
    assert asked == {f"{n % 3} {n}": 1 for n in range(3_000) if n % 3} and not damaged


def test_the_page_logs_if_it_is_told_to_and_offers_what_was_asked(log, open_page, own_index, tmp_path):
    own = tmp_path / "page.log"
    run(open_page("search", own_index, q="volcano", pipelines="bm25"))
    assert not own.exists()
    options = ("--log-questions", str(own), "--asked", str(log))
    run(run(open_page("search", own_index, *options, q="volcano", pipelines="bm25")))
    [line] = own.read_bytes().splitlines()
    assert orjson.loads(line).items() >= {"index": "own", "pipelines": ["bm25"], "asked": ["volcano"]}.items()
    test = open_page("compare", own_index, *options)
    button(test, "Questions people asked").click()
    run(test)
    assert test.text_area(key="compared_questions").value == "volcano\na river\nzzz"
    assert "3 of 3" in test.caption[0].value
    assert "Questions people asked" not in bodies(open_page("compare", own_index))


def test_what_people_asked_is_judged_and_evaluated(log, open_page, own_index, tmp_path, monkeypatch):
    results, started = tmp_path / "results", []
    monkeypatch.setattr(evaluation_page, "start_evaluation", lambda *order: started.append(order))
    options = ("--asked", str(log))
    search = bodies(open_page("search", own_index, *options, q="zzz volcano", pipelines="bm25"))
    assert "People asked 3 questions; 0 of them are judged" in search
    assert "q=a+river" in search and "<bdi>a river</bdi></a> 2×" in search
    judged_sets.judge(results, "mine", "ann", "volcano", {"Naples#0": 2, "Paris#0": 0})
    judged_sets.judge(results, "other", "bob", "volcano", {"Naples#0": 0})
    judged_sets.judge(results, "other", "bob", "not asked", {"Naples#0": 1})
    test = open_page("evaluation", own_index, *options)
    test.selectbox(key="test_set").set_value("asked")
    assert "1 of them are judged" in bodies(run(test)) and "<bdi>volcano</bdi></a> 3×" not in bodies(test)
    button(test, "Evaluate").click()
    run(test)
    [(_, choices, uploads)] = started
    [(_, queries)], [(_, qrels)] = uploads["queries"], uploads["qrels"]
    assert choices["test_set"] is None and [orjson.loads(queries.read())["text"]] == ["volcano"]
    grades = [line.split()[2:] for line in qrels.read().decode().splitlines()]
    assert sorted(grades) == [["Naples#0", "0"], ["Paris#0", "0"]]
    log.unlink()
    assert "No such file" in notices(open_page("evaluation", own_index, *options))[0]
