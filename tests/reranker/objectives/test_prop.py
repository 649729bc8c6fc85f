"""PROP on ten documents, counted by hand; the sampler against the table of all probabilities."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.objectives.base import ContrastSource, draw_count, stop_words, words_of
from linkseek.reranker.objectives.prop import Collection, DocumentModel, Sampler, count_words
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.miner import Miner
from tests.support.tiny.linked import document, make_index, mined

TEXTS = [
    "Moth moth bug LAMP", "moth the lamp", "bug, bug: bug!", "lamp of oil", "tree leaf",
    "tree leaf", "tree", "oil", "the tree", "rare",
]  # fmt: skip
# 22 words: moth 3, bug 4, lamp 3, oil 2, tree 4, leaf 2, rare 1, the 2, of 1; 2.2 a document
P_D0 = {"moth": 2.3, "bug": 1.4, "lamp": 1.3, "tree": 0.4, "oil": 0.2, "leaf": 0.2}  # over 6.2
SETTINGS = {"minimum_count": 2, "threshold": 1.0}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    rows = [document(f"d{n}", text, title="") for n, text in enumerate(TEXTS)]
    return make_index(tmp_path_factory.mktemp("ten"), rows)


@pytest.fixture(scope="module")
def collection(index: OpenIndex) -> Collection:
    return count_words(ContrastSource(index), 2)


def test_the_collection_is_counted(collection: Collection) -> None:
    assert collection.words == ("bug", "lamp", "leaf", "moth", "oil", "tree")
    assert collection.counts.tolist() == [4, 3, 2, 3, 2, 4]
    assert (collection.total, collection.mean_length) == (22, pytest.approx(2.2))
    assert collection.probabilities[3] == pytest.approx(3 / 22)


def test_titles_are_counted_too(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("Moth", "A bug."), document("Bug", "A moth.")])
    assert count_words(ContrastSource(index), 2).words == ("bug", "moth")


def test_a_documents_model(collection: Collection) -> None:
    model = DocumentModel(collection, words_of(TEXTS[0]), 2.2)
    expected = [P_D0[word] / 6.2 for word in collection.words]
    assert model.probabilities(range(6)).tolist() == pytest.approx(expected)
    moth, tree = collection.numbers["moth"], collection.numbers["tree"]
    assert model.log_likelihood([moth, tree, moth]) == pytest.approx(math.log(2.3 * 0.4 * 2.3 / 6.2**3))


def test_the_likelihood_does_not_depend_on_the_order(collection: Collection) -> None:
    model = DocumentModel(collection, words_of(TEXTS[0]), 2.2)
    numbers = [0, 3, 3, 1, 5, 2, 4]
    shuffled = {model.log_likelihood(np.random.default_rng(n).permutation(numbers)) for n in range(50)}
    assert len(shuffled) == 1


def test_how_often_a_word_is_kept(collection: Collection) -> None:
    kept = dict(zip(collection.words, collection.keep_probabilities(0.02), strict=True))
    assert kept["moth"] == pytest.approx(math.sqrt(0.02 * 22 / 3) + 0.02 * 22 / 3)  # 0.530
    assert kept["oil"] == pytest.approx(0.6890, abs=1e-4)
    assert collection.keep_probabilities(0.2).tolist() == [1.0] * 6


@pytest.mark.parametrize("threshold", [1.0, 0.001])
@pytest.mark.parametrize("text", [TEXTS[0], "rare of", "tree"])
def test_the_sampler_draws_by_the_table_of_all_probabilities(collection, threshold, text):
    kept, model = collection.keep_probabilities(threshold), DocumentModel(collection, words_of(text), 2.2)
    table = model.probabilities(range(6)) * kept
    drawn = Sampler(collection, kept, 2.2).draw(model, 40_000, np.random.default_rng(3))
    shares = np.bincount(drawn, minlength=6) / len(drawn)
    assert shares.tolist() == pytest.approx((table / table.sum()).tolist(), abs=0.01)


def test_the_sampler_draws_from_the_document_alone_with_little_smoothing(collection: Collection) -> None:
    model = DocumentModel(collection, words_of(TEXTS[0]), 1e-9)
    drawn = Sampler(collection, np.ones(6), 1e-9).draw(model, 1000, np.random.default_rng(3))
    assert {collection.words[number] for number in drawn} == {"moth", "bug", "lamp"}


def test_the_number_of_words() -> None:
    generator = np.random.default_rng(1)
    counts = Counter(draw_count(3.0, generator) for _ in range(20_000))
    assert min(counts) == 1
    nothing = math.exp(-3)
    for count in range(1, 7):
        expected = 3**count * nothing / math.factorial(count) / (1 - nothing)
        assert counts[count] / 20_000 == pytest.approx(expected, abs=0.01)


def test_contrasts_of_ten_documents(index: OpenIndex) -> None:
    found = mined(index, "prop", **SETTINGS)
    assert len(found) == 50
    assert Counter(contrast.evidence["document_id"] for contrast in found) == {f"d{n}": 5 for n in range(10)}
    for contrast in found[:5]:
        (worse,) = contrast.worse
        assert contrast.better.document == worse.document == TEXTS[0]
        sets = [pair.query.split(" ") for pair in (contrast.better, worse)]
        assert len(sets[0]) == len(sets[1])
        likelihoods = [math.prod(P_D0[word] / 6.2 for word in words) for words in sets]
        assert likelihoods[0] > likelihoods[1]
        assert [math.exp(log) for log in contrast.evidence["log_likelihood"]] == pytest.approx(likelihoods)


def test_smoothing_and_number_are_settings(index: OpenIndex) -> None:
    found = mined(index, "prop", mu=1e-9, per_document=2, mean_words=0.01, **SETTINGS)
    assert all(len(contrast.better.query.split()) == 1 for contrast in found)
    # d2 holds one word, so its sets are always equal; those without a word of the vocabulary draw any.
    assert Counter(contrast.evidence["document_id"] for contrast in found)["d0"] == 2
    assert "d2" not in {contrast.evidence["document_id"] for contrast in found}


def test_random_sets_hold_every_word_alike(index: OpenIndex) -> None:
    found = mined(index, "prop-random", per_document=200, **SETTINGS)
    words = Counter(word for c in found for pair in (c.better, *c.worse) for word in pair.query.split())
    assert sorted(words) == ["bug", "lamp", "leaf", "moth", "oil", "tree"]
    assert max(words.values()) < 1.15 * min(words.values())
    for contrast in found[:200]:
        better, worse = (math.prod(P_D0[word] for word in pair.query.split())
                         for pair in (contrast.better, *contrast.worse))  # fmt: skip
        assert better > worse


def test_documents_are_cut_to_fit(tmp_path: Path) -> None:
    words = [f"w{n * n % 7}" for n in range(511)]
    text = " ".join([*words, "last", *["behind"] * 90])
    index = make_index(tmp_path, [document("long", text), document("blank", " ")])
    found = mined(index, "prop", minimum_count=50, mu=0.001, per_document=40, threshold=1.0)
    assert {contrast.better.document for contrast in found} == {" ".join([*words, "last"])}
    assert {contrast.better.title for contrast in found} == {"long"}
    queries = " ".join(contrast.better.query for contrast in found).split()
    assert set(queries) == {"w0", "w1", "w2", "w4"}


def test_no_word_is_frequent_enough(index: OpenIndex) -> None:
    with pytest.raises(InputError, match="no word that occurs 50 times and is no stop word") as caught:
        mined(index, "prop")
    assert "22 words in all; lower --minimum-count" in caught.value.message


def test_titles_without_texts_give_nothing(tmp_path: Path) -> None:
    rows = [document("Moth", " "), document("Moth bug", ""), document("Bug", "Moth bug bug.")]
    index = make_index(tmp_path, rows, words=0)  # a title alone is a passage here
    assert {contrast.better.title for contrast in mined(index, "prop", **SETTINGS)} == {"Bug"}


def test_documents_of_one_word_give_nothing(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document(f"d{n}", "moth the moth", title="") for n in range(3)])
    with pytest.raises(InputError, match="none of the 15 candidates for prop gives a contrast"):
        mined(index, "prop", **SETTINGS)
    assert not (tmp_path / "contrasts.jsonl").exists()


def test_the_collection_is_told(index: OpenIndex) -> None:
    told = Miner(index, CONTRASTS.mix("prop", SETTINGS)).counts()
    assert told["candidates"] == {"prop": 50}
    assert told["prop"] == {"words": 22, "vocabulary": 6, "mean_length": pytest.approx(2.2)}


def test_words() -> None:
    assert words_of("Don’t  naïve_東京 Über-x2.") == ["don", "t", "naïve", "東京", "über", "x2"]
    stopped = stop_words("en")
    assert {"the", "isn", "t", "yourselves", "of"} <= stopped
    assert not {"moth", "pronouns", "subject", ""} & stopped
    assert "der" in stop_words("de")
    with pytest.raises(UsageError, match="no stop list for the language 'xx'"):
        stop_words("xx")
