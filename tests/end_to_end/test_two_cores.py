"""experiments/two_cores.py: every step is a command that its program understands, and is done once."""

from __future__ import annotations

import gzip
import importlib.util
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pyarrow as pa
import pytest

from app.evaluate import EvaluateOptions
from app.evaluation.experiments import read_experiment
from app.pipelines import read_pipelines
from indexer.base.options import parse_config, parse_options
from indexer.build import BuildOptions
from retriever.mine import MineOptions
from retriever.negatives import NegativesOptions
from retriever.training.config import MlmConfig, TrainConfig

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "indexer/build.py": BuildOptions,
    "app/evaluate.py": EvaluateOptions,
    "retriever.mine": MineOptions,
    "retriever.negatives": NegativesOptions,
}


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("two_cores", ROOT / "experiments" / "two_cores.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    row = {"id": "A_b", "title": "A", "text": "one two three", "links": []}
    for name in ("wikispeedia", "squad", "2wiki-corpus"):
        path = tmp_path / "data" / name / "docs.jsonl.zst"
        path.parent.mkdir(parents=True)
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(orjson.dumps(row) + b"\n")
    (tmp_path / "data" / "qa").mkdir()
    for name in ("squad-train", "squad-dev", "nq-gold"):
        with gzip.open(tmp_path / "data" / "qa" / f"{name}-on-wikispeedia.jsonl.gz", "wb") as file:
            file.write(orjson.dumps({"id": "q", "text": "what", "answers": ["x"], "article": "A_b"}) + b"\n")
    return tmp_path / "data"


def understood(command: list[str]) -> Any:
    """The options or settings of a command. Raises what its program would."""
    name, *rest = command[1:] if command[0] == "-m" else command
    if name in OPTIONS:
        return parse_options(OPTIONS[name], rest, name)
    if name == "retriever.export":
        return None
    return parse_config(MlmConfig if name == "retriever.mlm" else TrainConfig, rest, name)


@pytest.fixture
def steps(script, data, tmp_path, monkeypatch) -> Any:
    """The steps, whose commands are noted in `commands` instead of being run."""
    commands: list[list[str]] = []

    def run(self: Any, result: Path | None, *words: object) -> None:
        if result is not None and result.exists():
            return
        commands.append([str(word) for word in words])
        if result is not None:
            result.mkdir(parents=True)

    monkeypatch.setattr(script.Steps, "_python", run)
    monkeypatch.setattr(script.Steps, "_slice", lambda self: iter([{"id": "A_b"}]))
    found = script.Steps(data, tmp_path / "work", 16_000, 30_000, ["training.steps=2"])
    found.commands = commands
    return found


def test_every_step_is_understood_and_what_is_there_is_not_made_again(script, steps, tmp_path):
    commands = steps.commands
    steps.from_scratch()
    found = [understood(command) for command in commands]
    trained = [f for f in found if getattr(f, "stage", None)]
    assert len(trained) == 7 + 8 * 2
    assert all(f.training.steps == 2 for f in trained)
    by_name = {f.output.folder.name: f for f in trained}
    assert [p.name for p in by_name["hlp"].data.pairs] == ["dual-link-8000.jsonl", "co-mention-8000.jsonl"]
    assert len(by_name["ict-wlp-bfs"].data.pairs) == 3 and len(by_name["wlp"].data.pairs) == 1
    assert by_name["hlp-128"].model.base.endswith("models/hlp") and by_name["hlp-128"].data.shots == 128
    assert by_name["none-1024"].model.base.endswith("models/none")
    mined = {(f.objective, f.pairs) for f in found if isinstance(f, MineOptions)}
    assert mined == {
        *((name, 16_000) for name in script.SINGLE),
        *((name, 5_333) for name in ("ict", "wlp", "bfs")),
        *((name, count) for name in ("dual-link", "co-mention") for count in (8_000, 4_000)),
    }
    build = next(f for f in found if isinstance(f, BuildOptions) and f.index.name == "two-cores")
    assert build.encoder[0] == "all-MiniLM-L6-v2" and len(build.encoder) == 1 + 8 * 3
    entries = read_pipelines(tmp_path / "work" / "two-cores.pipelines.toml")
    rows = read_experiment(ROOT / "experiments" / "two-cores.toml").rows
    assert {row.pipeline for row in rows} <= {*entries}
    assert len(rows) == 3 + 8 * 3
    before = len(commands)
    steps.from_scratch()
    assert [shlex.join(c) for c in commands[before:]] == [shlex.join(commands[before - 1])]  # the slice


def test_the_second_start_trains_and_halves_adapters(steps, tmp_path):
    steps.from_minilm()
    found = [understood(command) for command in steps.commands]
    trained = {f.output.folder.name: f for f in found if getattr(f, "stage", None)}
    assert {*trained} == {
        "minilm-dual-link",
        "minilm-hlp",
        "minilm-hlp-fewer",
        "minilm-labels",
        "minilm-hlp-labels",
    }
    assert all(f.model.train == "lora" for f in trained.values())
    assert trained["minilm-labels"].model.base == "all-MiniLM-L6-v2"
    assert trained["minilm-hlp-labels"].model.base.endswith("models/minilm-hlp")
    entries = read_pipelines(tmp_path / "work" / "two-cores-minilm.pipelines.toml")
    rows = read_experiment(ROOT / "experiments" / "two-cores-minilm.toml").rows
    assert {row.pipeline for row in rows} <= {*entries} and len(rows) == 3 + 5 + 2
