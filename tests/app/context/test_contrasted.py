"""The contrasts of one article, beside the same mined from the whole index; what their evidence becomes."""

from types import SimpleNamespace

import numpy as np
import pytest

from linkseek.app.context import training_data
from linkseek.app.context.training_data import Mining, contrast_miners, mine_examples
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import WORD
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.base import ContrastSource
from linkseek.reranker.objectives.harp import Harp
from linkseek.reranker.objectives.prop import Prop
from linkseek.reranker.objectives.registry import CONTRASTS
from tests.support.linked_corpus import build_linked, page, random_pages, rows_of, topology_of

AROUND = [name for name, objective in CONTRASTS.objectives.items() if not objective.needs_whole]
HARP = [name for name in CONTRASTS.objectives if name.startswith("harp")]


class LookingAtLongWords:
    """Attentions without an encoder: a token is a word, and its weight its length."""

    def of(self, texts):
        found = []
        for text, _ in texts:
            words = [(match.start(), match.end()) for match in WORD.finditer(text)]
            start, end = (np.array(bounds, np.int64) for bounds in zip(*words, strict=True))
            found.append(Attended(start, end, (end - start) / 100))
        return found


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """A busy machine shows no less."""
    monkeypatch.setattr(training_data, "SECONDS", 600)


@pytest.fixture
def encoder(monkeypatch):
    monkeypatch.setattr(Harp, "attentions", LookingAtLongWords())


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_linked(tmp_path_factory.mktemp("contrasted") / "index", random_pages(), words=16)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The example of `reranker.objectives.php`, in passages of six words."""
    pages = [
        page(
            "Jobs", "[[Apple]] sells [[electronics]] as a [[company]]. Later he was fond of [[Zen]] too.", "J"
        ),
        page("Apple", "[[Jobs|He]] began it in a garage."),
        page("electronics", "Things with a current inside them. As [[Jobs]] knew."),
        page("company", "Many who work together for money."),
        page("Zen", "A school of thought in Asia."),
    ]
    return build_linked(tmp_path_factory.mktemp("jobs") / "index", pages, words=6)


def mine(index, name, document, most=6):
    return contrast_miners()[name](Mining(index, topology_of(index)).near(document), most)


def strong(text):
    return [text.text[start:end] for start, end in text.strong]


def marked(text):
    return [text.text[start:end] for start, end in text.marks]


def test_every_objective_can_be_shown():
    assert contrast_miners().keys() == CONTRASTS.objectives.keys()


@pytest.mark.parametrize("name", AROUND)
def test_the_links_around_an_article_give_the_contrasts_of_the_whole_index(index, name):
    """The same candidates, as the passages and links that they stand for, and the same contrasts of them."""
    objective, whole, mining = (
        CONTRASTS.objectives[name],
        ContrastSource(index),
        Mining(index, topology_of(index)),
    )
    rows = rows_of(objective, whole)
    by_document, compared = objective.documents(whole, rows), 0
    for document in range(len(index.documents)):
        near = mining.near(document)
        found = rows_of(objective, near.source)
        own = found[objective.documents(near.source, found) == document]
        expected = rows[by_document == document]
        draws = np.arange(len(own)) * 7919
        assert len(own) == len(expected) == sum(mine(index, name, document, 1).count.values())
        assert [*objective.read(near.source, own, draws)] == [*objective.read(whole, expected, draws)]
        compared += len(own)
    assert compared == len(rows) > 4


@pytest.mark.parametrize("name", HARP)
def test_candidates_of_the_whole_index_are_counted_by_article(index, name, encoder):
    graph = index.links
    rows = rows_of(CONTRASTS.objectives[name], ContrastSource(index))
    holding = [index.passages[int(graph.passage[link])].document_id for link in rows[:, 0]]
    counts = [mine(index, name, document, 1).count[name] for document in range(len(index.documents))]
    assert counts == [holding.count(document.id) for document in index.documents]
    assert sum(counts) > 10


def test_word_sets_with_their_likelihoods(index):
    prop = Prop(minimum_count=2)
    mining = Mining(index, topology_of(index))
    document = int(np.argmax(np.diff(index.passages.offsets)))
    mined = mine_examples(prop, mining.near(document), 3)
    assert mined.count == {"prop": 5} and len(mined.examples) == 3 and mined.unit == "contrast"
    assert mined == mine_examples(prop, mining.near(document), 3)
    for example in mined.examples:
        [worse] = example.worse
        assert example.asked.document_id == index.documents[document].id
        figures = [
            float(text.note.removeprefix("log\u00a0P\u00a0=\u00a0−")) for text in (example.better, worse)
        ]
        assert figures[0] <= figures[1] and len(example.better.text.split()) == len(worse.text.split())
        assert {word.lower() for word in strong(example.asked)} <= set(example.better.text.split())
        assert {word.lower() for word in marked(example.asked)} <= set(worse.text.split())
    assert any(strong(example.asked) for example in mined.examples)


def test_words_of_the_collection_are_counted_once(index, monkeypatch):
    counted, prepare = [], Prop.prepare
    monkeypatch.setattr(Prop, "prepare", lambda self, source: counted.append(self) or prepare(self, source))
    mining, prop = Mining(index, topology_of(index)), Prop(minimum_count=2)
    for document in (0, 1, 0):
        mine_examples(prop, mining.near(document), 1)
    assert len(counted) == 1


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [
        ("php-hp", {"Apple": "D1", "electronics": "D2", "company": "D3"}, {"Zen": "D4"}),
        ("php-shp", {"Apple": "D1", "electronics": "D2"}, {"company": "D3"}),
        ("php-mrds", {"Apple": "D1"}, {"electronics": "D2"}),
    ],
)
def test_groups_of_links(jobs, name, better, worse):
    first = [each for each in mine(jobs, name, 0).examples if each.asked.passage_id == "Jobs#0"]
    assert {example.better.document_id: example.better.note[:2] for example in first} == better
    for example in first:
        assert {text.document_id: text.note[:2] for text in example.worse} == worse
        assert example.more_worse == 0
        assert strong(example.asked) == [example.better.document_id]
        assert marked(example.asked) == [id_ for id_ in worse if id_ != "Zen"]
        backs = {"Apple": ["He"], "electronics": ["Jobs"], "company": []}
        assert strong(example.better) == backs[example.better.document_id]


def test_an_article_without_such_groups_says_so(jobs):
    mined = mine(jobs, "php-mrds", 4)
    assert mined.examples == () and mined.why.startswith("It has no passage with anchors both to")


def test_many_worse_documents_are_counted_once_each(tmp_path):
    others = [page(f"w{n}", "A page.") for n in range(9)]
    links = " ".join(f"[[w{n}]]" for n in range(9))
    index = build_linked(
        tmp_path / "index", [page("A", f"One [[B]] here now. {links}"), page("B", "B."), *others], words=4
    )
    [example, *_] = mine(index, "php-hp", 0).examples
    assert len({text.document_id for text in example.worse}) == len(example.worse) == 2
    assert example.more_worse == 7


def test_a_sentence_with_its_passage_and_a_random_one(index):
    examples = mine(index, "ict", 0).examples
    assert examples
    for example in examples:
        [worse] = example.worse
        assert example.asked.passage_id == example.better.passage_id
        assert worse.document_id != example.asked.document_id == index.documents[0].id


def test_a_passage_that_links_to_the_article(jobs):
    [example] = mine(jobs, "wlp", 1).examples
    [worse] = example.worse
    assert (example.asked.document_id, example.better.passage_id) == ("Apple", "Jobs#0")
    assert strong(example.better) == ["Apple"] and worse.document_id not in ("Jobs", "Apple")


@pytest.fixture(scope="module")
def fruits(tmp_path_factory):
    pages = [
        page("Fruit", "He ate an [[Apple|apple]] at home with [[Ann]] yesterday."),
        page("Phone", "The [[Apple Inc.|Apple]] phone rang all day."),
        page("Apple", "An apple is a round sweet fruit."),
        page("Apple Inc.", "The company sells phones and computers everywhere."),
        page("Ann", "Ann is a name of many people."),
    ]
    return build_linked(tmp_path_factory.mktemp("fruits") / "index", pages)


def test_harp_by_hand(fruits, encoder):
    [rqp, _] = mine(fruits, "harp-rqp", 0).examples
    assert (rqp.asked.document_id, rqp.better.passage_id) == ("Apple", "Fruit#0")
    assert rqp.better.text.startswith("apple ") and rqp.worse[0].document_id == ""
    assert {word.lower() for word in marked(rqp.asked)} & set(rqp.worse[0].text.split())

    [qdm] = mine(fruits, "harp-qdm", 0).examples
    assert strong(qdm.asked) == ["apple"] and qdm.asked.passage_id == "Fruit#0"
    assert (qdm.better.document_id, qdm.worse[0].document_id) == ("Apple", "Apple Inc.")

    [rdp] = mine(fruits, "harp-rdp", 0).examples  # the longer anchor is looked at more
    assert (strong(rdp.asked), marked(rdp.asked)) == (["apple"], ["Ann"])
    assert (rdp.better.document_id, rdp.worse[0].document_id) == ("Apple", "Ann")
    shares = [float(text.note.rpartition(" ")[2]) for text in (rdp.better, rdp.worse[0])]
    assert shares[0] > shares[1] and sum(shares) == pytest.approx(1, abs=0.002)

    [acm] = mine(fruits, "harp-acm", 0).examples
    [asked] = strong(acm.asked)
    assert {asked, acm.better.document_id} in ({"apple", "Ann"}, {"Ann", "Apple"})
    assert acm.worse[0].document_id in ("Phone", "Apple Inc.")


# --- where there is nothing to show ---------------------------------------------------------------


def test_no_encoder_and_one_that_cannot_be_used(fruits, monkeypatch):
    monkeypatch.setattr(training_data, "is_here", lambda name: False)
    assert "is not on this machine" in mine(fruits, "harp-rqp", 0).why
    assert mine(fruits, "wlp", 2).examples
    monkeypatch.undo()

    def broken(self, source):
        raise InputError("encoder x: it gives no attentions", "Choose another.")

    monkeypatch.setattr(Harp, "prepare", broken)
    assert mine(fruits, "harp-rqp", 0).why == "encoder x: it gives no attentions. Choose another."


def test_an_encoder_that_is_slow_or_at_work(index, encoder, monkeypatch):
    most = len(mine(index, "harp-rqp", 0).examples)
    read = Harp.read
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def slow(self, *given):
        clock.now += 0.02
        return read(self, *given)

    monkeypatch.setattr(Harp, "read", slow)
    monkeypatch.setattr(training_data, "time", clock)
    monkeypatch.setattr(training_data, "SECONDS", 0.05)
    mined = mine(index, "harp-rqp", 0)
    assert 1 <= len(mined.examples) < most and mined.why == "More would take too long to read here."
    with training_data._READING:
        assert "at work for others" in mine(index, "harp-rqp", 0).why
        assert mine(index, "wlp", 0).why == ""


def test_a_large_index_is_not_read_as_a_whole(index, monkeypatch):
    monkeypatch.setattr(training_data, "MAX_PASSAGES", len(index.passages) - 1)
    assert "linkseek mine-contrasts --objective prop" in mine(index, "prop", 0).why
    assert mine(index, "wlp", 0).examples


def test_rare_words_and_no_links(tmp_path):
    index = build_linked(tmp_path / "index", [page("a", ""), page("b", "One sentence.")])
    for document in (0, 1):
        for name in CONTRASTS.objectives:
            mined = mine(index, name, document)
            assert mined.examples == () and mined.objective == name
    assert "no word that occurs 50 times" in mine(index, "prop", 1).why
