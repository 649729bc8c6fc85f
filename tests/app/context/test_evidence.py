"""Evidence around one passage against the definitions in plain loops, and what a question names."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.app.context.evidence import CoMentionEvidence, Evidence
from linkseek.app.context.titles import ArticleName, article_name
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.links.topology import PassagePairs, Topology
from tests.support.tiny.linked import document, make_index, topology_of

HERSCHEL = [
    document(
        "Caroline",
        "She helped [her brother|William] and found a [comet]. The [Moon] was watched, and [Venus_(planet)].",
        "Caroline Herschel",
    ),
    document("William", "With [Caroline] he built a [telescope|Telescope].", "William Herschel"),
    document("comet", "A body of ice. [Caroline Herschel|Caroline] found eight.", "Comet"),
    document("Moon", "It goes around.", "Moon"),
    document("Venus_(planet)", "A planet, not the goddess; see [her|Caroline].", "Venus (planet)"),
    document("Telescope", "A tube to look through.", "Telescope"),
    document("Hannover", "A town, where [Caroline] was born, and saw the [Moon].", "Hannover"),
    *(document(f"hub{n}", "It links to [everything|Telescope].", f"Hub {n}") for n in range(9)),
]


@pytest.fixture(scope="module")
def herschel(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return make_index(tmp_path_factory.mktemp("herschel"), HERSCHEL)


def ids(articles: Any) -> list[str]:
    return [article.id for article in articles]


def test_dual_links_with_both_anchors(herschel: OpenIndex) -> None:
    found = Evidence(herschel, topology_of(herschel)).of("nothing", 0)
    assert [(dual.article.title, dual.here, dual.there) for dual in found.dual_links] == [
        ("William Herschel", "her brother", "Caroline"),
        ("Comet", "comet", "Caroline Herschel"),
        ("Venus (planet)", "Venus_(planet)", "her"),
    ]
    assert found.article == ArticleName(0, "Caroline", "Caroline Herschel")


def test_co_mentions_both_ways(herschel: OpenIndex) -> None:
    """Hannover and Caroline's passage both link to the Moon, and Hannover's to Caroline."""
    evidence = Evidence(herschel, topology_of(herschel))
    moon, hannover = article_name(herschel, 3), article_name(herschel, 6)
    assert CoMentionEvidence(hannover, moon, asks=True) in evidence.of("", 0).co_mentions
    [shared] = evidence.of("", 6).co_mentions  # Hannover links to Caroline, whose passage links to the Moon
    assert shared == CoMentionEvidence(article_name(herschel, 0), moon, asks=False)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who was Caroline Herschel?", [("Caroline", "own", "")]),
        ("comets and the moon", [("comet", "linked", "comet"), ("Moon", "linked", "Moon")]),
        ("the Moon and a comet", [("Moon", "linked", "Moon"), ("comet", "linked", "comet")]),
        ("Is Venus hot?", [("Venus_(planet)", "linked", "Venus_(planet)")]),
        ("her brother", [("William", "linked", "her brother")]),
        ("who was born in hannover", [("Hannover", "linking", "Caroline")]),
        ("is there a telescope?", []),  # its article does not link here, nor this passage to it
        ("", []),
        ("who is it?", []),
    ],
)
def test_what_a_question_names(herschel, question, expected):
    found = Evidence(herschel, topology_of(herschel)).of(question, 0)
    assert [(e.article.id, e.relation, e.anchor) for e in found.entities] == expected


def test_anchors_of_the_passage(herschel: OpenIndex) -> None:
    found = Evidence(herschel, topology_of(herschel)).of("Who found a comet?", 0)
    text = herschel.passages[0].text
    assert [(text[a.start : a.end], a.target.id) for a in found.anchors] == [
        ("her brother", "William"),
        ("comet", "comet"),
        ("Moon", "Moon"),
        ("Venus_(planet)", "Venus_(planet)"),
    ]


def test_a_document_without_a_title_is_called_by_its_id(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("nameless", "A text.", " "), document("b", "To [it|nameless].")])
    assert article_name(index, 0).title == "nameless"


# --- against plain loops --------------------------------------------------------------------------


def random_rows(seed: int, documents: int = 12) -> list[dict[str, Any]]:
    """Documents of a few words, most of which are links; those to d12 lead to nothing."""
    draw = random.Random(seed)
    rows = []
    for number in range(documents):
        words = [
            f"[w|d{draw.randrange(documents + 1)}]" if draw.random() < 0.7 else "word"
            for _ in range(draw.randint(0, 20))
        ]
        rows.append(document(f"d{number}", " ".join(words) or "alone"))
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_every_passage_against_the_definitions(tmp_path: Path, seed: int) -> None:
    index = make_index(tmp_path, random_rows(seed), words=6)
    evidence, rows = Evidence(index, topology_of(index)), range(len(index.passages))
    owner = index.passages.document_rows(np.arange(len(index.passages))).tolist()
    to = {
        row: {int(t) for t in index.links.target[index.links.from_passage(row)]} - {owner[row]}
        for row in rows
    }
    pointing = {d: {owner[row] for row in rows if d in to[row]} for d in range(len(index.documents))}
    k = sorted(map(len, pointing.values()))[int(0.9 * len(pointing))]
    assert k == topology_of(index).in_degree_limit
    seen = 0
    for row in rows:
        found = evidence.of("", row)
        assert {dual.article.row for dual in found.dual_links} == {
            owner[b] for b in rows if owner[b] in to[row] and owner[row] in to[b]
        }
        expected = set()
        for c, d in [(c, row) for c in rows] + [(row, d) for d in rows]:
            if owner[c] == owner[d] or owner[c] not in to[d]:
                continue
            for e in to[c] & to[d] - {owner[c], owner[d]}:
                if len(pointing[e]) < k:
                    expected.add((owner[d], e, True) if c == row else (owner[c], e, False))
        assert {(m.article.row, m.shared.row, m.asks) for m in found.co_mentions} == expected
        seen += len(expected) + len(found.dual_links)
    assert seen > 20


def test_the_articles_are_those_that_hlp_would_pair(tmp_path: Path) -> None:
    index = make_index(tmp_path, random_rows(7), words=6)
    topology = topology_of(index)
    evidence = Evidence(index, topology)
    dual, shared = topology.dual_links(), topology.co_mentions()
    owner = topology.document_of
    assert len(dual) and len(shared)
    for row in range(len(index.passages)):
        found = evidence.of("", row)
        assert {d.article.row for d in found.dual_links} == set(
            owner[dual.positive[dual.query == row]].tolist()
        )
        assert {m.article.row for m in found.co_mentions if m.asks} == set(
            owner[shared.positive[shared.query == row]].tolist()
        )
        assert {m.article.row for m in found.co_mentions if not m.asks} == set(
            owner[shared.query[shared.positive == row]].tolist()
        )


def test_only_the_links_around_the_passage_are_joined(herschel, monkeypatch):
    joined: list[int] = []
    co_mentions = Topology.co_mentions

    def watched(topology: Topology, every_shared: bool = False) -> PassagePairs:
        joined.append(len(topology.link))
        return co_mentions(topology, every_shared)

    monkeypatch.setattr(Topology, "co_mentions", watched)
    assert Evidence(herschel, topology_of(herschel)).of("Who found a comet?", 0).dual_links
    assert joined == [9] and len(herschel.links) > 18


def test_words_of_a_long_question_are_looked_for_once(herschel: OpenIndex) -> None:
    """10,000 characters of names do not take seconds, and what stands first is found."""
    evidence = Evidence(herschel, topology_of(herschel))
    started = time.thread_time()
    found = evidence.of("Hannover " + "Caroline and some other words " * 300, 0)
    assert time.thread_time() - started < 1
    assert [entity.relation for entity in found.entities] == ["linking"]
