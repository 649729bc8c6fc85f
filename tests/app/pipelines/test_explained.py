"""Why a passage has its score: the parts of each kind of pipeline add up to it."""

import json

import pytest

from linkseek.app import search
from linkseek.app.page.answer_columns import with_nearest_sentences
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.service import SearchService
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import Explanation, Part, best_sentence, whole_score
from linkseek.testing import check_pipeline, check_sum

QUESTION = "Did a volcano erupt below a river in France?"
OWN = """
[alone]
rerank = "one"
of = "bm25"
depth = 2
[shared]
rerank = "one"
of = "hybrid-weighted"
weight = 0.7
depth = 3
[ensemble]
rerank = ["one", "bm25", "bi-encoder:two"]
of = "dense"
depth = 4
[weighted-ensemble]
rerank = ["one", "query-likelihood"]
of = "dense"
weight = 0.25
depth = 4
[shallow]
fusion = "weighted"
of = ["bm25", "shared", "ql"]
weights = [0.5, 0.0, 2.5]
depth = 1
"""


@pytest.fixture
def pipelines(make_pipelines, monkeypatch):
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds.scorer_is_here", lambda name: True)
    return make_pipelines(OWN)


def test_the_parts_add_up_for_every_kind_of_pipeline(pipelines):
    names = pipelines.available()
    assert {"bm25", "ql", "dense", "hybrid", "best", "hops"} < set(names)
    for name in names:
        for k in (2, 6):
            explained = check_pipeline(pipelines.open(name), pipelines.index, QUESTION, k)
            assert len(explained) == k or name in ("bm25", "ql", "alone", "bm25-answers"), name
            assert all(one.parts for one in explained), name


@pytest.mark.parametrize("name", ["hybrid-weighted", "shared", "weighted-ensemble", "shallow"])
def test_weights_that_are_turned_give_the_ranks_of_a_pipeline_that_has_them(pipelines, tmp_path, name):
    query, k = Query("question", QUESTION), 6
    shares, members = (
        pipelines.open(name).shares(query, k),
        len(pipelines.open(name).shares(query, k).weights),
    )
    turned = [0.9, 0.1, 0.5][:members]
    for weights, pipeline in (([*shares.weights.values()], name), (turned, None)):
        if pipeline is None:
            pipeline = pipelines.write_turned(name, turned, tmp_path / "own.toml")
            (tmp_path / "own.toml").write_text(OWN + (tmp_path / "own.toml").read_text())
        known = Pipelines(
            pipelines.index, tmp_path / "own.toml" if pipeline != name else None, pipelines._models
        )
        known.entries |= {} if pipeline != name else pipelines.entries
        sums = {
            row: sum(w * s for w, s in zip(weights, of, strict=True)) for row, of in shares.scaled.items()
        }
        ranked = [row for row, _ in known.open(pipeline)([query], k).results(0) if row in sums]
        values = [sums[row] for row in ranked]
        assert len(values) > 1 and values == sorted(values, reverse=True)
    assert pipeline == f"{name}-{'-'.join(f'{100 * weight:.0f}' for weight in turned)}"


def test_weights_that_nothing_can_have(pipelines, tmp_path):
    assert pipelines.open("hybrid").shares is None is pipelines.open("alone").shares
    for name, weights in (("hybrid", [1, 1]), ("alone", [1, 0]), ("none", [1, 1]), ("shared", [0, 0]),
                          ("shared", [float("nan"), 1]), ("shared", [-1, 1]), ("shared", [])):  # fmt: skip
        with pytest.raises(UsageError, match="these weights are not possible"):
            pipelines.write_turned(name, weights, tmp_path / "own.toml")
    assert not (tmp_path / "own.toml").exists()


def test_words_of_bm25_are_those_of_lucene(pipelines):
    """By hand: idf x tf with k1 = .9 and b = .4, and the stem of a word that the question has twice."""
    [best, *_] = check_pipeline(pipelines.open("bm25"), pipelines.index, "erupted volcano volcano volcano", 6)
    assert [part.name for part in best.parts] == ["volcano", "erupted"]
    factors = best.parts[0].factors
    tf = factors["freq"] / (factors["freq"] + 0.9 * (1 - 0.4 + 0.4 * factors["dl"] / factors["avgdl"]))
    assert factors["boost"] == 3 and tf == pytest.approx(factors["tf"])
    assert best.parts[0].added == pytest.approx(3 * factors["idf"] * tf, rel=1e-6)
    assert "boost" not in best.parts[1].factors
    [alone, *_] = check_pipeline(pipelines.open("ql"), pipelines.index, "volcano", 6)  # without a sum
    assert [part.name for part in alone.parts] == ["volcano"]


def test_a_fusion_names_what_each_member_gives(pipelines):
    [best, *_] = check_pipeline(pipelines.open("hybrid-weighted"), pipelines.index, QUESTION, 6)
    words, vectors = best.parts
    assert (words.name, vectors.name) == ("bm25", "dense")
    assert words.factors["weight"] == 0.4 and words.of and words.of.rank == words.factors["rank"]
    explained = check_pipeline(pipelines.open("hybrid"), pipelines.index, QUESTION, 6)
    part = explained[0].parts[0]
    assert part.added == pytest.approx(1 / (60 + part.factors["rank"]))
    explained = check_pipeline(pipelines.open("hybrid"), pipelines.index, "volcano", 6)
    lacking = [part for one in explained for part in one.parts if part.meaning.startswith("not among")]
    assert lacking and all(part.added == 0 and part.of is None for part in lacking)


def test_below_the_depth_of_a_re_ranker(pipelines):
    *_, last = check_pipeline(pipelines.open("alone"), pipelines.index, QUESTION, 6)
    assert last.rank > 2
    assert [part.name for part in last.parts] == ["bm25", "moved below the re-ranked ones"]


def test_the_best_sentence_of_vectors_and_re_rankers(pipelines):
    pipeline, query = pipelines.open("shared"), Query("q", "Boats carry gravel")
    row = int(pipelines.index.passages.rows_of(["Seine#0"])[0])
    text = pipelines.index.passages[row].text
    explanation = pipeline.explained(query, row, 6)
    assert explanation
    said = [text[one.start : one.end] for one in explanation.sentences]
    assert said == ["Boats on it carry gravel and visitors."] * len(said) and said
    kinds = [part.sentence is not None for part in explanation.parts[1].of.parts]  # bm25, dense
    assert kinds == [False, False]
    assert explanation.parts[1].of.parts[1].of.sentences


def test_a_pipeline_of_ones_own_has_one_number():
    def pipeline(queries, k):
        return Ranking.of_candidates([query.id for query in queries], [([4, 2], [1.0, 3.0])], k)

    explain = whole_score(pipeline)
    assert explain(Query("q", "x"), 4, 2) == Explanation(2, 1.0, (Part("score", 1.0),))
    assert explain(Query("q", "x"), 4, 1) is None


def test_the_end_of_a_sentence_that_began_before_is_not_the_best():
    text = "computer program. She wrote it. It was far too long."
    best = best_sentence(text, lambda some: [-len(one) for one in some])
    assert best and text[best.start : best.end] == "She wrote it."
    assert best_sentence("computer program.", lambda some: [1.0] * len(some))
    assert best_sentence("", lambda some: []) is None


def test_explanations_on_the_command_line(built_index, word_encoder, capsysbinary):
    arguments = ["--index", str(built_index), "--pipeline", "hybrid-weighted", "-k", "2", "--explain"]
    search.main([*arguments, "--json", QUESTION])
    hits = json.loads(capsysbinary.readouterr().out)["hits"]
    for hit in hits:
        parts = hit["explanation"]["parts"]
        assert [part["name"] for part in parts] == ["bm25", "dense"]
        assert sum(part["added"] for part in parts) == pytest.approx(hit["score"], abs=1e-6)
        words = parts[0]["of"]
        assert sum(part["added"] for part in words["parts"]) == pytest.approx(words["score"], rel=1e-5)
    search.main([*arguments, QUESTION])
    out = capsysbinary.readouterr().out.decode()
    assert "  bm25 (rank 1, score " in out and "best sentence" in out and "idf" in out


def test_a_service_explains_what_it_has_searched_for(built_index, word_encoder):
    service = SearchService(built_index)
    for name in ("bm25", "best"):
        answer = service.search(QUESTION, name, 3)
        for hit, explanation in zip(answer.hits, service.explained(answer, 3), strict=True):
            check_sum(explanation, hit.score)
            assert service.why(QUESTION, hit.passage_id, [name], 3).scores == {name: explanation}
    unknown = service.why("zzz", answer.hits[0].passage_id, ["bm25"])
    assert unknown.scores == {"bm25": None} and unknown.by_links == ()
    assert service.why(QUESTION, "Paris#0", ["bm25", "hops"]).by_links == ("hops",)


def test_sentences_are_marked_where_no_word_is(built_index, word_encoder):
    service = SearchService(built_index)
    answers = [service.search("gravel zzz", name, 6) for name in ("bm25", "dense", "hybrid")]
    words, vectors, both = with_nearest_sentences(service, answers)
    assert all(hit.nearest is None and hit.marks for hit in words.hits)
    unmarked = [hit for hit in vectors.hits if not hit.marks]
    assert unmarked and all(hit.nearest for hit in unmarked)
    nearest = {hit.row: hit.nearest for hit in vectors.hits}
    assert all(hit.nearest == nearest[hit.row] for hit in both.hits)
