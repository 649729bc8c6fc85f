"""Every file for pre-training takes one step a stage, on tiny data; the documentation names every setting."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest
from command import ROOT
from pydantic import ValidationError
from tiny_contrasts import write_tiny_contrasts
from tiny_training import save_normalized

from linkseek.indexer.base.settings import Settings, read_settings
from linkseek.reranker.commands.pretrain import main
from linkseek.reranker.training.config import PretrainConfig, StageSettings
from linkseek.retriever.training.log import read_log

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIGS = sorted(
    path for path in (ROOT / "configs").glob("*.toml") if "stages" in tomllib.loads(path.read_text())
)


def read(name: str) -> PretrainConfig:
    return read_settings(PretrainConfig, ROOT / "configs" / f"{name}-pretrain.toml")


def test_the_papers_settings_are_there():
    prop, harp, php, both = (read(name) for name in ("prop", "harp", "php", "php-prop"))
    assert prop.training.batch * 2 == harp.training.batch * 2 == 128
    assert (prop.training.learning_rate, prop.stages[0].steps) == (2e-5, 300_000)
    assert (harp.training.learning_rate, harp.training.epochs) == (1e-4, 10)
    assert [php.training_of(stage).epochs for stage in php.stages] == [1, 1, 2]
    assert [stage.negatives for stage in php.stages] == [24, 24, 24]
    assert (php.training.batch, php.training.learning_rate, php.training.weight_decay) == (24, 1e-5, 0.01)
    assert (php.mlm.anchors, php.mlm.share, php.mlm.passes) == (0.5, 0.15, "two")
    assert all(config.texts.tokens == 512 for config in (prop, harp, php, both))
    assert [len(stage.contrasts) for stage in both.stages] == [2, 2, 2]
    for rival in read("ict"), read("wlp"):  # as PHP's first stage
        assert (rival.training, rival.texts) == (php.training, php.texts)
        assert [stage.negatives for stage in rival.stages] == [24]


def test_the_documentation_names_every_setting():
    text = (ROOT / "docs" / "reference" / "training.md").read_text()
    files = (ROOT / "docs" / "how-to" / "re-ranker.md").read_text()
    for table, field in PretrainConfig.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        [kind] = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)]
        assert f"`[{table}]`" in text or f"`[[{table}]]`" in text
        for key in kind.model_fields:
            assert f"`{key}`" in text, f"{table}.{key}"
    assert all(path.name in files for path in CONFIGS) and len(CONFIGS) >= 7


@pytest.mark.parametrize("name", [".", "..", "...", "x" * 300, "nul", "a/b", "../x", "a."])
def test_the_name_of_a_stage_is_that_of_a_folder(name):
    with pytest.raises(ValidationError, match="name"):
        StageSettings(name=name, contrasts=["x"])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_takes_a_step_a_stage(path, tmp_path):
    save_normalized(tmp_path / "base", max_position_embeddings=512)
    values = tomllib.loads(path.read_text())
    settings = [f"output.folder={tmp_path / 'out'}", "training.device=cpu", f"model.base={tmp_path / 'base'}"]
    settings += ["mlm.warmup_steps=1", "training.batch=2"]
    for number, stage in enumerate(values["stages"], start=1):
        files = []
        for name in stage["contrasts"]:
            objective = Path(name).name.partition(".")[0]
            objective = "harp-rqp" if objective == "harp" else objective  # of which it is a mix
            files.append(str(write_tiny_contrasts(tmp_path / f"{objective}.jsonl", objective, 4)))
        settings += [f"stages.{number}.contrasts={files}", f"stages.{number}.steps=1"]
    main([str(path), *(word for setting in settings for word in ("--set", setting))])
    found = [(line["stage"], line["step"]) for line in read_log(tmp_path / "out" / "log.jsonl")]
    assert found == [(name, 1) for name in ("head", *(stage["name"] for stage in values["stages"]))]
