"""What every training promises: the same bits after a kill, one process's losses in two, named faults."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder, SentenceTransformer

from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.commands import export
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.training import loop
from linkseek.retriever.training.log import read_log
from tests.support.command import assert_same_run, kill_at, train_by_one_and_two, with_settings
from tests.support.tiny.runs import LORA, PAIRS, TRAININGS, TinyTraining, undisturbed
from tests.support.tiny.training import save_normalized

HEAD = {f"{name}.{kind}" for name in ("bert.pooler.dense", "classifier") for kind in ("weight", "bias")}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=TRAININGS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def training(name: str) -> TinyTraining:
    return TRAININGS[name]


def test_after_kills_the_same_command_ends_with_the_same_bits(name, training, training_data, tmp_path):
    whole, path = undisturbed(name, training_data), training.write(training_data, tmp_path)
    for stage, step in training.kills:
        kill_at(step, training.word, *with_settings(path, training.settings), stage=stage)
    assert not (tmp_path / "out").exists()
    files = "model.safetensors", "tokenizer.json", "config.json"
    out = training.run(path, *training.settings)
    assert_same_run(out, whole / "out", *(file for file in files if (whole / "out" / file).exists()))
    with pytest.raises(UsageError, match="out exists already, and has other settings"):
        training.run(path, *training.settings, "training.seed=8")


def test_inputs_that_other_processes_make_ahead_change_nothing(
    name, training, training_data, tmp_path, monkeypatch
):
    """As on a GPU."""
    monkeypatch.setattr(loop, "_workers", lambda device: 2)
    out = training.run(training.write(training_data, tmp_path), *training.settings)
    assert_same_run(out, undisturbed(name, training_data) / "out")


def test_a_loss_that_is_no_number_stops_with_the_samples_of_its_batch(
    name, training, training_data, tmp_path, monkeypatch
):
    def spoiled(task: loop.Task, *rest: Any) -> Any:
        steps = count(1)

        def loss(*arguments: Any) -> Any:
            losses = dict(task.loss(*arguments))
            return losses | {"loss": losses["loss"] * (float("nan") if next(steps) == 3 else 1.0)}

        return loop.train_steps(replace(task, loss=loss), *rest)

    monkeypatch.setattr(training.loop_module, "train_steps", spoiled)
    with pytest.raises(InputError, match=rf"the loss of step 3 is nan; .*{training.unit}") as caught:
        training.run(training.write(training_data, tmp_path))
    assert caught.value.message.count("; ") == {"mlm": 16}.get(name, 8)
    assert "learning_rate" in caught.value.hint


@pytest.mark.parametrize("name", [name for name, training in TRAININGS.items() if training.variants])
def test_two_processes_have_the_losses_gradients_and_weights_of_one(training, training_data, tmp_path):
    """Whole batches and mini-batches; without dropout, whose draws would differ."""
    variants = {
        name: [word.format(data=training_data) for word in words] for name, words in training.variants.items()
    }

    def write(variant: str) -> Path:
        return training.write(training_data, tmp_path / variant, "normalized")

    module = f"linkseek.{training.command}"
    for pair in train_by_one_and_two(module, write, variants, steps=training.lines, rel=1e-3):
        for file in pair[0].glob("*.safetensors"):
            mine, theirs = load_file(file), load_file(pair[1] / file.name)
            torch.testing.assert_close(theirs, mine, atol=1e-4, rtol=1e-2)


EVERY = [(["training.batch=0"], UsageError, r"^--training\.batch: .* \(given: 0\)")]
WITH_BASE = [
    (["model.base={data}/nothing"], InputError, "no such folder"),
    (["model.base={data}"], InputError, "not the folder of a model"),
]
OWN = {
    "mlm": [
        (["model.layer=2"], UsageError, r'unknown key "layer" in \[model\]'),
        (["model.width=100"], UsageError, r"model\.width is 100"),
        (["model.tokenizer=linkseek-static"], UsageError, "has no mask token"),
    ],
    "train": [
        (["data.pairs=['{data}/none.jsonl']"], InputError, "no such file"),
        (["texts.passage_tokens=65"], UsageError, "reads 64 tokens, but texts may have 65"),
        (["model.base={data}/static", "model.hidden_dropout=0"], UsageError, "no hidden_dropout"),
    ],
    "static": [
        (['model.train="lora"'], UsageError, "is a static encoder"),
        (['model.towers="two"', 'model.train="query"'], UsageError, "is a static encoder"),
    ],
    "finetune": [
        (["data.pairs=['{data}/none.jsonl']"], InputError, "no such file"),
        (["dev.pairs=['{data}/none.jsonl']"], InputError, "no such file"),
        (["texts.tokens=65"], UsageError, "reads 64 tokens, but texts may have 65"),
        (["data.shots=33"], InputError, r"data\.shots is 33, and there are 32 queries"),
    ],
    "pretrain": [
        (["stages.1.contrasts=['none.jsonl']"], InputError, r"none\.jsonl: no such file"),
        (["stages.1.weights=[1, 2]"], UsageError, "stage hp: give one weight for each file"),
        (["stages.2.name=hp"], UsageError, "stage hp: the name is used twice"),
        (["stages.1.epoch=2"], UsageError, r'unknown key "epoch" in \[stages\.1\]'),
        (["stages.3.epochs=2"], UsageError, "3 is not a table"),
        (["stages.epochs=2"], UsageError, r"Add its number: stages\.1\.epochs=VALUE"),
        (["texts.tokens=65"], UsageError, "reads 64 tokens, but texts may have 65"),
    ],
}
FAULTS = [
    (name, *fault)
    for name, own in OWN.items()
    for fault in (*EVERY, *([] if name == "mlm" else WITH_BASE), *own)
]


@pytest.mark.parametrize(("name", "settings", "error", "message"), FAULTS)
def test_what_does_not_fit_is_named_before_training(
    training, training_data, tmp_path, settings, error, message
):
    path = training.write(training_data, tmp_path)
    with pytest.raises(error) as caught:
        training.run(path, *(setting.format(data=training_data) for setting in settings))
    assert re.search(message, f"{caught.value.message} {caught.value.hint}")


@pytest.mark.parametrize(("name", "opener"), [("train", open_biencoder), ("finetune", open_scorer)])
def test_adapters_of_another_base_are_refused(training, opener, training_data, tmp_path):
    out = training.run(training.write(training_data, tmp_path, "normalized"), *LORA, "training.steps=1")
    path = out / "adapter_config.json"
    save_normalized(tmp_path / "other", seed=5)
    path.write_text(path.read_text().replace(str(training_data / "normalized"), str(tmp_path / "other")))
    with pytest.raises(InputError, match="belong to another version") as caught:
        opener(str(out))
    assert model_sha256(training_data / "normalized") in caught.value.hint


def vectors(model: Any) -> np.ndarray:
    return np.asarray(model.encode(["bam bem", "dim"]))


def pair_scores(model: Any) -> np.ndarray:
    return np.asarray(model.predict(PAIRS, show_progress_bar=False))


@pytest.mark.parametrize(
    ("name", "read", "opened", "library", "own"),
    [
        ("train", vectors, lambda out: vectors(SentenceTransformer(str(out))), SentenceTransformer, set()),
        ("finetune", pair_scores, lambda out: open_scorer(str(out), precision="float32").score(
            *zip(*PAIRS, strict=True)), CrossEncoder, HEAD),
    ],
)  # fmt: skip
def test_adapters_are_small_and_merge_into_the_model_that_was_trained(
    training, read, opened, library, own, training_data, tmp_path, monkeypatch
):
    trained: list[np.ndarray] = []

    def spy(task: loop.Task, *rest: Any) -> Any:
        state = loop.train_steps(task, *rest)
        trained.append(read(task.model.eval()))
        return state

    monkeypatch.setattr(training.loop_module, "train_steps", spy)
    out = training.run(training.write(training_data, tmp_path, "normalized"), *LORA)
    weights = load_file(out / "adapter_model.safetensors")
    assert not (out / "model.safetensors").exists() and sum("lora" in name for name in weights) == 2 * 2 * 6
    assert {name.removeprefix("base_model.model.") for name in weights if "lora" not in name} == own
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16 if own else torch.float32}
    np.testing.assert_allclose(opened(out), trained[0], atol=1e-3)
    export.main([str(out), "--output", str(tmp_path / "full")])
    full = library(str(tmp_path / "full"), device="cpu")
    np.testing.assert_allclose(read(full), opened(out), atol=1e-4)
    assert np.ptp(trained[0]) > 0.1 and full.max_seq_length == {"train": 16, "finetune": 28}[training.word]
    assert not list((tmp_path / "full").glob("adapter*"))
    assert (tmp_path / "full" / "README.md").read_text() == (out / "README.md").read_text()


@pytest.mark.parametrize("name", ["train", "static"])
def test_two_towers_start_alike_part_and_are_opened_as_one_folder(training, training_data, tmp_path):
    def run(folder: str, *settings: str) -> Path:
        base = "static" if training.base == "static" else "normalized"  # without dropout
        path = training.write(training_data, tmp_path / folder, base)
        return training.run(path, "training.steps=4", "output.log_steps=1", *settings)

    two = 'model.towers="two"'
    shared, out = run("shared"), run("two", two)
    losses = [[line["loss"] for line in read_log(o / "log.jsonl") if "loss" in line] for o in (shared, out)]
    assert losses[0][0] == pytest.approx(losses[1][0], abs=1e-6) and losses[0][-1] != losses[1][-1]
    model, encoder = SentenceTransformer(str(out)), open_biencoder(str(out), precision="float32")
    texts = ["bam bem"]
    query, passage = model.encode_query(texts), model.encode_document(texts)
    assert np.abs(query - passage).max() > 1e-3
    np.testing.assert_allclose(encoder.encode_queries(texts), query, atol=1e-5)
    np.testing.assert_allclose(
        encode_texts(encoder, encoder.tokenize_passages([""], texts)), passage, atol=1e-5
    )
    for route, vectors in (("query", query), ("document", passage)):
        export.main([str(out), "--output", str(tmp_path / route), "--tower", route])
        np.testing.assert_allclose(
            SentenceTransformer(str(tmp_path / route)).encode(texts), vectors, atol=1e-6
        )
    run("again", two, f"model.base={out}")
    with pytest.raises(UsageError, match=r"has two towers, and model\.towers is shared"):
        run("third", f"model.base={out}")
