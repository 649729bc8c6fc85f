"""Mining: mixes, seeds, processes, errors, the command of contrasts; and what every objective promises."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.reranker.commands.mine_contrasts import main
from linkseek.reranker.contrasts import Contrast, TextPair, number_contrasts
from linkseek.reranker.objectives.base import ContrastObjective, ContrastSource
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.miner import Miner, shares
from linkseek.retriever.mining.objective import Objective, Statistics
from linkseek.retriever.mining.objective_registry import Mix, Registry
from linkseek.retriever.objectives.registry import PAIRS
from tests.support.tiny.linked import document, make_index, mined, rows_of, sentences

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
def letters(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return make_index(tmp_path_factory.mktemp("letters"), LETTERS)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return make_index(tmp_path_factory.mktemp("mined"), sentences(), words=20)


# --- worked examples -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ict", "wlp"])
def test_contrasts_from_pairs(letters: OpenIndex, name: str) -> None:
    """The pairs of the retriever's objective, each before passages of third documents."""
    objective, source = CONTRASTS.objectives[name], ContrastSource(letters)
    assert objective.needs_links == PAIRS.objectives[name].needs_links
    worse: set[str] = set()
    for seed in range(40):
        rows = rows_of(objective, source)
        draws = np.random.default_rng(seed).integers(0, 1 << 62, len(rows))
        pairs, contrasts = (each.read(source, rows, draws) for each in (PAIRS.objectives[name], objective))
        for pair, contrast in zip(pairs, contrasts, strict=True):
            if pair is None or contrast is None:
                assert pair is contrast is None
                continue
            assert (contrast.better.query, contrast.better.document) == (pair.query, pair.positive.text)
            assert {each.query for each in contrast.worse} == {pair.query}
            assert not {pair.query_title, pair.positive.title} & {each.title for each in contrast.worse}
            worse |= {each.title for each in contrast.worse}
    assert len(worse) > 5


def test_several_negatives_are_different(letters: OpenIndex) -> None:
    for contrast in mined(letters, "ict", negatives=9):
        assert len({pair.title for pair in (contrast.better, *contrast.worse)}) == 10
    with pytest.raises(InputError, match="none of the 10 candidates for ict gives a contrast"):
        mined(letters, "ict", negatives=10)


# --- what all of them promise --------------------------------------------------------------------


def without_encoder(registry: Registry[Any]) -> list[str]:
    """Those that read texts and links alone; the others' tests bring an encoder."""
    return [name for name, each in registry.objectives.items() if "encoder" not in each.settings()]


@pytest.fixture(params=without_encoder(CONTRASTS))
def contrast(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ALL = [(PAIRS, name) for name in PAIRS.objectives]
ALL += [(CONTRASTS, name) for name in without_encoder(CONTRASTS)]  # type: ignore[misc]


@pytest.fixture(params=ALL, ids=[f"{registry.base.unit}-{name}" for registry, name in ALL])
def mix(request: pytest.FixtureRequest) -> Mix[Any]:
    """A single objective, of pairs or of contrasts."""
    registry, name = request.param
    return registry.mix(name, {"negatives": "overlap"} if registry is PAIRS else SETTINGS.get(name, {}))


def test_contrasts_hold_what_they_should(index: OpenIndex, contrast: str) -> None:
    found = mined(index, contrast, **SETTINGS.get(contrast, {}))
    assert len(found) > 20
    texts = {index.documents.table.value("title", d): index.documents.table.value("text", d)
             for d in range(len(index.documents))}  # fmt: skip
    for each in found:
        assert each.objective == contrast
        assert each.evidence
        for pair in (each.better, *each.worse):
            assert pair.query.strip() == pair.query != ""
            words = iter(texts[pair.title].split())
            assert all(word in words for word in pair.document.split())  # ict cuts out a sentence
            for start, end in pair.anchors:
                assert pair.query[start:end].strip()
        assert each.better not in each.worse


def test_the_same_seed_gives_the_same_file(index: OpenIndex, mix: Mix[Any]) -> None:
    def lines(seed: int = 7) -> list[bytes]:
        return list(Miner(index, mix, seed=seed).lines(20))

    once = lines()
    assert once == lines() != lines(8)
    assert len(once) == len(set(once)) == 20


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes have something to do."""
    monkeypatch.setattr(Objective, "min_for_processes", 1)
    monkeypatch.setattr("linkseek.retriever.mining.drawing._CHUNK", 10)


@pytest.mark.parametrize(
    "mix",
    [PAIRS.mix("hlp=2,ict", {"negatives": "random"}), CONTRASTS.mix("prop=2,ict,wlp", {"minimum_count": 2})],
    ids=["pairs", "contrasts"],
)
def test_several_processes_give_the_same_file(index: OpenIndex, mix: Mix[Any], small_chunks: None) -> None:
    alone = list(Miner(index, mix).lines(100))
    assert list(Miner(index, mix, processes=2).lines(100)) == alone
    assert len(alone) == 100


def ends(*_: object) -> None:
    os._exit(1)


def test_a_mining_process_that_ends_is_the_machines_fault(index, small_chunks, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.mining.drawing._read_call", ends)
    with pytest.raises(MachineError, match="a process that reads texts was ended"):
        list(Miner(index, CONTRASTS.mix("wlp", {}), processes=2).lines(100))


def test_a_candidate_does_not_depend_on_those_next_to_it(index: OpenIndex, mix: Mix[Any]) -> None:
    """Chunks of any size give the same; an encoder's batches would not."""
    source = mix.first.source(index)
    objective = mix.first.prepare(source)
    for rows in objective.candidates(source).values():
        some = rows[:60]
        draws = np.arange(len(some)) * 7919
        some = objective.complete(source, some, draws)
        together = [*objective.read(source, some, draws)]
        alone = [next(objective.read(source, some[i : i + 1], draws[i : i + 1])) for i in range(len(some))]
        assert together == alone
        assert any(together)


# --- choosing and mixing -------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers(ContrastObjective):
    """Contrasts of numbers: candidate i has none if i is odd."""

    name = "numbers"
    summary = "numbers"

    count: int

    def candidates(self, source: Any) -> dict[str, np.ndarray]:
        return {self.name: np.arange(self.count).reshape(-1, 1)}

    def read(self, source: Any, rows: np.ndarray, draws: np.ndarray) -> Iterator[Contrast | None]:
        pairs = TextPair("q", "d"), TextPair("q", "e")
        for (i,) in rows.tolist():
            yield None if i % 2 else Contrast(pairs[0], (pairs[1],), self.name, {"i": i})


def test_candidates_that_give_nothing_are_replaced_without_repetition(letters: OpenIndex) -> None:
    for wanted, written in ((10, 10), (50, 50), (99, 50)):
        statistics = Statistics()
        mine = Miner(letters, Mix({"numbers": Numbers(100)}, {"numbers": 1.0}))
        found = [json.loads(line)["evidence"]["i"] for line in mine.lines(wanted, statistics)]
        assert len(found) == len(set(found)) == statistics.written["numbers"] == written
        assert not any(i % 2 for i in found)


def test_every_candidate_is_drawn_as_often_as_any_other(letters: OpenIndex) -> None:
    drawn = np.zeros(20)
    for seed in range(400):
        mine = Miner(letters, Mix({"numbers": Numbers(20)}, {"numbers": 1.0}), seed=seed)
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


def test_a_mix_without_a_number_is_as_large_as_the_scarcest_allows(letters: OpenIndex) -> None:
    both = Mix({"few": Numbers(10), "many": Numbers(100)}, {"few": 1.0, "many": 3.0})
    assert Miner(letters, both).shares(None) == {"few": 10, "many": 30}
    assert Miner(letters, Mix({"many": Numbers(100)}, {"many": 3.0})).shares(None) == {"many": 100}


def test_a_mix_goes_on_without_an_objective_that_has_nothing(tmp_path: Path) -> None:
    index = make_index(tmp_path, [document("a", "One here. Two here."), document("b", "Links to [no]. Yes.")])
    mine = Miner(index, CONTRASTS.mix("ict,wlp", {}))
    assert len(list(mine.lines())) == 2
    (why,) = mine.missing
    assert "wlp needs links between documents, and the index has none (1 links lead to nothing" in why


@pytest.mark.parametrize("registry", [PAIRS, CONTRASTS], ids=["pairs", "contrasts"])
def test_a_corpus_without_links(tmp_path: Path, registry: Registry[Any]) -> None:
    rows = [document("a", "One here. Two here."), document("b", "Links to [nothing] and [b|b] itself. Yes.")]
    index = make_index(tmp_path, rows)
    for name, objective in registry.objectives.items():
        if objective.needs_links and "encoder" not in objective.settings():
            with pytest.raises(InputError, match=f"no {objective.unit}s: {name} needs links") as caught:
                list(Miner(index, registry.mix(name, {})).lines())
            assert "1 links lead to nothing" in caught.value.message
            free = [name for name, each in registry.objectives.items() if not each.needs_links]
            assert caught.value.hint == f"Objectives that need no links: {', '.join(free)}." and "ict" in free
    assert len(list(Miner(index, registry.mix("ict", {})).lines())) == 2


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("propp", {}, "no objective propp"),
        ("", {}, "no objective "),
        ("prop,ict,prop=2", {}, "prop is given twice"),
        ("prop=0", {}, "0 is not a valid weight"),
        ("prop=x", {}, "x is not a valid weight"),
        ("prop=inf,ict", {}, "inf is not a valid weight"),
        ("prop", {"negatives": 3}, "--negatives: prop has no such setting"),
        ("ict,wlp", {"minimum_count": 3}, "--minimum-count: ict,wlp has no such setting"),
    ],
)
def test_objectives_that_are_wrong(text: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        CONTRASTS.mix(text, settings)
    assert message in caught.value.message
    assert caught.value.hint


def test_an_objective_of_the_other_command() -> None:
    for registry, name, command in (
        (PAIRS, "prop", "`linkseek mine-contrasts`"),
        (CONTRASTS, "hlp", "`linkseek mine`"),
    ):
        with pytest.raises(UsageError, match=f"no objective {name}") as caught:
            registry.mix(name, {})
        assert command in caught.value.hint


def test_settings_go_to_those_that_have_them() -> None:
    mix = CONTRASTS.mix("prop=2, ict", {"negatives": 3, "minimum_count": 7})
    assert mix.weights == {"prop": 2.0, "ict": 1.0}
    assert mix.objectives["prop"].minimum_count == 7  # type: ignore[attr-defined]
    assert mix.objectives["ict"].negatives == 3  # type: ignore[attr-defined]


def test_every_setting_is_an_option_with_the_defaults_of_its_objectives(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"--negatives N worse documents in a contrast; default 1 \([^)]*ict, wlp\b[^)]*\); 24 \(php-hp", shown
    )
    for name, setting in CONTRASTS.settings.items():
        assert f"--{name.replace('_', '-')} " in shown and setting.meaning in shown


def test_a_setting_has_bounds(letters: OpenIndex) -> None:
    for option, value in (("--mean-words", "101"), ("--threshold", "0"), ("--per-document", "0.5")):
        with pytest.raises(UsageError, match=option):
            main(["--index", str(letters.path), "--objective", "prop", "--stats", option, value])


def test_harp_is_its_four_tasks_alike() -> None:
    mix = CONTRASTS.mix("prop=3,harp=2", {})
    assert mix.weights == {
        "prop": 3.0, "harp-rqp": 0.5, "harp-qdm": 0.5, "harp-rdp": 0.5, "harp-acm": 0.5,
    }  # fmt: skip
    with pytest.raises(UsageError, match="harp-acm is given twice"):
        CONTRASTS.mix("harp,harp-acm", {})


def test_statistics(letters: OpenIndex) -> None:
    statistics = Statistics()
    lines = [*Miner(letters, CONTRASTS.mix("ict=1,wlp=1", {"negatives": 2})).lines(4, statistics)]
    found = statistics.to_json()
    assert found["written"] == {"ict": 2, "wlp": 2}
    assert found["negatives"] == {"ict": 4, "wlp": 4}
    words = [len(json.loads(line)["better"]["query"].split()) for line in lines]
    assert found["query_words"]["mean"] == np.mean(words)


# --- the command ---------------------------------------------------------------------------------


def test_the_command(letters: OpenIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "c.jsonl.zst"
    main(["--index", str(letters.path), "--objective", "ict,wlp", "--contrasts", "4", "--stats",
          "--output", str(output)])  # fmt: skip
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report["written"] == {"ict": 2, "wlp": 2} and report["candidates"] == {"ict": 10, "wlp": 2}
    assert "4 contrasts" in told.err
    assert [c.objective for _, c in number_contrasts(output)] == ["ict", "ict", "wlp", "wlp"]


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
        (["--objective", "ict", "--output", "c.tsv"], "c.tsv: not a JSONL file"),
        (["--objective", "ict", "--stats", "--negatives", "0"], "--negatives"),
    ],
)
def test_the_command_with_wrong_options(letters: OpenIndex, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        main(["--index", str(letters.path), *arguments])
    assert message in caught.value.message
