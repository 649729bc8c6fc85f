"""Whole fine-tunings of tiny models: interrupted, few-shot, on two processes, as adapters."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.settings import read_settings
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.reranker.training.config import FinetuneConfig, GroupTeacherSettings
from linkseek.reranker.training.group_data import GroupCollator, GroupTexts, PairTokenizer
from linkseek.reranker.training.group_loss import TAUGHT
from linkseek.reranker.training.trainable_cross_encoder import open_trainable
from linkseek.retriever.mining.pairs import read_pairs
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.losses.teacher import TeacherTexts, open_teacher
from linkseek.retriever.training.samples.sample_table import Sample
from tests.support.command import assert_same_run, kill_at, with_settings
from tests.support.tiny.runs import LORA, PAIRS, TRAININGS
from tests.support.tiny.runs import undisturbed as complete
from tests.support.tiny.training import pair_rows, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

TRAINING = TRAININGS["finetune"]
finetune = TRAINING.run

QUERIES, TEXTS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture
def data(training_data) -> Path:
    return training_data


@pytest.fixture
def config(data, tmp_path):
    return lambda base="", folder=tmp_path: TRAINING.write(data, folder, base)


@pytest.fixture
def undisturbed(data) -> Path:
    """A run of 12 steps, split over micro-batches."""
    return complete("finetune", data)


def scores(folder: Path) -> np.ndarray:
    """The scores of the pairs by our engine."""
    return open_scorer(str(folder), device="cpu", precision="float32").score(QUERIES, TEXTS)


# --- a teacher --------------------------------------------------------------------------------------


def test_a_group_has_the_scores_of_its_teacher(data, tmp_path):
    settings = GroupTeacherSettings(encoder=str(data / "normalized"), temperature=0.5)
    pairs = [*read_pairs(data / "groups.jsonl")]
    form = TextFormat()
    teacher = open_teacher(settings, TeacherTexts.of(pairs, form), title=True, work=tmp_path)
    texts, sample = GroupTexts(form, 3, 7), Sample(4, "", pairs[4])
    chosen = texts.contexts(sample, 1)
    library = SentenceTransformer(str(data / "normalized"), device="cpu")
    read = [pairs[4].query, *(form.passage(context.title, context.text) for context in chosen)]
    vectors = library.encode(read)
    goals = texts.goals(teacher, sample, 1)
    np.testing.assert_allclose(goals, vectors[1:] @ vectors[0] / 0.5, atol=5e-3)
    facts = open_trainable(read_settings(FinetuneConfig, TRAINING.write(data, tmp_path))).facts
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
    if kind == next(iter(TAUGHT)):  # what a teacher says is kept before any loss
        again = config(folder=tmp_path / "again")
        kill_at(9, "finetune", *with_settings(again, words))
        assert_same_run(finetune(again, *words), undisturbed)


# --- going on --------------------------------------------------------------------------------------


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


def test_a_model_trained_without_titles_is_scored_without_them(config, tmp_path):
    without = open_scorer(str(finetune(config(), "texts.title=false", "training.epochs=1")), device="cpu")
    assert without.text_format.head(Candidate("a title", "")) == ""
    again = config(base=without.location, folder=tmp_path / "again")
    with_titles = open_scorer(str(finetune(again, "training.epochs=1")), device="cpu")
    assert with_titles.text_format.head(Candidate("a title", "")) == "a title "


@pytest.mark.parametrize("kind", ["lce", "pointwise"])
def test_either_loss_learns_what_the_pairs_say(kind, config, tmp_path):
    path = config("normalized")
    out = finetune(path, f"loss.kind={kind}", "training.epochs=6", "training.learning_rate=5e-3")
    losses = [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert losses[-1] < 0.6 * losses[0]


# --- adapters --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adapters(training_data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    return finetune(TRAINING.write(training_data, folder, "normalized"), *LORA)


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


def test_training_goes_on_from_a_cross_encoder_and_from_adapters(adapters, undisturbed, config, tmp_path):
    for name, base in (("full", undisturbed / "out"), ("lora", adapters)):
        path = config(folder=tmp_path / name)
        out = finetune(path, f"model.base={base}", "training.learning_rate=1e-9", "training.steps=1")
        np.testing.assert_allclose(scores(out), scores(base), atol=1e-4)


def test_adapters_without_the_hash_of_their_base_must_fit_it(adapters, tmp_path):
    """As others write them."""
    moved = Path(shutil.copytree(adapters, tmp_path / "moved"))
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


# --- nothing to learn from ----------------------------------------------------------------------------


def test_copies_of_the_relevant_passage_are_no_negatives(config, data, tmp_path):
    rows = pair_rows(12, hard=2)
    for row in rows:
        row["hard_negative_ctxs"] = [row["positive_ctxs"][0] | {"passage_id": None}] * 2
        row["negative_ctxs"] = []
    pairs = write_pairs(tmp_path / "copies.jsonl", rows)
    with pytest.raises(InputError, match="none of 12 labelled pairs has a negative"):
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
