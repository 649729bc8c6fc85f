"""--plan of every training: the steps of the settings, measured by a few, and nothing left behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.reranker.commands.finetune import main as finetune
from linkseek.reranker.commands.pretrain import main as pretrain
from linkseek.retriever.commands.mlm import main as mlm
from linkseek.retriever.commands.train import main as train
from linkseek.retriever.training.training_plan import StagePlan, TrainingPlan, tokens_of
from tests.support.tiny_contrasts import write_tiny_contrasts
from tests.support.tiny_corpus import linked_rows, write_jsonl
from tests.support.tiny_training import pair_rows, save_normalized, save_static, save_tokenizer, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

COMMON = '[training]\nbatch = 8\nepochs = 50\ndevice = "cpu"\n[output]\nfolder = "{folder}/out"\n'
TABLES = {
    "mlm": '[model]\nlayers = 1\nwidth = 32\ntokenizer = "{folder}/words"\n'
    '[data]\nindex = "{folder}/index"\n',
    "train": '[stage]\nkind = "finetune"\n[model]\nbase = "{folder}/base"\n'
    '[data]\npairs = ["{folder}/p.jsonl"]\n',
    "static": '[stage]\nkind = "finetune"\n[model]\nbase = "{folder}/static"\ntowers = "shared"\n'
    '[data]\npairs = ["{folder}/p.jsonl"]\n[texts]\nquery_tokens = 0\npassage_tokens = 0\n',
    "pretrain": '[model]\nbase = "{folder}/base"\n[mlm]\nwarmup_steps = 7\n'
    '[[stages]]\nname = "hp"\ncontrasts = ["{folder}/c.jsonl"]\n'
    '[[stages]]\nname = "shp"\ncontrasts = ["{folder}/c.jsonl"]\nsteps = 1000000\n',
    "finetune": '[model]\nbase = "{folder}/base"\n[data]\npairs = ["{folder}/p.jsonl"]\n',
}
MAINS = {"static": train, "train": train, "mlm": mlm, "pretrain": pretrain, "finetune": finetune}
TOKENS = ["--set", "texts.tokens=48"]
SHORT = {
    "mlm": [],
    "static": [],
    "train": ["--set", "texts.query_tokens=32", "--set", "texts.passage_tokens=48"],
}
STEPS = {
    "mlm": None,
    "train": [50 * 3],
    "static": [50 * 3],
    "pretrain": [7, 50 * 2, 1_000_000],
    "finetune": [50 * 3],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Bases, pairs, contrasts and an index."""
    folder = tmp_path_factory.mktemp("plans")
    save_normalized(folder / "base")
    save_static(folder / "static")
    save_tokenizer(folder / "words")
    write_pairs(folder / "p.jsonl", pair_rows(24))
    write_tiny_contrasts(folder / "c.jsonl", "php-hp", 16)
    write_jsonl(folder / "corpus.jsonl", linked_rows())
    build_index(folder / "index", BuildPlan(folder / "corpus.jsonl", encoders=[]), lambda name, title: None)
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_the_plan_has_all_steps_and_leaves_nothing(name, folder, tmp_path, capsys):
    before = sorted(folder.rglob("*"))
    config = tmp_path / "c.toml"
    config.write_text((TABLES[name] + COMMON).format(folder=folder))
    MAINS.get(name, finetune)([str(config), *SHORT.get(name, TOKENS), "--plan"])
    *stages, every = capsys.readouterr().out.splitlines()
    steps = [int(re.search(r": ([\d,]+) steps", line)[1].replace(",", "")) for line in stages]
    assert STEPS[name] in (None, steps) and len(steps) == len(STEPS[name] or [1])
    assert every.startswith(f"all: {sum(steps):,} steps")
    assert ("tokens" in every) == (name != "static")  # of which no model reads them in turn
    assert "of memory" in every and "0 bytes of checkpoints" not in every
    assert sorted(folder.rglob("*")) == before


def test_a_plan_does_not_mind_a_finished_model_and_a_training_follows_it(folder, tmp_path, capsys):
    config = tmp_path / "c.toml"
    config.write_text((TABLES["train"] + COMMON).replace("{folder}/out", "{out}/out").format(
        folder=folder, out=tmp_path))  # fmt: skip
    short = [str(config), *SHORT["train"], "--set", "training.epochs=1"]
    train([*short, "--plan"])
    train(short)
    train([str(config), *SHORT["train"], "--plan"])
    assert capsys.readouterr().out.count("all: ") == 2
    assert (tmp_path / "out" / "model.safetensors").is_file() or [*(tmp_path / "out").rglob("*.safetensors")]


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
