"""Mining contrasts: mixes, seeds, processes, errors, the command; and what every objective promises."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contrast_corpus import mined
from linked_corpus import document, make_index
from tiny_corpus import linked_rows

from linkseek.indexer.base.errors import InputError, MachineError, UsageError
from linkseek.indexer.index import Index
from linkseek.reranker.commands.mine_contrasts import main
from linkseek.reranker.contrast_miner import ContrastMiner, Statistics, shares
from linkseek.reranker.contrasts import Contrast, TextPair, read_contrasts
from linkseek.reranker.objectives.base import Objective
from linkseek.reranker.objectives.registry import all_objectives, all_settings, make_mix
from linkseek.reranker.objectives.source import Source

SETTINGS: dict[str, dict[str, Any]] = {
    "prop": {"minimum_count": 2},
    "prop-random": {"minimum_count": 2},
    "ict": {"negatives": 3},
}

LETTERS = [
    document("Letters", "Letters is a film. It was directed by [Mitja Okorn|Okorn] in 2011."),
    document("Okorn", "Okorn is a director. He lives in [Warsaw]."),
    document("Warsaw", "Warsaw covers 517 km2. It lies on the Vistula."),
    *(document(f"Plain {n}", "It links to nothing.") for n in range(7)),
]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return make_index(tmp_path_factory.mktemp("letters"), LETTERS)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """60 documents whose words repeat, with sentences of five words, passages of 20, links to neighbours."""
    rows, draw = linked_rows(60, seed=5), random.Random(5)
    for n, row in enumerate(rows):
        words = [f"{word[:5]}" for word in row["text"].split(" ")]
        row["text"] = " ".join(word + "." * (place % 5 == 4) for place, word in enumerate(words))
        row["links"] = [
            {"start": start, "end": start + 4, "target": f"d{(n + draw.randint(-5, 5)) % 60}"}
            for start in range(0, max(len(row["text"]) - 10, 0), 20)
            if row["text"][start : start + 4].strip()
        ]
    return make_index(tmp_path_factory.mktemp("mined"), rows, words=20)


# --- worked examples -----------------------------------------------------------------------------


def test_ict(letters: Index) -> None:
    seen = set()
    for seed in range(40):
        for contrast in mined(letters, "ict", seed=seed):
            (worse,) = contrast.worse
            assert worse.query == contrast.better.query
            assert worse.title != contrast.better.title
            if contrast.better.title == "Warsaw":
                seen.add((contrast.better.query, contrast.better.document, worse.title))
    first, second = "Warsaw covers 517 km2.", "It lies on the Vistula."
    whole = f"{first} {second}"
    assert {(first, second), (second, first)} <= {pair[:2] for pair in seen}
    assert {pair[1] for pair in seen} <= {first, second, whole}
    assert len({pair[2] for pair in seen}) > 5


def test_wlp(letters: Index) -> None:
    found = [contrast for seed in range(20) for contrast in mined(letters, "wlp", seed=seed)]
    seen = {(c.better.query, c.better.title) for c in found}
    assert seen == {
        ("Warsaw covers 517 km2.", "Okorn"),
        ("It lies on the Vistula.", "Okorn"),
        ("Okorn is a director.", "Letters"),
        ("He lives in Warsaw.", "Letters"),
    }
    for contrast in found:
        about = contrast.evidence["query_passage_id"].removesuffix("#0")
        assert contrast.worse[0].title not in (about, contrast.better.title)
    assert {"Letters", "Plain 3"} <= {c.worse[0].title for c in found if c.better.title == "Okorn"}


def test_several_negatives_are_different(letters: Index) -> None:
    for contrast in mined(letters, "ict", negatives=9):
        assert len({pair.title for pair in (contrast.better, *contrast.worse)}) == 10
    with pytest.raises(InputError, match="none of the 10 candidates for ict gives a contrast"):
        mined(letters, "ict", negatives=10)


# --- what all of them promise --------------------------------------------------------------------


def without_encoder() -> Iterator[str]:
    """Those that read texts and links alone; the others' tests bring an encoder."""
    for name, objective in all_objectives().items():
        if "encoder" not in objective.__dataclass_fields__:  # type: ignore[attr-defined]
            yield name


@pytest.fixture(params=[*without_encoder()])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_contrasts_hold_what_they_should(index: Index, name: str) -> None:
    found = mined(index, name, **SETTINGS.get(name, {}))
    assert len(found) > 20
    texts = {index.documents.table.value("title", d): index.documents.table.value("text", d)
             for d in range(len(index.documents))}  # fmt: skip
    for contrast in found:
        assert contrast.objective == name
        assert contrast.evidence
        for pair in (contrast.better, *contrast.worse):
            assert pair.query.strip() == pair.query != ""
            words = iter(texts[pair.title].split())
            assert all(word in words for word in pair.document.split())  # ict cuts out a sentence
            for start, end in pair.anchors:
                assert pair.query[start:end].strip()
        assert contrast.better not in contrast.worse


def test_the_same_seed_gives_the_same_file(index: Index, name: str) -> None:
    def lines(seed: int = 7) -> list[bytes]:
        return list(ContrastMiner(index, make_mix(name, SETTINGS.get(name, {})), seed=seed).lines(20))

    once = lines()
    assert once == lines() != lines(8)
    assert len(once) == len(set(once)) == 20


def test_several_processes_give_the_same_file(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    mix = make_mix("prop=2,ict,wlp", {"minimum_count": 2})
    alone = list(ContrastMiner(index, mix).lines(100))
    monkeypatch.setattr(Objective, "min_for_processes", 1)
    monkeypatch.setattr("linkseek.retriever.mining.engine._CHUNK", 10)
    assert list(ContrastMiner(index, mix, processes=2).lines(100)) == alone
    assert len(alone) == 100


def ends(*_: object) -> None:
    os._exit(1)


def test_a_mining_process_that_ends_is_the_machines_fault(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Objective, "min_for_processes", 1)
    monkeypatch.setattr("linkseek.retriever.mining.engine._read_chunk", ends)
    with pytest.raises(MachineError, match="a mining process was ended"):
        list(ContrastMiner(index, make_mix("wlp", {}), processes=2).lines(100))


def test_a_candidate_does_not_depend_on_those_beside_it(index: Index, name: str) -> None:
    """Chunks of any size give the same; an encoder's batches would not."""
    source = Source(index)
    objective = all_objectives()[name](**SETTINGS.get(name, {})).prepare(source)
    rows = objective.candidates(source)[:60]
    draws = np.arange(len(rows)) * 7919
    together = [*objective.contrasts(source, rows, draws)]
    alone = [next(objective.contrasts(source, rows[i : i + 1], draws[i : i + 1])) for i in range(len(rows))]
    assert together == alone
    assert any(together)


# --- choosing and mixing -------------------------------------------------------------------------


class Numbers(Objective):
    """Contrasts of numbers: candidate i has none if i is odd."""

    name = "numbers"
    summary = "numbers"

    def __init__(self, count: int) -> None:
        self._count = count

    def candidates(self, source: Source) -> np.ndarray:
        return np.arange(self._count).reshape(-1, 1)

    def documents(self, source: Source, rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows), np.int64)

    def contrasts(self, source: Source, rows: np.ndarray, draws: np.ndarray) -> Iterator[Contrast | None]:
        pairs = TextPair("q", "d"), TextPair("q", "e")
        for (i,) in rows.tolist():
            yield None if i % 2 else Contrast(pairs[0], (pairs[1],), self.name, {"i": i})


def test_candidates_that_give_nothing_are_replaced_without_repetition(letters: Index) -> None:
    for wanted, written in ((10, 10), (50, 50), (99, 50)):
        statistics = Statistics()
        mine = ContrastMiner(letters, {"numbers": (Numbers(100), 1.0)})
        found = [json.loads(line)["evidence"]["i"] for line in mine.lines(wanted, statistics)]
        assert len(found) == len(set(found)) == statistics.written["numbers"] == written
        assert not any(i % 2 for i in found)


def test_every_candidate_is_drawn_as_often_as_any_other(letters: Index) -> None:
    drawn = np.zeros(20)
    for seed in range(400):
        mine = ContrastMiner(letters, {"numbers": (Numbers(20), 1.0)}, seed=seed)
        for line in mine.lines(4):
            drawn[json.loads(line)["evidence"]["i"]] += 1
    assert drawn.sum() == 1600
    assert drawn[::2].min() > 120 and drawn[::2].max() < 200


@pytest.mark.parametrize(
    ("available", "weights", "total", "expected"),
    [
        ([100, 100], [1, 1], 30, [15, 15]),
        ([100, 100], [1, 3], 40, [10, 30]),
        ([5, 100], [1, 1], 30, [5, 25]),
        ([5, 10, 100], [1, 1, 1], 60, [5, 10, 45]),
        ([5, 6], [1, 1], 60, [5, 6]),
        ([100, 100, 100], [0.1, 0.2, 0.7], 10, [1, 2, 7]),
        ([100, 100, 100], [1, 1, 1], 2, [1, 1, 0]),
    ],
)
def test_shares(available: list[int], weights: list[float], total: int, expected: list[int]) -> None:
    found = shares(dict(enumerate(available)), dict(enumerate(weights)), total)  # type: ignore[arg-type]
    assert list(found.values()) == expected


def test_a_mix_without_a_number_is_as_large_as_the_scarcest_allows(letters: Index) -> None:
    mix = {"few": (Numbers(10), 1.0), "many": (Numbers(100), 3.0)}
    assert ContrastMiner(letters, mix).shares(None) == {"few": 10, "many": 30}
    assert ContrastMiner(letters, {"many": (Numbers(100), 3.0)}).shares(None) == {"many": 100}


def test_a_mix_goes_on_without_an_objective_that_has_nothing(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("a", "One here. Two here."), document("b", "Links to [no]. Yes.")])
    mine = ContrastMiner(index, make_mix("ict,wlp", {}))
    assert len(list(mine.lines())) == 2
    (why,) = mine.missing
    assert "wlp needs links between documents, and there are none (1 links lead to nothing" in why


def test_a_corpus_without_links(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("a", "One here. Two here."), document("b", "To [b|b] itself.")])
    with pytest.raises(InputError, match="wlp needs links between documents") as caught:
        mined(index, "wlp")
    assert "prop" in caught.value.hint and "ict" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("propp", {}, "no objective propp"),
        ("", {}, "no objective "),
        ("prop,ict,prop=2", {}, "prop is there twice"),
        ("prop=0", {}, "0 is no weight"),
        ("prop=x", {}, "x is no weight"),
        ("prop=inf,ict", {}, "inf is no weight"),
        ("prop", {"negatives": 3}, "--negatives: prop has no such setting"),
        ("ict,wlp", {"minimum_count": 3}, "--minimum-count: ict,wlp has no such setting"),
    ],
)
def test_objectives_that_are_wrong(text: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_mix(text, settings)
    assert message in caught.value.message
    assert caught.value.hint


def test_settings_go_to_those_that_have_them() -> None:
    mix = make_mix("prop=2, ict", {"negatives": 3, "minimum_count": 7})
    assert {name: weight for name, (_, weight) in mix.items()} == {"prop": 2.0, "ict": 1.0}
    assert mix["prop"][0].minimum_count == 7  # type: ignore[attr-defined]
    assert mix["ict"][0].negatives == 3  # type: ignore[attr-defined]


def test_every_setting_is_an_option_with_the_defaults_of_its_objectives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"--negatives N worse documents in a contrast; default 1 \([^)]*ict, wlp\b[^)]*\); 24 \(php-hp", shown
    )
    for name, setting in all_settings().items():
        assert f"--{name.replace('_', '-')} " in shown and setting.meaning in shown


def test_a_setting_has_bounds(letters: Index) -> None:
    for option, value in (("--mean-words", "101"), ("--threshold", "0"), ("--per-document", "0.5")):
        with pytest.raises(UsageError, match=option):
            main(["--index", str(letters.path), "--objective", "prop", "--stats", option, value])


def test_harp_is_its_four_tasks_alike() -> None:
    mix = make_mix("prop=3,harp=2", {})
    assert {name: weight for name, (_, weight) in mix.items()} == {
        "prop": 3.0, "harp-rqp": 0.5, "harp-qdm": 0.5, "harp-rdp": 0.5, "harp-acm": 0.5,
    }  # fmt: skip
    with pytest.raises(UsageError, match="harp-acm is there twice"):
        make_mix("harp,harp-acm", {})


def test_statistics(letters: Index) -> None:
    statistics = Statistics()
    lines = [*ContrastMiner(letters, make_mix("ict=1,wlp=1", {"negatives": 2})).lines(4, statistics)]
    found = statistics.to_json()
    assert found["written"] == {"ict": 2, "wlp": 2}
    assert found["worse_pairs"] == {"ict": 4, "wlp": 4}
    words = [len(json.loads(line)["better"]["query"].split()) for line in lines]
    assert found["query_words"] == np.mean(words)


# --- the command ---------------------------------------------------------------------------------


def test_the_command(letters: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "c.jsonl.zst"
    main(["--index", str(letters.path), "--objective", "ict,wlp", "--contrasts", "4", "--stats",
          "--output", str(output)])  # fmt: skip
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report["written"] == {"ict": 2, "wlp": 2} and report["candidates"] == {"ict": 10, "wlp": 2}
    assert "4 contrasts" in told.err
    assert [c.objective for c in read_contrasts(output)] == ["ict", "ict", "wlp", "wlp"]


def test_the_command_lists_what_it_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = make_index(tmp_path, [document("a", "One here. Two here."), document("b", "Nothing.")])
    main(["--index", str(index.path), "--objective", "ict,wlp", "--stats"])
    told = capsys.readouterr()
    assert json.loads(told.out)["candidates"] == {"ict": 2, "wlp": 0}
    assert "mine: wlp needs links" in told.err and "it is skipped" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objective", "ict"], "--output is missing"),
        (["--objective", "ict", "--output", "c.tsv"], "c.tsv: no JSONL file"),
        (["--objective", "itc", "--stats"], "no objective itc"),
        (["--objective", "ict", "--stats", "--negatives", "0"], "--negatives"),
        (["--objective", "ict", "--stats", "--mu", "3"], "--mu: ict has no such setting"),
    ],
)
def test_the_command_with_wrong_options(letters: Index, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        main(["--index", str(letters.path), *arguments])
    assert message in caught.value.message
