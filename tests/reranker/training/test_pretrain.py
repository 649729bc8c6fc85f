"""Whole pre-trainings of tiny models: what the folder is, going on after kills, adapters, two processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.settings import read_settings, settings_text
from linkseek.reranker.commands.export import main as export
from linkseek.reranker.commands.finetune import main as finetune
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.training import finetuning, pretraining
from linkseek.reranker.training.config import PretrainConfig
from linkseek.reranker.training.contrast_data import ContrastCollator, ContrastTexts
from linkseek.reranker.training.group_data import PairTokenizer
from linkseek.reranker.training.group_loss import LOSSES, batch_loss
from linkseek.reranker.training.two_heads import TOKEN_WEIGHT, open_pretrainable
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.loop import train_steps
from tests.support.tiny.runs import PAIRS, TRAININGS
from tests.support.tiny.runs import undisturbed as complete

pytestmark = pytest.mark.usefixtures("one_thread")

TRAINING = TRAININGS["pretrain"]
pretrain = TRAINING.run
LORA = ["model.train=lora", "training.learning_rate=0.02"]

QUERIES, TEXTS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture
def data(training_data) -> Path:
    return training_data


def write_config(data: Path, folder: Path, base: str | Path = "normalized") -> Path:
    return TRAINING.write(data, folder, str(base))


@pytest.fixture
def undisturbed(data) -> Path:
    """A run through all stages, its groups split over micro-batches, from a base with dropout."""
    return complete("pretrain", data)


def scores(folder: Path) -> np.ndarray:
    """The scores of the pairs by our engine."""
    return open_scorer(str(folder), device="cpu", precision="float32").score(QUERIES, TEXTS)


def both_heads(model: Any, tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scores [n] of the pairs, and scores of all words for each token of the second one [L, vocabulary]."""
    inputs = tokenizer(QUERIES, TEXTS, padding=True, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        of_pairs = model.transformer(**inputs).logits[:, 0]
        words = model.mlm(model.transformer.base_model(**inputs).last_hidden_state)
    return of_pairs.numpy(), words[1].numpy()


def opened_words(folder: Path) -> np.ndarray:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(QUERIES, TEXTS, padding=True, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        found: np.ndarray = AutoModelForMaskedLM.from_pretrained(folder).eval()(**inputs).logits[1].numpy()
    return found


class Trained:
    """The scores of the model in training when a stage ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
        self.scores: list[tuple[np.ndarray, np.ndarray]] = []
        tokenizer = AutoTokenizer.from_pretrained(base)

        def spy(task: Any, *rest: Any) -> Any:
            state = train_steps(task, *rest)
            self.scores.append(both_heads(task.model.eval(), tokenizer))
            return state

        monkeypatch.setattr(pretraining, "train_steps", spy)


@pytest.fixture
def trained(monkeypatch, data) -> Trained:
    return Trained(monkeypatch, data / "normalized")


@pytest.fixture(scope="module")
def adapters(training_data, tmp_path_factory) -> tuple[Path, Trained]:
    """For reading only."""
    with pytest.MonkeyPatch.context() as patch:
        trained = Trained(patch, training_data / "normalized")
        return pretrain(write_config(training_data, tmp_path_factory.mktemp("adapters")), *LORA), trained


# --- what comes out --------------------------------------------------------------------------------


def test_the_folder_opens_as_everything_that_it_is(data, tmp_path, trained):
    out = pretrain(write_config(data, tmp_path))
    [head, _, (expected, words)] = trained.scores
    assert np.ptp(expected) > 1e-3 and np.abs(head[1] - words).max() > 1e-2
    found = CrossEncoder(str(out), device="cpu").predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(scores(out), expected, atol=1e-5)
    np.testing.assert_allclose(opened_words(out), words, atol=1e-5)
    _, missing = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not missing["missing_keys"]
    bert, missing = AutoModel.from_pretrained(out, output_loading_info=True)
    assert not missing["missing_keys"]
    masked = AutoModelForMaskedLM.from_pretrained(out)
    ids = torch.tensor([[2, 9, 3]])
    one, other = (model.eval()(ids)[0] for model in (bert, masked.bert))
    torch.testing.assert_close(one, other)
    export([str(out), "--output", str(tmp_path / "full")])
    np.testing.assert_allclose(opened_words(tmp_path / "full"), words, atol=1e-5)


def test_a_run_leaves_its_log_its_settings_and_a_card(undisturbed):
    out = undisturbed / "out"
    log = read_log(out / "log.jsonl")
    steps = [(line["stage"], line["step"]) for line in log]
    assert steps == [
        (name, n + 1) for name, count in (("head", 3), ("hp", 3), ("rop", 10)) for n in range(count)
    ]
    assert all(line["loss"] == pytest.approx(line["mlm_loss"], rel=1e-4) for line in log[:3])
    assert all(line["loss"] > line["mlm_loss"] > 1 for line in log[3:])
    card = (out / "README.md").read_text()
    assert "| contrasts of hp | 24 php-hp |" in card and "| contrasts of rop | 12 php-shp, 24 prop |" in card
    assert "| steps | 3 head, 3 hp, 10 rop |" in card and str(undisturbed) not in card
    assert not (undisturbed / "out.linkseek-training").exists()
    config = read_settings(PretrainConfig, undisturbed / "c.toml", ["training.mini_batch=3"])
    assert (out / "training.toml").read_text() == settings_text(config)
    (undisturbed / "again.toml").write_text(settings_text(config))
    assert read_settings(PretrainConfig, undisturbed / "again.toml") == config


def test_stages_inherit_what_the_one_before_learnt(data, tmp_path, trained):
    path = write_config(data, tmp_path)
    pretrain(path, "stages.2.learning_rate=1e-12", "mlm.warmup_learning_rate=1e-12")
    head, hp, rop = trained.scores
    np.testing.assert_allclose(rop[0], hp[0], atol=1e-5)
    np.testing.assert_allclose(rop[1], hp[1], atol=1e-4)
    assert np.abs(hp[0] - head[0]).max() > 1e-3 and np.abs(hp[1] - head[1]).max() > 1e-2


def test_a_new_head_learns_alone_first_and_one_of_the_base_needs_no_such_steps(data, tmp_path, trained):
    path = write_config(data, tmp_path / "new")
    settings = ["training.learning_rate=1e-12", "mlm.warmup_steps=60", "mlm.warmup_learning_rate=0.03"]
    settings += ["output.checkpoint_steps=30"]
    log = read_log(pretrain(path, *settings) / "log.jsonl")
    losses = [line["loss"] for line in log if line["stage"] == "head"]
    assert len(losses) == 60 and np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    base = AutoModel.from_pretrained(data / "normalized")
    kept = AutoModel.from_pretrained(tmp_path / "new" / "out")
    torch.testing.assert_close(kept.encoder.state_dict(), base.encoder.state_dict(), atol=1e-6, rtol=0)
    out = pretrain(write_config(data, tmp_path / "own", "masked"), "training.learning_rate=1e-12")
    assert {line["stage"] for line in read_log(out / "log.jsonl")} == {"hp", "rop"}
    expected = AutoModelForMaskedLM.from_pretrained(data / "masked").state_dict()
    found = AutoModelForMaskedLM.from_pretrained(out).state_dict()
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("settings", [["mlm.weight=0"], ["mlm.passes=one"], ["model.train=lora"]], ids=str)
def test_without_masks_in_one_pass_and_with_adapters_it_learns_too(settings, data, tmp_path):
    path = write_config(data, tmp_path)
    path.write_text(path.read_text().replace("epochs = 2", "epochs = 12"))
    few = "output.checkpoint_steps=30"
    out = pretrain(path, *settings, "training.learning_rate=0.01", "stages.2.weights=[]", few)
    ranking = [x["loss"] - x.get("mlm_loss", 0) for x in read_log(out / "log.jsonl") if x["stage"] == "rop"]
    assert np.mean(ranking[-7:]) < 0.7 * np.mean(ranking[:7])
    has_head = any("cls." in name for file in out.glob("*.safetensors") for name in load_file(file))
    assert has_head == (settings != ["mlm.weight=0"])


# --- going on --------------------------------------------------------------------------------------


def test_a_finished_stage_is_not_taken_from_other_settings(data, tmp_path, monkeypatch):
    path = write_config(data, tmp_path)
    monkeypatch.setattr(pretraining, "reranker_card", lambda *_: pytest.fail("stop"))
    with pytest.raises(pytest.fail.Exception):
        pretrain(path)
    with pytest.raises(
        UsageError, match=r"checkpoints of another run: stages\.hp\.negatives was 3, and is 2"
    ):
        pretrain(path, "stages.1.negatives=2")
    with pytest.raises(UsageError, match=r"stages\.rop\.loss was None, and is lce"):
        pretrain(path, "stages.2.loss=lce")


# --- adapters, and fine-tuning what was pre-trained --------------------------------------------------


FINETUNE = """
[model]
base = "{base}"
train = "{train}"
lora_rank = 4
[data]
pairs = ["{data}/groups.jsonl"]
[texts]
tokens = 32
[training]
batch = 8
learning_rate = {rate}
device = "cpu"
[output]
folder = "{folder}/tuned"
"""


def fine_tuned(data: Path, folder: Path, base: Path, train: str, rate: float = 0.01) -> Path:
    path = folder / "f.toml"
    path.write_text(FINETUNE.format(base=base, train=train, data=data, folder=folder, rate=rate))
    finetune([str(path)])
    return folder / "tuned"


def test_adapters_and_their_export_have_both_heads(adapters, data, tmp_path):
    out, trained = adapters
    expected, words = trained.scores[-1]
    files = ("adapter_model.safetensors", "mlm_head.safetensors")
    assert {path.name for path in out.glob("*.safetensors")} == set(files)
    ours = scores(out)
    np.testing.assert_allclose(ours, expected, atol=2e-3)
    export([str(out), "--output", str(tmp_path / "full")])
    found = CrossEncoder(str(tmp_path / "full"), device="cpu").predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(found, ours, atol=1e-5)
    np.testing.assert_allclose(opened_words(tmp_path / "full"), words, atol=0.02)
    assert np.ptp(ours) > 0.1
    # and trained further as adapters, the head being that of before
    again = pretrain(write_config(data, tmp_path / "again", out), *LORA, "training.learning_rate=1e-12")
    assert {line["stage"] for line in read_log(again / "log.jsonl")} == {"hp", "rop"}
    for name in files:
        torch.testing.assert_close(load_file(again / name), load_file(out / name))


def test_what_was_pretrained_is_fine_tuned_whole(undisturbed, data, tmp_path):
    base = undisturbed / "out"
    out = fine_tuned(data, tmp_path, base, "all", rate=1e-9)
    np.testing.assert_allclose(scores(out), scores(base), atol=1e-4)
    assert not any(name.startswith("cls.") for name in load_file(out / "model.safetensors"))


def test_fine_tuned_adapters_are_one_set_on_the_first_base(adapters, data, tmp_path, monkeypatch):
    """What ships is small: adapters of pre-training and fine-tuning together are those of one of them."""
    base = Path(shutil.copytree(adapters[0], tmp_path / "out"))
    start = scores(base)
    still = fine_tuned(data, tmp_path, base, "lora", rate=1e-12)
    np.testing.assert_allclose(scores(still), start, atol=1e-4)
    shutil.rmtree(still)
    tuned: list[np.ndarray] = []

    def spy(task: Any, *rest: Any) -> Any:
        state = train_steps(task, *rest)
        tuned.append(task.model.eval().predict(PAIRS, show_progress_bar=False))
        return state

    monkeypatch.setattr(finetuning, "train_steps", spy)
    out = fine_tuned(data, tmp_path, base, "lora")
    shutil.rmtree(base)
    config = json.loads((out / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(data / "normalized")
    weights = load_file(out / "adapter_model.safetensors")
    assert sum("lora" in name for name in weights) == 2 * 2 * 6 and config["r"] == 4
    found = scores(out)
    np.testing.assert_allclose(found, tuned[0], atol=2e-3)
    assert np.abs(found - start).max() > 0.05
    export([str(out), "--output", str(tmp_path / "full")])
    full = CrossEncoder(str(tmp_path / "full"), device="cpu").predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(full, found, atol=1e-4)


def test_adapters_are_trained_further_with_their_own_rank(adapters, data, tmp_path):
    again = write_config(data, tmp_path / "again", adapters[0])
    with pytest.raises(
        InputError, match=r"is made of adapters of rank 4 \(alpha 32\), and the settings say 8"
    ):
        pretrain(again, *LORA, "model.lora_rank=8")


# --- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", ["two", "one"])
@pytest.mark.parametrize("mini_batch", [3, 9])
def test_split_over_micro_batches_gradients_are_those_of_the_whole_batch(passes, mini_batch, data, tmp_path):
    """Groups that are split, and whole ones in pieces."""
    config = read_settings(PretrainConfig, write_config(data, tmp_path), [f"mlm.passes={passes}"])
    torch.manual_seed(1)
    opened = open_pretrainable(config)
    from linkseek.reranker.training.contrast_data import open_contrasts

    rows, _ = open_contrasts(config.stages[0].contrasts, tmp_path)
    found = []
    for size in (0, mini_batch):
        texts = ContrastTexts(opened.text_format, 4, seed=1)
        collate = ContrastCollator(PairTokenizer(opened.facts), texts, opened.masks, mini_batch=size)
        batch = collate([rows[row] for row in range(6)], 0)
        assert (len(batch["pieces"]) > 1) == (size > 0)
        weight = 0.5 / sum((piece["labels"] >= 0).sum() for piece in batch["pieces"])
        pieces = [piece | {TOKEN_WEIGHT: weight} for piece in batch["pieces"]]
        opened.model.zero_grad()
        loss, _ = batch_loss(opened.model, pieces, batch["mask"], LOSSES[batch["loss"]])
        loss.backward()
        found.append((loss.item(), {n: p.grad.clone() for n, p in opened.model.named_parameters()}))
    (value, whole), (again, split) = found
    assert again == pytest.approx(value, abs=1e-5)
    assert sum(tensor.abs().max() > 1e-4 for tensor in whole.values()) > len(whole) - 6
    for name, tensor in whole.items():
        torch.testing.assert_close(split[name], tensor, atol=1e-5, rtol=1e-3, msg=name)


# --- what goes wrong -------------------------------------------------------------------------------


def test_a_stage_without_contrasts_says_so_and_the_others_go_on(data, tmp_path, capsys):
    (tmp_path / "empty.jsonl").touch()
    path = write_config(data, tmp_path)
    out = pretrain(path, f"stages.2.contrasts=['{tmp_path}/empty.jsonl']", "stages.2.weights=[]")
    assert "stage rop has no contrasts and is skipped" in capsys.readouterr().err
    assert {line["stage"] for line in read_log(out / "log.jsonl")} == {"head", "hp"}
    with pytest.raises(InputError, match="no stage has contrasts"):
        path = write_config(data, tmp_path / "none")
        pretrain(path, f"stages=[{{name='a',contrasts=['{tmp_path}/empty.jsonl']}}]")
