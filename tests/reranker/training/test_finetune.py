"""Whole fine-tunings of tiny models: interrupted, few-shot, on two processes, as adapters."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.settings import read_settings
from linkseek.reranker.commands.export_reranker import main as export
from linkseek.reranker.commands.finetune import main
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.reranker.training import finetuning
from linkseek.reranker.training.config import FinetuneConfig, GroupTeacherSettings
from linkseek.reranker.training.group_data import GroupCollator, GroupTexts, PairTokenizer
from linkseek.reranker.training.group_loss import LOSSES, TAUGHT, lce
from linkseek.reranker.training.trainable_cross_encoder import open_trainable
from linkseek.retriever.mining.pairs import read_pairs
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.training import loop
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.loop import train_steps
from linkseek.retriever.training.losses.teacher import TeacherTexts, open_teacher
from linkseek.retriever.training.samples.sample_batches import Sample
from tests.support.command import assert_same_run, kill_at, train_by_one_and_two, train_here
from tests.support.tiny_training import pair_rows, save_bert, save_normalized, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = """
[model]
base = "{base}"
[data]
pairs = ["{pairs}"]
negatives = 3
[texts]
tokens = 28
[training]
batch = 8
epochs = 3
learning_rate = 1e-3
seed = 7
device = "cpu"
[dev]
pairs = ["{dev}"]
negatives = 4
[output]
folder = "{folder}/out"
log_steps = 2
checkpoint_steps = 2
"""
LORA = ["model.train=lora", "model.lora_rank=4", "training.learning_rate=0.01"]
PAIRS = [("bam bem", "t bam dim"), ("dim", "t bem bem bos"), ("", "bis"), ("bam " * 40, "dim " * 40)]
QUERIES, TEXTS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Bases, one with dropout, and pairs."""
    folder = tmp_path_factory.mktemp("data")
    save_bert(folder / "bert", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    save_normalized(folder / "normalized")
    write_pairs(folder / "pairs.jsonl", pair_rows(32, hard=5))
    write_pairs(folder / "dev.jsonl", pair_rows(10, seed=2, hard=5))
    return folder


def write_config(data: Path, folder: Path, base: str = "bert") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "c.toml"
    pairs, dev = data / "pairs.jsonl", data / "dev.jsonl"
    path.write_text(CONFIG.format(base=data / base, pairs=pairs, dev=dev, folder=folder))
    return path


@pytest.fixture
def config(data, tmp_path):
    return lambda base="bert", folder=tmp_path: write_config(data, folder, base)


def finetune(config: Path, *settings: str) -> Path:
    """Run the command here; returns the model's folder."""
    return train_here(main, config, *settings)


def scores(folder: Path) -> np.ndarray:
    """The scores of the pairs by our engine."""
    return open_scorer(str(folder), device="cpu", precision="float32").score(QUERIES, TEXTS)


# --- a teacher --------------------------------------------------------------------------------------


def test_a_group_has_the_scores_of_its_teacher(data, tmp_path):
    settings = GroupTeacherSettings(encoder=str(data / "normalized"), temperature=0.5)
    pairs = [*read_pairs(data / "pairs.jsonl")]
    form = TextFormat()
    teacher = open_teacher(settings, TeacherTexts.of(pairs, form), title=True, work=tmp_path)
    texts, sample = GroupTexts(form, 3, 7), Sample(4, "", pairs[4])
    chosen = texts.contexts(sample, 1)
    library = SentenceTransformer(str(data / "normalized"), device="cpu")
    read = [pairs[4].query, *(form.passage(context.title, context.text) for context in chosen)]
    vectors = library.encode(read)
    goals = texts.goals(teacher, sample, 1)
    np.testing.assert_allclose(goals, vectors[1:] @ vectors[0] / 0.5, atol=5e-3)
    facts = open_trainable(read_settings(FinetuneConfig, write_config(data, tmp_path))).facts
    collated = GroupCollator(PairTokenizer(facts), texts.pairs, 0, partial(texts.goals, teacher))([sample], 1)
    np.testing.assert_array_equal(collated["goals"][0, : len(goals)], goals)
    assert [text for _, text in texts.pairs(sample, 1)] == read[1:]


@pytest.mark.parametrize("kind", TAUGHT)
def test_the_scores_of_a_teacher_are_learnt_and_a_kill_changes_nothing(kind, data, config, tmp_path):
    words = [f"teacher.encoder={data / 'normalized'}", f"teacher.loss={kind}", "teacher.weight=1.0"]
    words += ["teacher.temperature=0.2", "training.epochs=10", "training.learning_rate=0.003"]
    words += ["model.base=" + str(data / "normalized"), "dev.pairs=[]"]
    undisturbed = finetune(config(), *words)
    losses = [line["loss"] for line in read_log(undisturbed / "log.jsonl") if "loss" in line]
    assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:2])
    again = config(folder=tmp_path / "again")
    settings = [word for setting in words for word in ("--set", setting)]
    kill_at(9, "finetune", again, *settings)
    assert_same_run(finetune(again, *words), undisturbed)


# --- going on --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Path:
    """A run of 12 steps, split over micro-batches."""
    folder = tmp_path_factory.mktemp("undisturbed")
    finetune(write_config(data, folder), "training.mini_batch=3")
    return folder


def test_a_run_leaves_a_cross_encoder_its_log_its_settings_and_a_card(undisturbed):
    out = undisturbed / "out"
    log = read_log(out / "log.jsonl")
    assert [line["step"] for line in log if "loss" in line] == [2, 4, 6, 8, 10, 12]
    found = {line["step"]: line["mrr"] for line in log if "mrr" in line}
    assert list(found) == [2, 4, 6, 8, 10, 12] and all(0 < value <= 1 for value in found.values())
    best = max(found, key=lambda step: found[step])
    card = (out / "README.md").read_text()
    assert f"| step | {best} |" in card and f"| {found[best]:.4f} |" in card and "| queries | 32 |" in card
    assert str(undisturbed) not in card and "license: apache-2.0" in card
    assert not (undisturbed / "out.linkseek-training").exists()
    library = CrossEncoder(str(out), device="cpu").predict(PAIRS, show_progress_bar=False)
    assert np.abs(library - library[0]).max() > 1e-3
    np.testing.assert_allclose(scores(out), library, atol=1e-4)


def test_after_a_kill_the_same_command_ends_with_the_same_bits(undisturbed, config, tmp_path):
    path = config()
    kill_at(5, "finetune", path, "--set", "training.mini_batch=3")
    assert not (tmp_path / "out").exists()
    out = finetune(path, "training.mini_batch=3")
    assert_same_run(out, undisturbed / "out", "model.safetensors", "tokenizer.json", "config.json")
    with pytest.raises(UsageError, match="out exists already, and has other settings"):
        finetune(path, "training.mini_batch=3", "loss.kind=pointwise")


def test_inputs_that_other_processes_make_ahead_change_nothing(undisturbed, config, monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(loop, "_workers", lambda device: 2)
    assert_same_run(finetune(config(), "training.mini_batch=3"), undisturbed / "out")


def test_a_model_trained_without_titles_is_scored_without_them(config, tmp_path):
    without = open_scorer(str(finetune(config(), "texts.title=false", "training.epochs=1")), device="cpu")
    assert without.text_format.head(Candidate("a title", "")) == ""
    again = config(base=without.location, folder=tmp_path / "again")
    with_titles = open_scorer(str(finetune(again, "training.epochs=1")), device="cpu")
    assert with_titles.text_format.head(Candidate("a title", "")) == "a title "


def test_few_shots_are_those_of_a_seed(config, tmp_path):
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = finetune(
            config(folder=tmp_path / name), "data.shots=5", f"data.seed={seed}", "training.epochs=2"
        )
        assert "| queries | 5 |" in (out / "README.md").read_text()
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


@pytest.mark.parametrize("kind", ["lce", "pointwise"])
def test_either_loss_learns_what_the_pairs_say(kind, config, tmp_path):
    path = config("normalized")
    out = finetune(path, f"loss.kind={kind}", "training.epochs=6", "training.learning_rate=5e-3")
    losses = [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert losses[-1] < 0.6 * losses[0]


# --- adapters --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapters(data, tmp_path_factory) -> Path:
    return finetune(write_config(data, tmp_path_factory.mktemp("adapters"), "normalized"), *LORA)


def test_adapters_are_small_and_score_as_the_model_that_was_trained(config, tmp_path, monkeypatch):
    trained: list[Any] = []

    def spy(task: Any, *rest: Any) -> Any:
        state = train_steps(task, *rest)
        trained.append(task.model.eval().predict(PAIRS, show_progress_bar=False))
        return state

    monkeypatch.setattr(finetuning, "train_steps", spy)
    out = finetune(config("normalized"), *LORA)
    weights = load_file(out / "adapter_model.safetensors")
    heads = {name for name in weights if "lora" not in name}
    assert len(weights) - len(heads) == 2 * 2 * 6
    assert {name.removeprefix("base_model.model.") for name in heads} == {
        "bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias",
    }  # fmt: skip
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert not (out / "model.safetensors").exists()
    found = scores(out)
    assert 0 < np.abs(found - trained[0]).max() < 1e-3 and np.std(found) > 0.1


def test_peft_alone_reads_the_same_adapters(adapters, data):
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = AutoModelForSequenceClassification.from_pretrained(data / "normalized", num_labels=1)
    tokenizer = AutoTokenizer.from_pretrained(adapters)
    theirs = PeftModel.from_pretrained(base, str(adapters)).eval()
    inputs = tokenizer(QUERIES, TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**inputs).logits[:, 0].numpy()
    np.testing.assert_allclose(scores(adapters), expected, atol=1e-4)


def test_adapters_merge_into_a_folder_that_sentence_transformers_opens(adapters, tmp_path):
    export([str(adapters), "--output", str(tmp_path / "full")])
    full = CrossEncoder(str(tmp_path / "full"), device="cpu")
    np.testing.assert_allclose(full.predict(PAIRS, show_progress_bar=False), scores(adapters), atol=1e-4)
    assert not list((tmp_path / "full").glob("adapter*")) and full.max_seq_length == 28
    assert (tmp_path / "full" / "README.md").read_text() == (adapters / "README.md").read_text()


def test_training_goes_on_from_a_cross_encoder_and_from_adapters(adapters, undisturbed, config, tmp_path):
    for name, base in (("full", undisturbed / "out"), ("lora", adapters)):
        path = config(folder=tmp_path / name)
        out = finetune(path, f"model.base={base}", "training.learning_rate=1e-9", "training.steps=1")
        np.testing.assert_allclose(scores(out), scores(base), atol=1e-4)


def test_adapters_of_another_base_are_refused(adapters, data, tmp_path):
    moved = Path(shutil.copytree(adapters, tmp_path / "moved"))
    save_normalized(tmp_path / "other", seed=5)
    path = moved / "adapter_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": str(tmp_path / "other")})
    )
    with pytest.raises(InputError, match="its adapters belong to another base") as caught:
        open_scorer(str(moved))
    assert model_sha256(data / "normalized") in caught.value.hint
    # without the hash, as others write them: the same shapes are taken, others are refused
    weights = load_file(moved / "adapter_model.safetensors")
    save_file(weights, moved / "adapter_model.safetensors", metadata={"format": "pt"})
    open_scorer(str(moved), device="cpu")
    save_file({n: t.repeat(2, *[1] * (t.ndim - 1)) for n, t in weights.items()},
              moved / "adapter_model.safetensors", metadata={"format": "pt"})  # fmt: skip
    with pytest.raises(InputError, match="its adapters do not fit"):
        open_scorer(str(moved))
    (moved / "adapter_model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"adapter_model\.safetensors: cannot be read"):
        open_scorer(str(moved))


def test_a_bi_encoder_is_no_cross_encoder(data):
    for name in ("normalized", "bert"):
        with pytest.raises(InputError, match="cross-encoder"):
            open_scorer(str(data / name))


# --- what goes wrong -------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_with_the_pairs_of_its_batch(config, monkeypatch):
    calls: list[int] = []

    def broken(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return lce(scores, mask) * (float("nan") if len(calls) == 3 else 1.0)

    monkeypatch.setitem(LOSSES, "lce", broken)
    with pytest.raises(InputError, match=r"the loss of step 3 is nan; .*pairs\.jsonl, pair \d+; ") as caught:
        finetune(config())
    assert caught.value.message.count("pair ") == 8


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (["data.pairs=['{data}/none.jsonl']"], InputError, "no such file"),
        (["dev.pairs=['{data}/none.jsonl']"], InputError, "no such file"),
        (["texts.tokens=65"], InputError, "reads 64 tokens, and pairs may have 65"),
        (["model.base={data}/nothing"], InputError, "no such folder"),
        (["output.report_to=['wandd']"], UsageError, 'no tracker "wandd"'),
        (["data.shots=33"], InputError, r"data\.shots is 33, and there are 32 queries"),
    ],
)
def test_what_does_not_fit_is_named_before_training(config, data, settings, error, message):
    with pytest.raises(error, match=message):
        finetune(config(), *(setting.format(data=data) for setting in settings))


def test_dropout_is_that_of_the_base_unless_told_otherwise(adapters, config):
    for given, of_hidden, of_attention in (
        ([], {0.1}, {0.1}),
        (["model.hidden_dropout=0"], {0}, {0.1}),
        (["model.attention_dropout=0.3", *LORA, "model.lora_dropout=0.2"], {0.1, 0.2}, {0.3}),
        (["model.attention_dropout=0.3", f"model.base={adapters}", *LORA], {0}, {0.3}),
    ):
        model = open_trainable(read_settings(FinetuneConfig, config(), given)).model
        at = {name: m.p for name, m in model.named_modules() if isinstance(m, torch.nn.Dropout)}
        attention = {name for name in at if name.endswith("attention.self.dropout")}
        assert len(attention) == 2
        assert {at[name] for name in attention} == of_attention
        assert {at[name] for name in at.keys() - attention} == of_hidden


# --- several processes -----------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_have_the_losses_gradients_and_weights_of_one(data, tmp_path):
    """Whole groups and groups in pieces; without dropout, whose draws would differ."""
    # with an epsilon that large Adam's steps are proportional to the gradients, so the weights show them
    common = ["training.adam_epsilon=1.0", "training.learning_rate=0.1", "training.epochs=1"]
    variants = {
        "pieces": ["training.mini_batch=3", *common],
        "groups": ["training.mini_batch=5", *LORA, *common],
    }

    def write(name: str) -> Path:
        return write_config(data, tmp_path / name, "normalized")

    for pair in train_by_one_and_two("linkseek.reranker.commands.finetune", write, variants, steps=4):
        np.testing.assert_allclose(*map(scores, pair), atol=1e-3)


# --- nothing to learn from ----------------------------------------------------------------------------


def test_copies_of_the_relevant_passage_are_no_negatives(config, data, tmp_path):
    rows = pair_rows(12, hard=2)
    for row in rows:
        row["hard_negative_ctxs"] = [row["positive_ctxs"][0] | {"passage_id": None}] * 2
        row["negative_ctxs"] = []
    pairs = write_pairs(tmp_path / "copies.jsonl", rows)
    with pytest.raises(InputError, match="none of 12 labelled pairs has a passage that is not relevant"):
        finetune(config(), f'data.pairs=["{pairs}"]')


def test_a_step_counts_its_negatives(undisturbed):
    log = [line for line in read_log(undisturbed / "out" / "log.jsonl") if "loss" in line]
    assert all(line["negatives"] == 3 for line in log)


def test_texts_that_are_read_alike_are_no_contrast(config, tmp_path):
    """They differ in titles alone, which are not read."""
    rows = pair_rows(12, hard=2)
    for row in rows:
        row["hard_negative_ctxs"] = [row["positive_ctxs"][0] | {"title": "another"}]
    pairs = write_pairs(tmp_path / "alike.jsonl", rows)
    with pytest.raises(InputError, match="no query has had a text that is not relevant"):
        finetune(config(), f'data.pairs=["{pairs}"]', "texts.title=false")
