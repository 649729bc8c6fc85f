"""experiments/contrasts.py: every step is a command that its program understands, and is done once."""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from app.evaluate import EvaluateOptions
from app.evaluation.experiments import read_experiment
from app.pipelines import read_pipelines
from indexer.base.options import parse_config, parse_options
from indexer.build import BuildOptions
from reranker.mine import MineOptions, mine_options
from reranker.training.config import FinetuneConfig, PretrainConfig
from retriever.negatives import NegativesOptions

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "indexer/build.py": BuildOptions,
    "app/evaluate.py": EvaluateOptions,
    "reranker.mine": mine_options(),
    "retriever.negatives": NegativesOptions,
}
SETTINGS = {"reranker.pretrain": PretrainConfig, "reranker.finetune": FinetuneConfig}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return importlib.import_module("contrasts")


def understood(command: list[str]) -> Any:
    """The options or settings of a command. Raises what its program would."""
    name, *rest = command[1:] if command[0] == "-m" else command
    if name in OPTIONS:
        return parse_options(OPTIONS[name], rest, name)
    return parse_config(SETTINGS[name], rest, name)


def test_every_step_is_understood_and_what_is_there_is_not_made_again(script, tmp_path, monkeypatch, capsys):
    squad = tmp_path / "data" / "squad"
    squad.mkdir(parents=True)
    with gzip.open(squad / "queries.train.jsonl.gz", "wb") as file:
        file.writelines(orjson.dumps({"id": f"q{n}", "text": "what"}) + b"\n" for n in range(900))
    with gzip.open(squad / "qrels.train.txt.gz", "wb") as file:
        file.write(b"q1 0 d 1\n")
    commands: list[list[str]] = []

    def run(self: Any, result: Path, *words: object) -> None:
        if not result.exists():
            commands.append([str(word) for word in words])
            result.mkdir(parents=True)

    monkeypatch.setattr(script.Steps, "_python", run)
    steps = script.Steps(
        tmp_path / "data", tmp_path / "work", 1_200, 600, [*script.MODELS], ["mlm.passes=one"]
    )
    steps.run()
    found = [understood(command) for command in commands]
    before = {f.output.folder.name: f for f in found if isinstance(f, PretrainConfig)}
    after = {f.output.folder.name: f for f in found if isinstance(f, FinetuneConfig)}
    assert {*before} == {"prop", "harp", "hp", "shp", "mrds", "php"}
    for config in before.values():  # as many contrasts and steps
        assert sum(stage.steps * config.training.batch for stage in config.stages) == 1_200
        assert config.model.train == "lora" and config.mlm.passes == "one"
    assert [stage.name for stage in before["php"].stages] == ["php-hp", "php-shp", "php-mrds"]
    assert {*after} == {f"{name}-{much}" for name in ("none", *before) for much in ("few", "more")}
    assert {(f.data.shots, f.training.epochs) for f in after.values()} == {(50, 10), (600, 1)}
    assert after["none-few"].model.base == "all-MiniLM-L6-v2"
    assert after["php-more"].model.base.endswith("models/php")
    assert all(f.model.lora_rank == before["php"].model.lora_rank for f in after.values())
    mined = [f for f in found if isinstance(f, MineOptions)]
    assert {f.objective for f in mined} == {"prop", "harp", "php-hp", "php-shp", "php-mrds"}
    assert {f.contrasts for f in mined} == {1_200} and {f.negatives for f in mined} == {8, None}
    questions = (tmp_path / "work" / "labels" / "queries.jsonl").read_bytes().splitlines()
    assert len(set(questions)) == 800
    entries = read_pipelines(tmp_path / "work" / "pipelines.toml")
    experiment = read_experiment(ROOT / "experiments" / "contrasts.toml")
    asked = {p for row in experiment.rows for c in experiment.columns for p in row.pipelines(c, [1])}
    assert asked <= {*entries} and len(experiment.rows) == 1 + 6 + 7 * 2
    assert {(entries["wiki-php"].depth, entries["dl19-php"].depth)} == {(20, 100)}
    told = capsys.readouterr().out.split()
    assert told[:3] == ["python", "app/experiment.py", "experiments/contrasts.toml"]
    count = len(commands)
    steps.run()
    assert len(commands) == count
