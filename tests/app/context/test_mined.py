"""What objectives mine from one article, beside the same mined from the whole index."""

import numpy as np
import pytest

from linkseek.app.context.training_data import Mining, pair_miners
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.objectives.registry import PAIRS
from tests.support.linked_corpus import build_linked, page, random_pages, topology_of


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_linked(tmp_path_factory.mktemp("mined") / "index", random_pages(), words=16)


def of_whole_index(index, objective):
    """Every candidate of an objective: kind -> (query, positive, links...) as tuples."""
    found = objective.candidates(LinkSource(index))
    return {kind: as_tuples(pairs) for kind, pairs in found.items()}


def as_tuples(pairs):
    names = ("query", "positive", "query_link", "positive_link", "shared_link")
    return [tuple(int(getattr(pairs, name)[i]) for name in names) for i in range(len(pairs))]


def test_the_most_linked(index):
    mining = Mining(index, topology_of(index))
    degrees = mining.topology.in_degree[list(mining.most_linked)].tolist()
    assert (
        degrees == sorted(mining.topology.in_degree.tolist(), reverse=True)[: len(degrees)]
        and len(degrees) == 12
    )


@pytest.mark.parametrize("name", list(PAIRS.objectives))
def test_an_article_gives_the_pairs_that_the_whole_index_gives_it(index, name):
    objective, mining = PAIRS.objectives[name], Mining(index, topology_of(index))
    whole = of_whole_index(index, objective)
    total = dict.fromkeys(whole, 0)
    for document in range(len(index.documents)):
        near = mining.near(document)
        for kind, pairs in objective.candidates(near.source).items():
            mine = [pair for pair in as_tuples(pairs) if pair[0] in near.passages]
            assert mine == [pair for pair in whole[kind] if pair[0] in near.passages]
            total[kind] += len(mine)
        counted = pair_miners()[name](near, 3).count
        assert counted == {kind: sum(p[0] in near.passages for p in pairs) for kind, pairs in whole.items()}
    assert total == {kind: len(pairs) for kind, pairs in whole.items()}
    assert all(count > 10 for count in total.values())  # else nothing was compared


def test_the_example_of_the_paper(tmp_path):
    """HLP's figure 2, left: two articles that link to each other ask for each other's passage."""
    index = build_linked(
        tmp_path / "index",
        [
            page("Letters to Santa", "It is a film. It was directed by [[Mitja Okorn]]."),
            page("Mitja Okorn", "He is a director. In 2011 he made [[Letters to Santa|a film]]."),
        ],
    )
    mined = pair_miners()["dual-link"](Mining(index, topology_of(index)).near(0), 6)
    [example] = mined.examples
    assert (mined.objective, mined.count) == ("dual-link", {"dual-link": 1})
    assert example.asked.text == "It was directed by Mitja Okorn."
    assert [example.asked.text[slice(*mark)] for mark in example.asked.marks] == ["Mitja Okorn"]
    assert example.better.document_id == "Mitja Okorn" and example.better.passage_id == "Mitja Okorn#0"
    assert [example.better.text[slice(*mark)] for mark in example.better.marks] == ["a film"]
    assert example.worse == () and example.through is None


def test_a_co_mention_names_the_third(tmp_path):
    hubs = [page(f"hub{n}", "x") for n in range(4)]
    fillers = [page(f"f{n}", "[[hub0]] [[hub1]] [[hub2]] [[hub3]]") for n in range(20)]  # K is 20
    index = build_linked(
        tmp_path / "index",
        [
            page("C", "It has songs by [[E|Sherman]]."),
            page("D", "Later sang [[E|his]] theme of [[C|the cats]]."),
            page("E", "A man."),
            *hubs,
            *fillers,
        ],
    )
    near = Mining(index, topology_of(index)).near(0)
    found = pair_miners()["co-mention"](near, 20).examples
    assert [example.through for example in found] == [("E", "E")]
    assert [found[0].better.text[slice(*mark)] for mark in found[0].better.marks] == ["his", "the cats"]


def test_examples_are_few_the_same_each_time_and_from_all_over(index):
    mining = Mining(index, topology_of(index))
    longest = int(np.argmax(np.diff(index.passages.offsets)))
    first = pair_miners()["ict"](mining.near(longest), 2)
    assert first == pair_miners()["ict"](mining.near(longest), 2)
    assert len(first.examples) <= 2
    many = pair_miners()["wlp"](mining.near(0), 4)
    assert sum(many.count.values()) > 4 == len(many.examples)
    assert len({example.better.passage_id for example in many.examples}) == 4


def test_an_article_without_text_or_links(tmp_path):
    index = build_linked(tmp_path / "index", [page("a", ""), page("b", "One sentence.")])
    mining = Mining(index, topology_of(index))
    for document in (0, 1):
        for name, objective in PAIRS.objectives.items():
            mined = pair_miners()[name](mining.near(document), 5)
            assert mined.summary == objective.summary
            assert mined.examples == () or (document == 1 and not objective.needs_links)
        assert pair_miners()["ict"](mining.near(document), 5).examples == ()
    assert mining.topology.in_degree_limit == 0
