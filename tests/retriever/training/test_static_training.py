"""Training of static encoders: gradients and steps against dense twins, token ids against the library's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import nn

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models.biencoder import TextFormat, open_biencoder
from linkseek.retriever.training.config import LossSettings
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.optimizers import RowAdam, TokenVectors, clip_gradients
from linkseek.retriever.training.pair_models import PairModel, pair_model
from linkseek.retriever.training.samples.pair_inputs import PairCollator
from linkseek.retriever.training.samples.sample_table import open_pairs
from tests.support.tiny.runs import TRAININGS
from tests.support.tiny.training import pair_rows, save_normalized, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def data(training_data) -> Path:
    return training_data


@pytest.fixture
def train(data, tmp_path):
    def run(*settings: str, output: Path = tmp_path) -> Path:
        training = TRAININGS["static"]
        return training.run(training.write(data, output), *settings)

    return run


def some_texts(tokens: int = 60, texts: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(3)
    offsets = np.sort(np.append(draw.integers(0, tokens, texts - 2), [0, tokens]))  # the last text is empty
    return torch.from_numpy(draw.integers(0, 20, tokens)), torch.from_numpy(offsets)


def test_gradients_are_those_of_a_dense_mean():
    ids, offsets = some_texts()
    dense = nn.EmbeddingBag(25, 8, mode="mean", dtype=torch.float64)
    rows = TokenVectors(dense.weight)
    direction = torch.randn(len(offsets), 8)
    (dense(ids, offsets) * direction).sum().backward()
    (rows(ids, offsets) * direction).sum().backward()
    torch.testing.assert_close(rows(ids, offsets), dense(ids, offsets).float())
    assert rows.weight.grad.coalesce().indices()[0].tolist() == ids.unique().tolist()
    torch.testing.assert_close(rows.weight.grad.to_dense(), dense.weight.grad.float())


def test_steps_are_those_of_dense_adam_on_the_rows_that_were_read():
    torch.manual_seed(0)
    start = torch.randn(25, 8)
    rows, library = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours = RowAdam([{"params": [rows], "weight_decay": 0.0}], lr=0.1, eps=1e-12)
    theirs = torch.optim.SparseAdam([library], lr=0.1, eps=1e-12)
    weights, mean, square = (t.double() for t in (start, torch.zeros(25, 8), torch.zeros(25, 8)))
    for step in range(1, 6):
        read = torch.randperm(25)[:9].repeat(2)  # each token twice: their gradients add up
        gradient = torch.sparse_coo_tensor(read[None], torch.randn(18, 8), (25, 8), check_invariants=True)
        rows.grad, library.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
        dense, mask = gradient.to_dense().double(), torch.zeros(25, 1, dtype=torch.bool)
        mask[read] = True
        mean = torch.where(mask, 0.9 * mean + 0.1 * dense, mean)
        square = torch.where(mask, 0.999 * square + 0.001 * dense**2, square)
        moved = mean / (1 - 0.9**step) / ((square / (1 - 0.999**step)).sqrt() + 1e-12)
        weights = torch.where(mask, weights - 0.1 * moved, weights)
    torch.testing.assert_close(rows.detach(), weights.float())
    torch.testing.assert_close(rows, library, atol=1e-5, rtol=1e-4)


def test_weight_decay_of_the_rows_that_were_read():
    rows = nn.Parameter(torch.ones(3, 2))
    rows.grad = torch.sparse_coo_tensor([[1]], torch.zeros(1, 2), (3, 2))
    RowAdam([{"params": [rows], "weight_decay": 0.5}], lr=0.1, eps=1e-8).step()
    torch.testing.assert_close(rows.detach(), torch.tensor([[1.0, 1], [0.95, 0.95], [1, 1]]))


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_sparse_gradients_are_clipped_as_dense_ones(limit):
    sparse, dense, other = (nn.Parameter(torch.zeros(4, 2)) for _ in range(3))
    sparse.grad = torch.sparse_coo_tensor([[1, 3, 1]], torch.tensor([[1.0, 2], [3, 4], [5, 6]]), (4, 2))
    dense.grad, other.grad = sparse.grad.to_dense(), torch.ones(4, 2)
    expected = torch.nn.utils.clip_grad_norm_([dense, nn.Parameter(torch.zeros(0))], limit)
    torch.testing.assert_close(clip_gradients([sparse], limit), expected)
    torch.testing.assert_close(sparse.grad.to_dense(), dense.grad)


def test_inputs_are_those_of_the_library(data, tmp_path):
    rows = pair_rows(6, objectives=("dual-link",), negatives=3, hard=0)
    rows[2]["negative_ctxs"] = []
    rows[4]["positive_ctxs"] = rows[1]["positive_ctxs"]
    rows[5]["question"] = rows[1]["question"]
    pairs = open_pairs([write_pairs(tmp_path / "p.jsonl", rows)], "pretrain", tmp_path / "p.arrow")
    model = SentenceTransformer(str(data / "static"), device="cpu")
    options = {"negatives": 2, "seed": 5, "mini_batch": 4}
    kinds = pair_model(model, LossSettings()), PairModel(model)
    ours, theirs = (PairCollator(kind.features, TextFormat(), 0, 0, **options) for kind in kinds)
    for _ in range(2):  # made, and kept
        mine, library = (collate([pairs[row] for row in (4, 2, 1, 5)], 1) for collate in (ours, theirs))
        assert torch.equal(mine["keys"], library["keys"])
        for name in ("queries", "passages"):
            for own, other in zip(mine[name], library[name], strict=True):
                assert own["input_ids"].tolist() == other["input_ids"].tolist()
                assert own["offsets"].tolist() == other["offsets"].tolist()


def test_texts_are_cut_where_the_settings_say(data):
    model = pair_model(SentenceTransformer(str(data / "static"), device="cpu"), LossSettings())
    text = pair_rows(1)[0]["positive_ctxs"][0]["text"]
    lengths = [len(model.features([text], "document", limit)["input_ids"]) for limit in (2, 5, 0, 2)]
    assert lengths == [2, 5, 8, 2]


def test_training_teaches_and_the_library_opens_the_folder(train, data):
    out = train()
    losses = [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert len(losses) == 24 and losses[-1] < 0.5 * losses[0]
    model = SentenceTransformer(str(out), device="cpu")
    encoder = open_biencoder(str(out))
    text = pair_rows(1)[0]["question"]
    np.testing.assert_allclose(encoder.encode_queries([text]), model.encode([text]), atol=1e-6)
    before = SentenceTransformer(str(data / "static"), device="cpu")[0].embedding.weight
    moved = (model[0].embedding.weight != before).any(dim=1)
    assert moved.any() and not moved[model.tokenizer.token_to_id("[CLS]")]


def test_mini_batches_give_the_same_weights(train, tmp_path):
    """With an epsilon that large Adam's steps are proportional to the gradients, so the weights show them."""
    common = ("training.steps=3", "training.adam_epsilon=1.0", "training.learning_rate=1.0")
    whole = train(*common, output=tmp_path / "whole")
    pieces = train(*common, "training.mini_batch=5", output=tmp_path / "pieces")
    weights = [load_file(out / "model.safetensors")["embedding.weight"] for out in (whole, pieces)]
    torch.testing.assert_close(*weights, atol=1e-5, rtol=1e-4)


def test_without_a_limit_a_transformer_reads_what_it_read(train, tmp_path):
    base = save_normalized(tmp_path / "normalized")
    out = train(f"model.base={base}", "training.steps=1")
    assert SentenceTransformer(str(out), device="cpu").max_seq_length == 48


# --- a training on nothing ---------------------------------------------------------------------------


def with_ids(path: Path, id_: object) -> Path:
    rows = pair_rows(40, objectives=("dual-link",))
    for row in rows:
        for context in (*row["positive_ctxs"], *row["negative_ctxs"], *row["hard_negative_ctxs"]):
            context["passage_id"] = id_
    return write_pairs(path, rows)


def test_passages_without_ids_are_told_apart_by_their_texts(train, tmp_path):
    pairs = with_ids(tmp_path / "null.jsonl", None)
    out = train(f'data.pairs=["{pairs}"]', "training.epochs=1")
    log = [line for line in read_log(out / "log.jsonl") if "loss" in line]
    # Batches of 16, 16 and 8 pairs with a negative each: all passages but the relevant one.
    assert sorted(line["negatives"] for line in log) == [15, 31, 31]
    assert all(line["masked"] == 0 and line["loss"] > 0 for line in log)


@pytest.mark.parametrize("settings", [(), ("training.mini_batch=5",)])
def test_a_training_in_which_all_is_masked_is_stopped(train, tmp_path, settings):
    pairs = with_ids(tmp_path / "same.jsonl", "x#1")
    with pytest.raises(InputError, match=r"no query has had a text that is not relevant, \d+\.\d passages"):
        train(f'data.pairs=["{pairs}"]', "output.log_steps=50", *settings)
    assert not (tmp_path / "out").exists()


def test_pairs_one_at_a_time_without_negatives_are_stopped(train):
    with pytest.raises(InputError, match=r"after 40 steps no query has had a text that is not relevant: "):
        train("training.batch=1", "data.negatives=0", "data.hard_negatives=0", "output.log_steps=40")


def test_a_batch_without_negatives_is_no_reason_to_stop(train):
    """40 pairs in batches of 13: the last has one."""
    out = train("training.batch=13", "data.negatives=0", "data.hard_negatives=0", "training.epochs=2")
    counts = [line["negatives"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert sorted(counts)[:2] == [0, 0] and len(counts) == 8
