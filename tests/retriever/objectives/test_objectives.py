"""Every objective: its worked example, and what all of them promise (a new one gets these for free)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.objective import Statistics
from linkseek.retriever.mining.pairs import Pair, read_pairs, write_lines
from linkseek.retriever.objectives.registry import PAIRS
from linkseek.testing import check_pairs
from tests.support.tiny.linked import document, make_index, sentences


def mined(index: OpenIndex, name: str, seed: int = 1, **settings: Any) -> list[Pair]:
    path = index.path.parent / f"{name}.jsonl"
    write_lines(path, Miner(index, PAIRS.mix(name, settings), seed=seed).lines())
    return list(read_pairs(path))


LETTERS = [
    document(
        "Letters", "Letters is a film. It was directed by [Mitja Okorn|Okorn] in the U.S. of that year."
    ),
    document(
        "Okorn", "Okorn is a director. In 2011 he made [Letters to Santa|Letters]. He lives in [Warsaw]."
    ),
    document("Warsaw", "Warsaw covers 517 km2. It lies on the Vistula.", sections=[]),
    document("Plain", "It links to nothing."),
]


def test_dual_link(tmp_path: Path) -> None:
    pairs = mined(make_index(tmp_path, LETTERS), "dual-link")
    assert [(pair.query, pair.query_id, pair.positive.id) for pair in pairs] == [
        ("It was directed by Mitja Okorn in the U.S. of that year.", "Letters#0", "Okorn#0"),
        ("In 2011 he made Letters to Santa.", "Okorn#0", "Letters#0"),
    ]
    assert pairs[0].positive.text.startswith("Okorn is a director.")
    assert pairs[0].evidence == {
        "query": evidence("Letters#0", 38, "Mitja Okorn", "Okorn"),
        "positive": evidence("Okorn#0", 37, "Letters to Santa", "Letters"),
    }


def evidence(passage: str, start: int, anchor: str, target: str) -> dict[str, Any]:
    end = start + len(anchor)
    return {"passage_id": passage, "start": start, "end": end, "anchor": anchor, "target": target}


def co_mention_rows() -> list[dict[str, Any]]:
    """C and D mention E, D mentions C; two hubs that all mention are the topmost tenth."""
    rows = [
        document("C", "The Aristocats is a film. [Robert Sherman|E] composed songs. See [hub] and [hob]."),
        document("D", "It has songs. Later [E] made those of [The Aristocats|C]. See [hub] and [hob]."),
        document("E", "He wrote songs. See [hub] and [hob]."),
        document("hub", "All link here."),
        document("hob", "All link here too."),
    ]
    return rows + [document(f"x{n}", "See [hub] and [hob].") for n in range(10)]


def test_co_mention(tmp_path: Path) -> None:
    (pair,) = mined(make_index(tmp_path, co_mention_rows()), "co-mention")
    assert (pair.query, pair.query_id, pair.positive.id) == ("Robert Sherman composed songs.", "C#0", "D#0")
    assert {role: link["anchor"] for role, link in pair.evidence.items()} == {
        "query": "Robert Sherman", "positive": "The Aristocats", "shared": "E",
    }  # fmt: skip


def test_hlp_holds_each_pair_once_and_says_which_it_is(tmp_path: Path) -> None:
    rows = co_mention_rows()
    rows[0] = document("C", "The Aristocats. [Robert Sherman|E] composed songs. See [hub], [hob] and [D].")
    index = make_index(tmp_path, rows)
    assert [p.query_id for p in mined(index, "co-mention")] == ["C#0", "D#0"]
    pairs = mined(index, "hlp")
    assert sorted((p.objective, p.query_id, p.positive.id) for p in pairs) == [
        ("dual-link", "C#0", "D#0"), ("dual-link", "D#0", "C#0"),
    ]  # fmt: skip


def test_ict(tmp_path: Path) -> None:
    rows = [document("moth", "A moth flew in. It was the first bug."), document("one", "One sentence alone.")]
    index = make_index(tmp_path, rows)
    seen = set()
    for seed in range(60):
        (pair,) = mined(index, "ict", seed=seed)
        seen.add((pair.query, pair.positive.text))
    whole = "A moth flew in. It was the first bug."
    assert seen >= {
        ("It was the first bug.", "A moth flew in."),
        ("A moth flew in.", "It was the first bug."),
    }
    assert {text for _, text in seen} == {"A moth flew in.", "It was the first bug.", whole}


def test_ict_keeps_the_sentence_once_in_ten_times(tmp_path: Path) -> None:
    rows = [document(f"d{n}", f"First of {n}. Second of {n}. Third.") for n in range(3000)]
    pairs = mined(make_index(tmp_path, rows), "ict")
    kept = sum(pair.query in pair.positive.text for pair in pairs) / len(pairs)
    assert 0.08 < kept < 0.12


def test_wlp(tmp_path: Path) -> None:
    index = make_index(tmp_path, LETTERS)
    pairs = [pair for seed in range(20) for pair in mined(index, "wlp", seed=seed)]
    about_warsaw = {(p.query, p.positive.id) for p in pairs if p.query_id == "Warsaw#0"}
    assert about_warsaw == {("Warsaw covers 517 km2.", "Okorn#0"), ("It lies on the Vistula.", "Okorn#0")}
    assert len(pairs) == 20 * 3


def test_wlp_and_bfs_ask_from_the_first_section(tmp_path: Path) -> None:
    text = "Lead one. Lead two.\n\nHistory\nBody sentence here. More body follows it."
    rows = [
        document("E", text, sections=[{"start": text.index("History"), "heading": "History", "level": 2}]),
        document("p", "A page about [E] and more."),
    ]
    index = make_index(tmp_path, rows, words=4)
    for name in ("wlp", "bfs"):
        pairs = [pair for seed in range(20) for pair in mined(index, name, seed=seed)]
        queries = {pair.query for pair in pairs if pair.query_title == "E"}
        assert queries == {"Lead one.", "Lead two."}


def test_bfs(tmp_path: Path) -> None:
    rows = [
        document("Warsaw", "Warsaw covers 517 km2. It lies there. Its uprising began."),
        document("s", "Short one."),
    ]
    pairs = mined(make_index(tmp_path, rows, words=7), "bfs")
    assert [(p.query_id, p.positive.id) for p in pairs] == [("Warsaw#0", "Warsaw#1")]
    assert pairs[0].query in {"Warsaw covers 517 km2.", "It lies there."}


def test_an_anchor_in_a_sentence_with_abbreviations(tmp_path: Path) -> None:
    rows = [
        document(
            "A", "First. He moved from St. Petersburg to the U.S. where Dr. [B] taught at 5 p.m. daily. End."
        ),
        document("B", "He knew [A]."),
    ]
    index = make_index(tmp_path, rows)
    expected = "He moved from St. Petersburg to the U.S. where Dr. B taught at 5 p.m. daily."
    assert LinkSource(index).anchor_sentence(0) == expected


# --- what all of them promise --------------------------------------------------------------------


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return make_index(tmp_path_factory.mktemp("mined"), sentences(), words=20)


@pytest.fixture(params=list(PAIRS.objectives))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_texts_are_of_the_index(index: OpenIndex, name: str) -> None:
    pairs = mined(index, name, negatives="random")
    assert len(pairs) > 20 and all(len(pair.negatives) == 1 for pair in pairs)
    check_pairs(index, pairs)


def test_pairs_are_drawn_without_repetition_and_shared_out(index: OpenIndex) -> None:
    statistics = Statistics()
    mine = Miner(index, PAIRS.mix("hlp", {}))
    pairs = [*mine.lines(41, statistics)]
    # The scarcer topology is rounded down, the other one gets the rest.
    fewer, more = sorted(["dual-link", "co-mention"], key=lambda kind: len(mine.candidates["hlp"][kind]))
    assert statistics.written == {fewer: 20, more: 21}
    assert len(set(pairs)) == 41
    statistics = Statistics()
    every = [*mine.lines(10**9, statistics)]
    assert len(every) == sum(statistics.written.values()) > 41


def test_overlap_negatives_mention_the_same_and_are_no_pairs(index: OpenIndex) -> None:
    topology = LinkSource(index).topology
    pairs = {tuple(p) for kind in (topology.dual_links(), topology.co_mentions())
             for p in zip(kind.query.tolist(), kind.positive.tolist(), strict=True)}  # fmt: skip
    checked = 0
    for pair in mined(index, "hlp", negatives="overlap"):
        for negative in pair.negatives:
            query, row = index.passages.rows_of([pair.query_id, negative.id]).tolist()
            own = int(topology.document_of[query])
            mentioned = {*topology.targets_of(query).tolist(), own}
            assert mentioned & set(topology.targets_of(row).tolist())
            assert (query, row) not in pairs
            checked += 1
    assert checked > 50


def test_statistics(tmp_path: Path) -> None:
    statistics = Statistics()
    list(Miner(make_index(tmp_path, LETTERS), PAIRS.mix("dual-link", {})).lines(None, statistics))
    found = statistics.to_json()
    assert found["written"] == {"dual-link": 2}
    assert [*statistics.query_words] == [12, 7]
    # "it was directed by mitja okorn in the u s of that year": okorn and in are in the other passage
    assert statistics.overlap[0] == pytest.approx(2 / 13)
    assert sum(found["overlap"]["bins"]) == 2


def test_links_but_no_pair(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("a", "To [b]."), document("b", "Back to no one.")])
    with pytest.raises(InputError, match="no pairs: dual-link finds no pair"):
        mined(index, "dual-link")


def test_a_corpus_of_single_sentences_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the 1 candidates for ict gives a pair"):
        mined(make_index(tmp_path, [document("Plain", "It links to nothing.")]), "ict")
