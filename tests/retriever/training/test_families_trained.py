"""Late interaction and learned sparse models in training: losses next to the library's, and whole runs."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from sentence_transformers import MultiVectorEncoder, SparseEncoder
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.sparse_encoder.losses import (
    SparseMultipleNegativesRankingLoss,
    SpladeLoss,
)

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.commands.export import main as export
from linkseek.reranker.commands.score import main as score
from linkseek.reranker.models.scoring import open_scorer
from linkseek.retriever.mining.pairs import Pair, PairContext, read_pairs
from linkseek.retriever.models.backends.poolings import project_in_pooling
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.late import late_library_model, open_late
from linkseek.retriever.models.sparse import open_sparse
from linkseek.retriever.training.config import LossSettings
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.losses.in_batch_loss import PairLoss
from linkseek.retriever.training.pair_models import LatePairModel, PairModel, pair_model
from linkseek.retriever.training.samples.pair_inputs import PairCollator
from linkseek.retriever.training.samples.sample_table import Sample
from tests.support.tiny.models import save_masked, save_tiny, save_tiny_reranker
from tests.support.tiny.runs import TRAININGS

pytestmark = pytest.mark.usefixtures("one_thread")
PAIRS = [("who is bam", "bam: bim", "dem dom"), ("7 kut", "kit, 7 kot", "a"), ("e", "e f g h i", "kot 9")]


@pytest.fixture(params=["late", "sparse"])
def kind(request, tmp_path) -> PairModel:
    if request.param == "late":
        model = late_library_model(save_tiny(tmp_path / "base"), "base")
    else:
        model = SparseEncoder(str(save_masked(tmp_path / "base")), device="cpu")
    for module in model.train().modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    library = deepcopy(model)
    made = pair_model(model, LossSettings(query_flops=0.02, passage_flops=0.03))
    made.library = library
    return made


def inputs_of(kind: PairModel, mini_batch: int = 0) -> dict:
    samples = [
        Sample(n, "", Pair(q, PairContext("", p, f"p{n}"), hard_negatives=(PairContext("", h, f"h{n}"),)))
        for n, (q, p, h) in enumerate(PAIRS)
    ]
    collate = PairCollator(kind.features, TextFormat(False), 0, 0, hard_negatives=1, mini_batch=mini_batch)
    return collate(samples, 0)


def gradients(kind: PairModel, mini_batch: int = 0) -> tuple[float, dict[str, torch.Tensor]]:
    kind.model.zero_grad()
    loss = PairLoss(kind, 2.0, cached=mini_batch > 0)(kind.model, inputs_of(kind, mini_batch))["loss"]
    loss.backward()
    return loss.item(), {n: p.grad.clone() for n, p in kind.model.named_parameters() if p.grad is not None}


def test_the_loss_and_its_gradients_are_the_librarys(kind):
    value, expected = gradients(kind)
    model = kind.library
    columns = [model.preprocess([*texts]) for texts in zip(*PAIRS, strict=True)]
    if isinstance(kind, LatePairModel):
        from sentence_transformers.multi_vector_encoder.scoring import mean_colbert_scores

        own = MultiVectorMultipleNegativesRankingLoss(model, scale=2.0, similarity_fct=mean_colbert_scores)
        loss = own(columns)
    else:
        inner = SparseMultipleNegativesRankingLoss(model, scale=2.0)
        own = SpladeLoss(model, inner, document_regularizer_weight=0.03, query_regularizer_weight=0.02)
        loss = sum(own(columns).values())
    loss.backward()
    assert value == pytest.approx(loss.item(), rel=1e-4)
    for name, weights in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(weights.grad, expected[name], atol=1e-5, rtol=1e-3)


def test_terms_are_projected_in_the_pooling_where_the_projection_comes_last(tmp_path):
    base = save_masked(tmp_path / "base")
    for pooling, capped, is_projected in (
        ({}, False, True),
        ({"activation_function": "log1p_relu"}, False, True),
        ({}, True, False),
        ({"pooling_strategy": "sum"}, False, False),
    ):
        own = SparseEncoder(str(base), device="cpu")
        own[1].__dict__.update(pooling)
        if capped:
            own[0].model.cls.register_forward_hook(lambda _module, _inputs, logits: logits.tanh())
        library = deepcopy(own)
        project_in_pooling(own)
        assert ("forward" in vars(own[1])) == is_projected == ("forward" in vars(decoder_of(own)))
        features = own.preprocess(["bam: bim", "7 kit, 7 kot", "a", ""])
        features["attention_mask"][2] = 0  # no token at all
        found, expected = (m(dict(features))["sentence_embedding"] for m in (own, library))
        torch.testing.assert_close(found, expected)
        for weights in (found, expected):
            (weights * torch.arange(weights.numel()).view_as(weights).cos()).sum().backward()
        for (name, weights), other in zip(own.named_parameters(), library.parameters(), strict=True):
            torch.testing.assert_close(weights.grad, other.grad, msg=name)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = own(dict(features))["sentence_embedding"]
            rough.sum().backward()
        torch.testing.assert_close(rough.float(), expected, atol=0.02, rtol=0.05)


def decoder_of(model: SparseEncoder) -> torch.nn.Module:
    return model[0].model.get_output_embeddings()


@pytest.mark.parametrize(("mini_batch", "products", "atol"), [(2, 1 << 26, 1e-5), (0, 1, 1e-6)])
def test_a_batch_in_parts_has_the_gradients_of_the_whole(kind, mini_batch, products, atol, monkeypatch):
    whole, expected = gradients(kind)
    monkeypatch.setattr("linkseek.retriever.training.pair_models._PRODUCTS", products)
    value, found = gradients(kind, mini_batch)
    assert value == pytest.approx(whole, abs=atol) and expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=atol, rtol=100 * atol)


def test_maxsim_by_hand():
    kind = LatePairModel.__new__(LatePairModel)
    queries = torch.tensor([[[1.0, 0, 1], [0, 1, 1], [9, 9, 0]]])  # two tokens, and one that is not scored
    passages = torch.tensor([[[0.5, 0.5, 1], [1, 0, 1]], [[0.25, 0, 1], [9, 9, 0]], [[9, 9, 0], [9, 9, 0]]])
    kind._is_mean = False
    assert kind.scores(queries, passages).tolist() == [[1.5, 0.25, 0.0]]
    kind._is_mean = True
    assert kind.scores(queries, passages).tolist() == [[0.75, 0.125, 0.0]]


def settings(data, folder, base, **model) -> object:
    path = TRAININGS["train"].write(data, folder, str(base))
    lines = "".join(f"{key} = {value!r}\n".replace("'", '"') for key, value in model.items())
    path.write_text(path.read_text().replace("[model]\n", f"[model]\n{lines}"))
    return path


@pytest.mark.parametrize(
    "model",
    [{"family": "late"}, {"family": "late", "dimension": 8, "train": "head"}, {"family": "sparse"}],
    ids=["late", "late, head", "sparse"],
)
def test_a_run_saves_a_model_that_the_library_and_we_open(training_data, tmp_path, model):
    base = (save_tiny if model["family"] == "late" else save_masked)(tmp_path / "base")
    path = settings(training_data, tmp_path, base, **model)
    TRAININGS["train"].run(path)
    out = tmp_path / "out"
    losses = [line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line]
    assert np.isfinite(losses).all()
    full = out
    if model.get("train") == "head":
        assert sum(path.stat().st_size for path in out.rglob("*.safetensors")) < 2_000  # without its base
        full = tmp_path / "full"
        export([str(out), "--output", str(full)])
    if model["family"] == "late":
        library, encoder = MultiVectorEncoder(str(full), device="cpu"), open_late(str(out), device="cpu")
        [found] = encoder.encode_queries(["bam bem"])
        expected = library.encode_query("bam bem", convert_to_numpy=True)
        assert encoder.dimension == model.get("dimension", 32) and encoder.mean
    else:
        library, encoder = SparseEncoder(str(out), device="cpu"), open_sparse(str(out), device="cpu")
        [weights] = encoder.encode_queries(["bam bem"])
        expected = library.encode_query("bam bem", convert_to_sparse_tensor=False).numpy()
        found = np.zeros_like(expected)
        found[[*weights]] = np.array([*weights.values()]) * encoder.scale
    np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())
    assert library.__class__.__name__ in (out / "README.md").read_text()


@pytest.mark.parametrize("how", ["kl", "margin"])
def test_a_re_rankers_scores_are_followed(training_data, tmp_path, how):
    model = save_tiny_reranker(tmp_path / "reranker")
    scored = tmp_path / "scored.jsonl"
    score(["--pairs", str(training_data / "mined.jsonl"), "--model", str(model), "--output", str(scored)])
    scorer, pairs = open_scorer(str(model)), [*read_pairs(scored)]
    plain = [*read_pairs(training_data / "mined.jsonl")]
    assert [replace(pair.positive, score=None) for pair in pairs] == [pair.positive for pair in plain]
    texts = [f"{c.title} {c.text}" for c in (pairs[3].positive, *pairs[3].negatives)]
    expected = scorer.score([pairs[3].query] * len(texts), texts)
    found = [c.score for c in (pairs[3].positive, *pairs[3].negatives)]
    np.testing.assert_allclose(found, expected, atol=0.05)
    path = settings(training_data, tmp_path, save_tiny(tmp_path / "base"), family="late")
    text = path.read_text().replace(str(training_data / "mined.jsonl"), str(scored))
    path.write_text(f'{text}\n[teacher]\nscores = "{how}"\nweight = 1.0\nscore_temperature = 0.5\n')
    TRAININGS["train"].run(path)
    losses = [line["loss"] for line in read_log(tmp_path / "out/log.jsonl") if "loss" in line]
    assert losses[-1] < losses[0]


def test_settings_of_one_vector_are_refused(training_data, tmp_path):
    base = save_tiny(tmp_path / "base")
    run = TRAININGS["train"].run
    of_others = "late lora", "late query", "sparse head", "dense head", "dense 8", "sparse 8"
    for family, value in map(str.split, of_others):
        key, value = ("dimension", 8) if value == "8" else ("train", value)
        with pytest.raises(UsageError, match=rf"model\.{key}"):
            run(settings(training_data, tmp_path, base, family=family, **{key: value}))
    with pytest.raises(InputError, match="no term weights"):
        run(settings(training_data, tmp_path, base, family="sparse"))
    path = settings(training_data, tmp_path, base, family="late")
    path.write_text(f'{path.read_text()}\n[teacher]\nscores = "kl"\n')
    with pytest.raises(InputError, match=r"teacher\.scores"):
        run(path)
