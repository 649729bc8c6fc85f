"""Re-ranking against plain loops over CrossEncoder.predict, and by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import CrossEncoder

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models.scoring import PairScorer, open_scorer
from linkseek.reranker.pair_texts import Candidate, PairFormat, windows
from linkseek.reranker.reranking import Reranker
from linkseek.retriever.ranking import Query, Ranking
from tests.support.tiny.models import save_tiny_reranker

NOTHING = -np.inf


class Texts:
    """Candidates by row; counts what is read."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self.reads = 0

    def read(self, row: int) -> Candidate:
        self.reads += 1
        return self.candidates[row]

    def id(self, row: int) -> str:
        return f"id{row}"


class Numbers:
    """Scores a text by the first number in it. Reads a pair at a time, four words of a text in a window."""

    text_format = PairFormat()

    def __init__(self, scale: float = 1.0, name: str = "numbers") -> None:
        self.identity = {"name": name, "sha256": "0" * 64}
        self.scale = scale
        self.seen: list[tuple[str, str]] = []

    def score(self, queries: Iterable[str], texts: Iterable[str], on_rows=lambda rows: None) -> np.ndarray:
        found = []
        for query, text in zip(queries, texts, strict=True):
            self.seen.append((query, text))
            numbers = [float(word) for word in text.split() if word[-1].isdigit()]
            found.append(self.scale * (numbers[0] if numbers else float("nan")))
            on_rows(1)
        return np.array(found, np.float32)

    def windows(self, query: str, head: str, text: str) -> list[str]:
        spans, end = [], 0
        for word in text.split():
            start = text.index(word, end)
            end = start + len(word)
            spans.append((start, end))
        return windows(head, text, spans, 4)


def numbered(*values: object) -> Texts:
    return Texts([Candidate("", str(value)) for value in values])


def queries(count: int) -> list[Query]:
    return [Query(f"q{n}", f"question {n}") for n in range(count)]


def ranked(*lists: Sequence[tuple[int, float]], k: int | None = None) -> Ranking:
    """A ranking as given, not sorted."""
    width = k or max(map(len, lists))
    rows = [[row for row, _ in pairs] + [-1] * (width - len(pairs)) for pairs in lists]
    scores = [[score for _, score in pairs] + [NOTHING] * (width - len(pairs)) for pairs in lists]
    return Ranking(
        tuple(query.id for query in queries(len(lists))),
        np.array(rows, np.int64),
        np.array(scores, np.float32),
    )


def rerank(ranking: Ranking, texts: Texts, *scorers: PairScorer, **options) -> Ranking:
    return Reranker(scorers, texts, **options).rerank(queries(len(ranking.query_ids)), ranking)


# --- against loops over the library ---------------------------------------------------------------

DRAW = random.Random(7)


def letters(count: int) -> str:
    return " ".join(DRAW.choices(ascii_lowercase, k=count))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_tiny_reranker(tmp_path_factory.mktemp("models") / "tiny", seed=3)


@pytest.fixture(scope="module")
def peer(tiny) -> CrossEncoder:
    return CrossEncoder(str(tiny), device="cpu")


@pytest.fixture(scope="module")
def scorer(tiny) -> PairScorer:
    return open_scorer(str(tiny), device="cpu", precision="float32")


@pytest.fixture(scope="module")
def long_texts() -> Texts:
    """Of 48 tokens, 3 of them special: some texts fit, some do not, some are several times as long."""
    return Texts(
        [Candidate(letters(DRAW.randint(0, 3)), letters(DRAW.choice([1, 5, 30, 60, 150]))) for _ in range(40)]
    )


@pytest.fixture(scope="module")
def asked() -> list[Query]:
    lengths = [1, 3, 7, 20, 30, 90, 4, 4]  # two are longer than half of the model, one than all of it
    return [Query(f"q{n}", letters(length)) for n, length in enumerate(lengths)]


@pytest.fixture(scope="module")
def first(asked) -> Ranking:
    """12 candidates each; the last two queries have one and none."""
    lists = [[(row, -float(rank)) for rank, row in enumerate(DRAW.sample(range(40), 12))] for _ in asked]
    lists[-2:] = [lists[-2][:1], []]
    return ranked(*lists)


def sorted_by(scores: Sequence[float], found: Sequence[int]) -> list[int]:
    order = sorted(range(len(found)), key=lambda place: -scores[place])
    return [found[place] for place in order]


@pytest.mark.parametrize("long", ["first", "max"])
def test_the_order_is_that_of_a_plain_loop(asked, first, long_texts, scorer, peer, long):
    told: list[float] = []
    result = Reranker([scorer], long_texts, long=long).rerank(asked, first, told.append)
    several = moved = 0
    for number, query in enumerate(asked):
        found = [row for row, _ in first.results(number)]
        expected = []
        for row in found:
            title, text = long_texts.candidates[row].title, long_texts.candidates[row].text
            cut = [f"{title} {text}" if title else text] if long == "first" else loop(query.text, title, text)
            expected.append([(query.text, one) for one in cut])
        scores = iter(peer.predict([pair for pairs in expected for pair in pairs]).tolist())
        best = [max(next(scores) for _ in pairs) for pairs in expected]
        assert len(best) < 2 or np.diff(sorted(best)).min() > 2e-6  # else float32 would decide
        assert [row for row, _ in result.results(number)] == sorted_by(best, found)
        after = [score for _, score in result.results(number)]
        np.testing.assert_allclose(after, sorted(best, reverse=True), atol=1e-5)
        several += sum(len(pairs) > 1 for pairs in expected)
        moved += found != [row for row, _ in result.results(number)]
    assert moved == 6 and (several > 20) == (long == "max")  # not vacuous
    assert sum(told) == pytest.approx(6 * 12 + 1, rel=0.02 if long == "max" else 0)


def loop(query: str, title: str, text: str) -> list[str]:
    """Windows of a text of one-letter words, each a token: as long as pairs may be, half a window apart."""
    title_words, words, query_words = title.split(), text.split(), query.split()
    room = max(45 - len(query_words), 45 // 2) - len(title_words)
    if len(words) <= room:
        return [" ".join([*title_words, *words])]
    cut, start = [], 0
    while start + room < len(words):
        cut.append(words[start : start + room])
        start += room // 2
    return [" ".join([*title_words, *window]) for window in [*cut, words[-room:]]]


# --- by hand --------------------------------------------------------------------------------------


def test_scores_decide_and_ties_keep_the_order_of_the_first_stage():
    texts = numbered(5, 7, 5, 7, 1)
    result = rerank(ranked([(2, 9.0), (3, 8.0), (0, 7.0), (1, 6.0), (4, 5.0)]), texts, Numbers())
    assert result.rows.tolist() == [[3, 1, 2, 0, 4]]
    np.testing.assert_allclose(result.scores, [[7, 7, 5, 5, 1]], rtol=1e-6)
    assert (np.diff(result.scores[0]) < 0).all()
    again = Ranking.of(result.query_ids, result.rows, result.scores)
    assert again.rows.tolist() == result.rows.tolist()  # who sorts by score and row changes nothing


def test_below_the_depth_the_first_stage_follows_shifted():
    first = ranked([(0, 90.0), (1, 80.0), (2, 70.0), (3, 65.0), (4, 65.0)], [(1, 3.0), (0, 2.0)])
    result = rerank(first, numbered(1, 2, 3, 4, 5), Numbers(), depth=2)
    assert result.rows.tolist() == [[1, 0, 2, 3, 4], [1, 0, -1, -1, -1]]
    np.testing.assert_allclose(result.scores[0], [2, 1, 1, -4, -4], atol=1e-5)
    assert (np.diff(result.scores[0]) < 0).all()
    assert result.scores[1].tolist() == [2, 1, NOTHING, NOTHING, NOTHING]


def test_a_weight_joins_with_the_first_stage():
    """Scaled, the first stage says 1, .5, 0 and the model 0, .25, 1; with .6: .4, .35, .6."""
    first = ranked([(0, 30.0), (1, 20.0), (2, 10.0)])
    result = rerank(first, numbered(2, 4, 10), Numbers(), weight=0.6)
    assert result.rows.tolist() == [[2, 0, 1]]
    np.testing.assert_allclose(result.scores, [[0.6, 0.4, 0.35]], atol=1e-6)
    alone = rerank(first, numbered(2, 4, 10), Numbers(), weight=0)
    assert alone.rows.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(alone.scores, [[1, 0.5, 0]], atol=1e-6)


def test_scaling_sees_only_what_is_reranked():
    """The third is below the depth: the other two span the scale."""
    first = ranked([(0, 30.0), (1, 20.0), (2, -1000.0)])
    result = rerank(first, numbered(1, 2, 99), Numbers(), weight=0.25, depth=2)
    assert result.rows.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(result.scores, [[0.75, 0.25, 0.25 - 0]], atol=1e-6)


def test_an_ensemble_is_the_mean_of_scaled_scores():
    """0, .25, 1 by the one; by the other 1, .75, 0, whatever the sizes of its numbers."""
    first = ranked([(0, 3.0), (1, 2.0), (2, 1.0)])
    both = rerank(first, numbered(2, 4, 10), Numbers(), Numbers(-1000.0, "other"))
    np.testing.assert_allclose(both.scores, [[0.5, 0.5, 0.5]], atol=1e-6)
    assert both.rows.tolist() == [[0, 1, 2]]  # ties
    three = rerank(first, numbered(2, 4, 10), Numbers(), Numbers(2.0), Numbers(-1.0))
    np.testing.assert_allclose(three.scores, [[2 / 3, 5 / 12, 1 / 3]], atol=1e-6)
    assert three.rows.tolist() == [[2, 1, 0]]


def test_the_best_window_counts():
    texts = numbered("1 1 9 2 2 2", "5 5 5 5 5 5 5", "3")
    first = ranked([(0, 3.0), (1, 2.0), (2, 1.0)])
    assert rerank(first, texts, Numbers(), long="first").rows.tolist() == [[1, 2, 0]]
    found = rerank(first, texts, Numbers())
    assert found.rows.tolist() == [[0, 1, 2]]
    assert found.scores.tolist() == [[9, 5, 3]]


def test_what_a_model_reads_is_said_by_its_format():
    texts = Texts([Candidate("T", "1", "http://u"), Candidate("", "2", "http://u"), Candidate("T", "3")])
    model = Numbers()
    model.text_format = PairFormat(title_separator=" | ", url_separator=" > ", query_prompt="ask: ")
    Reranker([model], texts).rerank([Query("q0", "it\u2019s")], ranked([(0, 3.0), (1, 2.0), (2, 1.0)]))
    assert model.seen == [
        ("ask: it's", "http://u > T | 1"),
        ("ask: it's", "http://u | 2"),
        ("ask: it's", "T | 3"),
    ]
    model = Numbers()
    Reranker([model], texts).rerank([Query("q0", "q")], ranked([(0, 1.0)]))
    assert model.seen == [("q", "T 1")]  # a model that does not say so reads no address


# --- what holds for any scores --------------------------------------------------------------------

VALUES = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, 1e-30, -1e38, 1e38, 3e38])


@settings(deadline=None, max_examples=150)
@given(
    lists=st.lists(st.lists(VALUES, max_size=8), min_size=1, max_size=4),
    new=st.lists(VALUES, min_size=8, max_size=8),
    depth=st.integers(1, 9),
)
def test_a_reranked_ranking_is_sorted_and_whole(lists, new, depth):
    first = Ranking.of(
        [f"q{n}" for n in range(len(lists))],
        np.array([[*range(len(found))] + [-1] * (8 - len(found)) for found in lists]),
        np.array([found + [NOTHING] * (8 - len(found)) for found in lists], np.float32),
    )
    result = rerank(first, numbered(*map(repr, new)), Numbers(), depth=depth)
    for number in range(len(lists)):
        before = [row for row, _ in first.results(number)]
        after = [row for row, _ in result.results(number)]
        places = {row: place for place, row in enumerate(before)}
        assert after[:depth] == sorted(before[:depth], key=lambda row: (-np.float32(new[row]), places[row]))
        assert after[depth:] == before[depth:]
        scores = result.scores[number]
        assert (np.diff(scores[: len(after)].astype(np.float64)) < 0).all() and np.isfinite(
            scores[: len(after)]
        ).all()
        assert (scores[len(after) :] == NOTHING).all()


def test_no_queries_and_no_columns():
    empty = Ranking((), np.empty((0, 5), np.int64), np.empty((0, 5), np.float32))
    assert rerank(empty, numbered(), Numbers()).rows.shape == (0, 5)
    narrow = Ranking(("q0",), np.empty((1, 0), np.int64), np.empty((1, 0), np.float32))
    assert rerank(narrow, numbered(), Numbers(), weight=0.5).rows.shape == (1, 0)


def test_candidates_are_a_stream():
    """A pair is read when it is scored, whatever is still to come."""
    texts = numbered(*range(300))

    class Checked(Numbers):
        def score(self, queries, texts_, on_rows=lambda rows: None):
            def counted():
                for number, text in enumerate(texts_):
                    assert texts.reads <= number + 1
                    yield text

            return super().score(queries, counted(), on_rows)

    told: list[float] = []
    lists = [[(row, -float(row)) for row in range(100 * n, 100 * n + 100)] for n in range(3)]
    reranker = Reranker([Checked()], texts, depth=90)
    reranker.rerank(queries(3), ranked(*lists), told.append)
    assert sum(told) == reranker.pairs(ranked(*lists)) == texts.reads == 270


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["nan", "inf", "1e999"])
def test_a_score_that_is_no_number_names_the_pair(bad):
    texts = numbered(1, 2, "x")

    class Bad(Numbers):
        def score(self, *arguments):
            scores = super().score(*arguments)
            return np.where(np.isnan(scores), np.float32(bad), scores)

    with pytest.raises(InputError) as caught:
        rerank(ranked([(0, 2.0)], [(1, 3.0), (2, 2.0)]), texts, Bad(name="broken"))
    value = "nan" if bad == "nan" else "inf"
    assert f'broken: the score of query "q1" with "id2" is {value} (1 such scores)' in caught.value.message


def test_a_ranking_of_other_queries():
    with pytest.raises(ValueError, match="other queries"):
        Reranker([Numbers()], numbered(1)).rerank(queries(2), ranked([(0, 1.0)]))
