"""The benchmarks run, and their report says what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.gpu.__main__ import STEPS
from benchmarks.made_up import write_wiki
from benchmarks.report import PAGE
from benchmarks.support import harness, random_models, suite
from benchmarks.support.ceilings import encoder_operations, multiplying, reading
from benchmarks.support.harness import Benchmark, Ceiling, Measurement, compare, in_turn
from benchmarks.support.random_models import MINILM, TINY, wikipedia_lengths
from linkseek.retriever.models.bases import load_sentence_transformer
from tests.support.command import ROOT, forks, run_forked

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


def test_the_report_is_that_of_the_recorded_results() -> None:
    assert PAGE.read_text("utf-8") == report.report(), "run python -m benchmarks.report"


def test_functions_take_turns_and_the_first_round_does_not_count() -> None:
    clock = iter(range(1000))
    calls: list[str] = []
    functions = [lambda name=name: calls.append(name) for name in "abc"]
    assert in_turn(functions, 2, lambda: next(clock)) == [1, 1, 1]
    assert "".join(calls) == "cbaabccba"


class Clock:
    """Seconds that pass only where work says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def work(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds

        return run


def test_the_limit_is_the_slowest_of_what_the_work_needs() -> None:
    """A ceiling of 0.01 s for 100 bytes: 500 bytes take 0.05 s at best."""
    clock = Clock()
    slow, quick = Ceiling(clock.work(0.01), 100), Ceiling(clock.work(0.001), 100)
    needs = [(500.0, slow), (500.0, quick)]
    ours, peer = clock.work(0.06), clock.work(0.03)
    figure = compare("n", "ms", ours, peer, 3, 1000, needs, clock.perf_counter)
    assert (figure.ours, figure.peer) == (pytest.approx(60), pytest.approx(30))
    assert figure.limit == pytest.approx(50) and figure.ratio == pytest.approx(2)
    assert compare("n", "s", lambda: None, None, 1).peer is None
    assert compare("n", "s", lambda: None, None, 1).limit is None


def test_each_figure_is_kept_as_soon_as_it_is_there(tmp_path, capsys) -> None:
    def measure(options):
        yield Measurement("first", "s", 1.0)
        assert json.loads((tmp_path / "b.partial.json").read_text())["figures"][0]["name"] == "first"
        if options.rounds == 1:
            raise KeyboardInterrupt
        yield Measurement("second", "s", 2.0, limit=1.0)

    benchmark = Benchmark("b", "tries", measure)
    with pytest.raises(KeyboardInterrupt):
        harness.run(benchmark, ["--rounds", "1", "--output", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["b.partial.json"]
    harness.run(benchmark, ["--output", str(tmp_path), "--json"])
    [printed] = capsys.readouterr().out.splitlines()
    [kept] = (tmp_path / "b.jsonl").read_text().splitlines()
    assert json.loads(printed) == {"benchmark": "b", **json.loads(kept)}
    assert json.loads(kept)["settings"] == {"rounds": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["b.jsonl"]


def test_every_script_is_in_the_suite_and_says_what_it_is() -> None:
    files = [p for p in (ROOT / "benchmarks").rglob("*.py") if "\nBENCHMARK = " in p.read_text("utf-8")]
    names = [*suite.ON_CPU, *suite.ON_GPU]
    modules = (harness.module_of(name).replace(".", "/") for name in names)
    assert sorted(ROOT / f"{module}.py" for module in modules) == sorted(files)
    assert all(suite.description(name) for name in names)


def test_operations_are_those_of_the_products() -> None:
    """One layer, width 2, inner 3, two tokens: 4 x 2x2 and 2 x 2x3 weights, and 2 x 2 pairs twice."""
    weights = 4 * 2 * 2 + 2 * 2 * 3
    assert encoder_operations(1, 2, 3, [2]) == 2 * (2 * weights + 2 * 2 * 2 * 2)
    assert MINILM.operations([100, 28]) == MINILM.operations([100]) + MINILM.operations([28])


@pytest.fixture(scope="module")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(random_models.write_encoder(tmp_path_factory.mktemp("tiny") / "encoder", TINY))


def test_made_up_texts_have_as_many_tokens_as_asked_for(tiny_encoder) -> None:
    lengths = wikipedia_lengths(3000)
    assert 130 < sum(lengths) / 3000 < 142 and min(lengths) >= 2 and max(lengths) == 256
    assert lengths == wikipedia_lengths(3000) != wikipedia_lengths(3000, seed=1)
    model = load_sentence_transformer(Path(tiny_encoder), "tiny")
    texts = random_models.made_up_texts(lengths[:50])
    assert [len(ids) for ids in model.tokenizer(texts)["input_ids"]] == lengths[:50]
    assert model.tokenizer.unk_token_id not in {i for ids in model.tokenizer(texts)["input_ids"] for i in ids}


@pytest.fixture
def small(tiny_encoder, tmp_path, monkeypatch) -> None:
    """Ceilings of a moment, models of two layers, and processes that begin with all imports done."""
    for name in ("dense", "encoding", "scoring"):
        monkeypatch.setattr(f"benchmarks.{name}.multiplying", partial(multiplying, size=8))
    monkeypatch.setattr("benchmarks.dense.reading", partial(reading, megabytes=1))
    for name in ("encoding", "static"):
        monkeypatch.setattr(f"benchmarks.{name}.DEFAULT_ENCODER", tiny_encoder)
    reranker = str(random_models.write_reranker(tmp_path / "reranker", TINY))
    monkeypatch.setattr("benchmarks.scoring.shipped_models", lambda kind: [reranker])
    monkeypatch.setattr("benchmarks.scale._SPAWN", forks())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dense", ["--vectors", "800", "--dimension", "16"]),
        ("lucene", ["--passages", "100", "--queries", "5"]),
        ("encoding", ["--passages", "16"]),
        ("static", ["--passages", "16"]),
        ("scoring", ["--questions", "2", "--depth", "20", "--passages", "50"]),
        ("gpu_encoding", STEPS[1].tiny.split()),
        ("scale", ["--articles", "150", "--encoder", "linkseek-static", "--processes", "1"]),
    ],
)
def test_a_benchmark_prints_ours_and_the_peers(name: str, options: list[str], small, capsys) -> None:
    harness.run(suite.benchmark(name), ["--rounds", "1", "--no-record", *options])
    printed = capsys.readouterr().out
    assert "ratio" in printed and "cores" in printed
    kinds = ("attention: blocks, packed", "attention: padded", "batches of 16,384 tokens")
    assert [kind in printed for kind in kinds] == [name == "gpu_encoding"] * 3
    assert not list(ROOT.glob("benchmarks/results/*.tmp"))


def test_a_benchmark_is_a_command(tmp_path: Path) -> None:
    write_wiki(corpus := tmp_path / "wiki.xml", 20)
    command = ["-m", "benchmarks.parsing", "--corpus", corpus, "--rounds", "1", "--no-record"]
    done = run_forked(command)
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout and "cores" in done.stdout
    assert not list(ROOT.glob("benchmarks/results/*.tmp"))
