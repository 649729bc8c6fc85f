"""--plan of every training: the steps of the settings, measured by a few, and nothing left behind."""

from __future__ import annotations

import re

import pytest
import torch

from linkseek.retriever.training.training_plan import StagePlan, TrainingPlan, tokens_of
from tests.support.command import with_settings
from tests.support.tiny_runs import TRAININGS

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = {"mlm": None, "train": [300], "static": [150], "pretrain": [3, 150, 1_000_000], "finetune": [200]}


@pytest.mark.parametrize("name", TRAININGS)
def test_the_plan_has_all_steps_and_leaves_nothing(name, training_data, tmp_path, capsys):
    training = TRAININGS[name]
    config = training.write(training_data, tmp_path)
    before = [sorted(folder.rglob("*")) for folder in (training_data, tmp_path)]
    settings = ["training.epochs=50", *["stages.2.steps=1000000"] * (name == "pretrain")]
    training.main([*with_settings(config, settings), "--plan"])
    *stages, every = capsys.readouterr().out.splitlines()
    steps = [int(re.search(r": ([\d,]+) steps", line)[1].replace(",", "")) for line in stages]
    assert STEPS[name] in (None, steps) and len(steps) == len(STEPS[name] or [1])
    assert every.startswith(f"all: {sum(steps):,} steps")
    assert ("tokens" in every) == (name != "static")  # of which no model reads them in turn
    assert "of memory" in every and "0 bytes of checkpoints" not in every
    assert [sorted(folder.rglob("*")) for folder in (training_data, tmp_path)] == before


def test_a_plan_does_not_mind_a_finished_model_and_a_training_follows_it(training_data, tmp_path, capsys):
    training = TRAININGS["train"]
    config = str(training.write(training_data, tmp_path))
    training.main([config, "--plan"])
    training.main([config])
    training.main([config, "--plan"])
    assert capsys.readouterr().out.count("all: ") == 2
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_the_sum_of_stages():
    plan = TrainingPlan()
    plan.add(StagePlan("hp", 1000, "contrasts", 24, 300_000, 3.6, 438_000_000, 1_314_000_000))
    plan.add(StagePlan("shp", 1000, "contrasts", 24, 300_000, 3.6, 438_000_000, 1_314_000_000))
    first, _, every = str(plan).splitlines()
    assert first == "hp: 1,000 steps of 24 contrasts, 300,000 tokens, 3.60 s a step here: about 1 h 00 min"
    assert "2,000 steps, 600,000,000 tokens, about 2 h 00 min" in every
    assert "up to 5.3 GB of checkpoints until the end, and a model of 438.0 MB" in every


def test_tokens_are_those_that_a_model_reads():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    inputs = {"pieces": [{"attention_mask": mask, "input_ids": mask}, {"attention_mask": mask}], "mask": mask}
    assert sum(tokens_of(inputs)) == 6
