"""Checkpoints of DPR and HLP against the forward pass of the BERT that they hold."""

# ruff: noqa: F811 - a fixture of another file

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertModel

from experiments.convert import main, read_checkpoint
from experiments.pickled import load_pickled
from linkseek.indexer.program.errors import InputError, UsageError
from tests.retriever.training.test_mlm import tokenizer  # noqa: F401 - a fixture
from tests.support.tiny.training import VOCABULARY, bert_config

TEXTS = ["bam bem", "dim", "who is bam?"]


def bert(seed: int, **options: Any) -> BertModel:
    torch.manual_seed(seed)
    return BertModel(bert_config(hidden_size=128, **options)).eval()


def checkpoint(question: BertModel, passage: BertModel, prefix: str = "") -> dict[str, Any]:
    """As DPR saves it: `CheckpointState._asdict()`."""
    weights = OrderedDict()
    for part, model in (("question_model", question), ("ctx_model", passage)):
        weights[f"{part}.{prefix}embeddings.position_ids"] = torch.arange(64)[None]
        for name, value in model.state_dict().items():
            weights[f"{part}.{prefix}{name}"] = value
    state = {"model_dict": weights, "optimizer_dict": {"state": {}}, "scheduler_dict": None}
    return state | {"offset": 0, "epoch": 3, "encoder_params": {"pretrained_model_cfg": "bert-base-uncased"}}


@pytest.fixture
def convert(tmp_path, tokenizer):
    def run(state: Any, *options: str) -> SentenceTransformer:
        torch.save(state, tmp_path / "dpr.cp")
        given = [str(tmp_path / "dpr.cp"), "--output", str(tmp_path / "out"), "--tokenizer", str(tokenizer)]
        main([*given, *([] if "--max-tokens" in options else ["--max-tokens", "32"]), *options])
        return SentenceTransformer(str(tmp_path / "out"), device="cpu")

    return run


def vectors(model: BertModel, tokenizer: Path) -> np.ndarray:
    """[CLS] of the last layer, text by text."""
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(tokenizer)
    with torch.no_grad():
        return np.stack(
            [model(**words(text, return_tensors="pt")).last_hidden_state[0, 0].numpy() for text in TEXTS]
        )


@pytest.mark.parametrize("prefix", ["", "encoder.", "bert."])
def test_equal_copies_become_one_tower_with_the_vectors_of_the_original(convert, tokenizer, prefix):
    original = bert(0)
    model = convert(checkpoint(original, original, prefix))
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert model.similarity_fn_name == "dot" and model.max_seq_length == 32
    np.testing.assert_allclose(model.encode(TEXTS), vectors(original, tokenizer), atol=1e-5)


def test_two_models_become_two_towers(convert, tokenizer):
    question, passage = bert(0), bert(1)
    model = convert(checkpoint(question, passage))
    np.testing.assert_allclose(model.encode_query(TEXTS), vectors(question, tokenizer), atol=1e-5)
    np.testing.assert_allclose(model.encode_document(TEXTS), vectors(passage, tokenizer), atol=1e-5)


def test_a_checkpoint_without_pooler(convert, tokenizer):
    original = bert(0)
    state = checkpoint(original, original)
    for name in [name for name in state["model_dict"] if "pooler" in name]:
        del state["model_dict"][name]
    np.testing.assert_allclose(convert(state).encode(TEXTS), vectors(original, tokenizer), atol=1e-5)


class Foreign:
    """What no checkpoint should hold."""


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda state: state | {"extra": Foreign()},
            r"not read, because it holds tests\.experiments\.test_convert\.Foreign",
        ),
        (lambda state: {"weights": state["model_dict"]}, "no model_dict"),
        (lambda state: [1], "no model_dict"),
        (lambda state: _renamed(state, "ctx_model.", "other."), r'"other\..*" is not a weight of'),
        (lambda state: _without(state, "ctx_model."), "no weights of ctx_model"),
        (lambda state: _without(state, "encoder.layer.0.output"), 'output.dense.weight" is missing'),
        (lambda state: _without(state, "word_embeddings"), r"word_embeddings\.weight' is missing"),
        (lambda state: _with(state, "question_model.encode_proj.weight"), 'encode_proj.weight" is unknown'),
    ],
)
def test_what_is_no_checkpoint_is_refused(convert, tmp_path, spoil, message):
    original = bert(0)
    with pytest.raises(InputError, match=message) as caught:
        convert(spoil(checkpoint(original, original)))
    assert "dpr.cp" in caught.value.message and caught.value.hint
    assert not (tmp_path / "out").exists()


def _without(state: dict[str, Any], part: str) -> dict[str, Any]:
    return state | {"model_dict": {n: v for n, v in state["model_dict"].items() if part not in n}}


def _renamed(state: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return state | {"model_dict": {n.replace(old, new): v for n, v in state["model_dict"].items()}}


def _with(state: dict[str, Any], name: str) -> dict[str, Any]:
    return state | {"model_dict": state["model_dict"] | {name: torch.zeros(2)}}


def test_files_that_are_no_torch_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_checkpoint(tmp_path / "none")
    (tmp_path / "cut").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(InputError, match=r"cut: n"):
        read_checkpoint(tmp_path / "cut")


def test_another_vocabulary_and_too_many_tokens_are_named(convert, tmp_path):
    other = bert(0, vocab_size=len(VOCABULARY) + 1)
    with pytest.raises(UsageError, match=f"knows {len(VOCABULARY) + 1} tokens, .* has {len(VOCABULARY)}"):
        convert(checkpoint(other, other))
    original = bert(0)
    with pytest.raises(UsageError, match="--max-tokens 65: the model reads 64"):
        convert(checkpoint(original, original), "--max-tokens", "65")


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="a pipe or a device, not a file"):
            load_pickled(path, "")


def odd(kind: str) -> torch.Tensor:
    match kind:
        case "repeated":
            return torch.zeros(1).expand(400_000_000)
        case "sparse":
            return torch.sparse_coo_tensor(torch.tensor([[0], [0]]), torch.ones(1), (5, 5))
        case "without numbers":
            return torch.zeros(10**6, device="meta")
        case _:
            return torch.zeros(3, dtype=torch.complex64)


@pytest.mark.parametrize("kind", ["repeated", "sparse", "without numbers", "complex"])
def test_tensors_that_are_no_lists_of_numbers_in_their_file_are_refused(tmp_path, kind):
    path = tmp_path / "x.pt"
    torch.save({"model_dict": {"question_model.a": odd(kind), "ctx_model.a": odd(kind)}}, path)
    with pytest.raises(InputError, match=r"x\.pt: it(s tensors of .* are larger| holds a tensor)"):
        read_checkpoint(path)


def test_many_views_of_the_same_numbers_are_larger_than_the_file(tmp_path):
    numbers = torch.zeros(300_000)
    torch.save([numbers, numbers], tmp_path / "tied.pt")
    assert len(load_pickled(tmp_path / "tied.pt", "x")) == 2
    torch.save([numbers.view(-1) for _ in range(20)], tmp_path / "views.pt")
    with pytest.raises(InputError, match="larger than the file"):
        load_pickled(tmp_path / "views.pt", "x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embeddings.word_embeddings.weight", torch.zeros(30)),
        ("embeddings.position_embeddings.weight", torch.zeros(0, 128)),
        ("encoder.layer.0.intermediate.dense.weight", torch.tensor(1.0)),
        ("encoder.layer.0.output.dense.weight", torch.zeros(2, 2)),
        ("encoder.layer.99999.attention.self.query.weight", torch.zeros(1)),
        ("embeddings.token_type_embeddings.weight", torch.zeros(2, 9)),
    ],
)
def test_weights_of_other_shapes_are_named(tmp_path, tokenizer, name, value):
    state = checkpoint(bert(1), bert(1))
    for part in ("question_model", "ctx_model"):
        state["model_dict"][f"{part}.{name}"] = value
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"x\.pt") as caught:
        options = ["--tokenizer", str(tokenizer), "--max-tokens", "16"]
        main([str(tmp_path / "x.pt"), "--output", str(tmp_path / "o"), *options])
    assert caught.value.hint and not (tmp_path / "o").exists()
