"""The questions of finished evaluations are known in a search."""

import copy

from linkseek.app.background.services import Services
from linkseek.app.evaluation.results import Results
from linkseek.app.evaluation.runner import EvaluationPlan, evaluate
from linkseek.app.report.finished import AskedQuestions, find_in_report
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.ranking import Query
from tests.support.results_records import RESULTS
from tests.support.small_index import build


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
    own, other = AskedQuestions(tmp_path, "own"), AskedQuestions(tmp_path, "other")
    assert own.find("which river").answers == other.find("Which river?").answers == ("the Seine",)
    assert own.find("which town").relevance == {"Lyon": 1} and not other.find("which town")
    assert not own.find("Which sea?")
    write(tmp_path, "two", [{"id": "1", "text": "Which sea?", "answers": ["North"]}])
    assert own.find("Which sea?").answers == ("North",)
    (tmp_path / "two" / "results.json").write_text("{")
    assert not own.find("Which sea?")


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
