"""The loss and the dev measure against sums by hand, loops, and the whole batch at once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import nn

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.bases import open_base
from linkseek.retriever.models.biencoder import PassageTokenizer, TextFormat
from linkseek.retriever.models.facts import open_tokenizer
from linkseek.retriever.models.library import model_facts
from linkseek.retriever.training.losses.in_batch_loss import (
    PairLoss,
    in_batch_loss,
    not_negatives,
    taught_loss,
)
from linkseek.retriever.training.pair_models import PairModel
from linkseek.retriever.training.pair_training import AverageRank, gold_ranks
from linkseek.retriever.training.samples.pair_inputs import PairCollator, document_of, passage_keys
from linkseek.retriever.training.samples.sample_table import Sample
from tests.support.tiny.training import save_bert, save_normalized

pytestmark = pytest.mark.usefixtures("one_thread")


def test_three_queries_in_two_dimensions_by_hand():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scores = vectors @ vectors.T
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    e = math.e
    # scores by row: (1, 0, 1), (0, 1, 1), (1, 1, 2)
    by_hand = (math.log(2 * e + 1) - 1 + math.log(2 * e + 1) - 1 + math.log(2 * e + e**2) - 2) / 3
    assert in_batch_loss(scores, torch.arange(3), nothing).item() == pytest.approx(by_hand)
    # the third passage is no negative of the first query: log(e + 1) - 1 instead
    hide = nothing.clone()
    hide[0, 2] = True
    by_hand += (math.log(e + 1) - math.log(2 * e + 1)) / 3
    assert in_batch_loss(scores, torch.arange(3), hide).item() == pytest.approx(by_hand)
    # scale 2: scores (2, 0, 2), (0, 2, 2), (2, 2, 4)
    by_hand = (2 * (math.log(2 * e**2 + 1) - 2) + math.log(2 * e**2 + e**4) - 4) / 3
    assert in_batch_loss(2 * scores, torch.arange(3), nothing).item() == pytest.approx(by_hand)


def test_scores_of_a_teacher_by_hand():
    own = torch.tensor([[2.0, 0.0, 1.0], [1.0, 0.0, 5.0], [3.0, 1.0, 1.0]], requires_grad=True)
    nan = math.nan
    taught = torch.tensor([[1.0, 0.0, nan], [0.0, 0.0, math.log(2)], [4.0, nan, nan]])
    # margins of the relevant passage: own 2 (taught 1), 1 (0), -4 (-ln 2); the third query has none
    by_hand = ((2 - 1) ** 2 + (1 - 0) ** 2 + (-4 + math.log(2)) ** 2) / 3
    assert taught_loss(own, taught, "margin").item() == pytest.approx(by_hand)
    # distributions: (e, 1) / (e + 1) to (e^2, 1) / (e^2 + 1), and (1, 1, 2) / 4 to (e, 1, e^5) / sum
    wanted, found = [math.e / (math.e + 1), 1 / (math.e + 1)], [2.0, 0.0]
    first = sum(w * (math.log(w) - f) for w, f in zip(wanted, found, strict=True)) + math.log(math.e**2 + 1)
    whole = math.log(math.e + 1 + math.e**5)
    second = sum(w * (math.log(w) - f + whole) for w, f in zip([0.25, 0.25, 0.5], [1, 0, 5], strict=True))
    loss = taught_loss(own, taught, "kl")
    assert loss.item() == pytest.approx((first + second) / 2, rel=1e-5)
    loss.backward()
    assert own.grad.isfinite().all() and own.grad[2].tolist() == [0, 0, 0] and own.grad[0, 2] == 0
    nothing = torch.full((2, 3), nan)
    assert [taught_loss(own[:2], nothing, how).item() for how in ("kl", "margin")] == [0, 0]


# --- what is masked ------------------------------------------------------------------------------


def context(document: int, number: int, text: str = "") -> PairContext:
    return PairContext(f"t{document}", text or f"{document} {number}", f"d{document}#{number}")


PAIRS = [
    ("q0", context(0, 0), context(9, 0)),
    ("q1", context(0, 1), context(1, 0)),  # another passage of the first one's document
    ("q2", context(0, 0), context(0, 1)),  # the same passage again; its own negative is of that document
    ("q0", context(3, 0), context(4, 0)),  # the same query, with another relevant passage
]


def keys_of(pairs) -> torch.Tensor:
    return torch.from_numpy(np.stack([passage_keys(query, contexts) for query, *contexts in pairs]))


def hidden_places(masking: str) -> set[tuple[int, int]]:
    keys = keys_of(PAIRS)  # [4, 2, 4]
    all_keys = keys.transpose(0, 1).reshape(-1, 4)  # relevant ones 0 to 3, then negatives 4 to 7
    mask = not_negatives(keys, all_keys, torch.arange(4), masking)
    return {(int(q), int(p)) for q, p in mask.nonzero()}


def test_with_masking_off_all_other_passages_are_negatives():
    assert hidden_places("off") == set()


def test_the_relevant_passage_again_and_others_of_the_same_query_are_not_negatives():
    # 0 and 2 share a passage; 1's is 2's negative (place 6); 0 and 3 are one query
    assert hidden_places("passages") == {(0, 2), (2, 0), (1, 6), (0, 3), (3, 0)}


def test_other_passages_of_the_document_are_not_negatives_unless_given_as_such():
    # the first three are of one document; place 6 is of it too, but the third pair's own negative
    assert hidden_places("documents") == {
        (0, 1), (0, 2), (0, 6), (1, 0), (1, 2), (1, 6), (2, 0), (2, 1), (0, 3), (3, 0)
    }  # fmt: skip


def test_a_blank_passage_is_never_a_negative():
    collator = PairCollator(None, TextFormat(), 8, 8, negatives=2)
    contexts = collator.contexts(Sample(0, "", Pair("q", context(0, 0), (context(1, 0),))), 0)
    assert [c.text for c in contexts] == ["0 0", "1 0", ""]
    keys = keys_of([("q", *contexts)])
    found = not_negatives(keys, keys.transpose(0, 1).reshape(-1, 4), torch.arange(1), "off")
    assert found.tolist() == [[False, False, True]]


@pytest.mark.parametrize(
    ("title", "id_", "document"),
    [("T", "d#3", "d"), ("T", "12", "T"), ("", "12", "12"), ("", "", ""), ("T", "a#b", "T"), ("T", "", "T")],
)
def test_the_document_of_a_passage(title, id_, document):
    assert document_of(PairContext(title, "x", id_)) == document


# --- gradients -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return open_base(str(save_bert(tmp_path_factory.mktemp("loss") / "bert")))


def batch_of(model, mini_batch: int = 0, count: int = 6, join: bool = False):
    words = ["bam", "bem", "bim", "bom", "bum", "dam", "dem", "dim"]
    pairs = [
        Pair(
            f"{words[n]} {words[n - 1]}",
            context(n, 0, " ".join(words[: n + 2])),
            (context(50 + n, 0, " ".join(words[n:])),) * (n % 2),
        )
        for n in range(count)
    ]
    kind = PairModel(model)
    own = {"negatives": 1, "mini_batch": mini_batch, "join": kind.together if join else None}
    collator = PairCollator(kind.features, TextFormat(), 12, 16, **own)
    return collator([Sample(n, f"pair {n}", pair) for n, pair in enumerate(pairs)], 0)


def gradients(model: nn.Module, mini_batch: int = 0, join: bool = False) -> tuple[float, dict]:
    model.zero_grad()
    inputs = batch_of(model, mini_batch, join=join)
    value = PairLoss(PairModel(model), 0.1, "documents", cached=mini_batch > 0)(model, inputs)["loss"]
    value.backward()
    return value.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("mini_batch", "join"), [(1, False), (4, False), (100, False), (0, True)])
def test_mini_batches_and_one_pass_have_the_gradients_of_the_whole_batch(model, mini_batch, join):
    inputs = batch_of(model, mini_batch, join=join)
    assert len(inputs["passages"]) == (1 if join else -(-12 // mini_batch)) and join != bool(
        inputs["queries"]
    )
    whole, expected = gradients(model)
    cached, found = gradients(model, mini_batch, join)
    assert cached == pytest.approx(whole, abs=1e-5)
    assert expected.keys() == found.keys() and len(expected) > 20
    assert max(g.abs().max() for g in expected.values()) > 1e-3
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-3)


def test_the_loss_is_that_of_a_loop_over_queries(model):
    inputs = batch_of(model)
    found = PairLoss(PairModel(model), 0.1)(model, inputs)["loss"].item()
    texts = inputs["queries"], inputs["passages"]
    queries, passages = (model(dict(piece))["sentence_embedding"].detach() for [piece] in texts)
    blank = inputs["keys"].transpose(0, 1).reshape(-1, 4)[:, 1] == 0
    assert blank.sum() == 3  # every other pair has no negative
    by_loop = 0.0
    for n, query in enumerate(queries):
        scores = [0.1 * float(query @ p) for p, empty in zip(passages, blank, strict=True) if not empty]
        by_loop += math.log(sum(map(math.exp, scores))) - scores[n]
    assert found == pytest.approx(by_loop / len(queries), rel=1e-4)


# --- the dev measure -----------------------------------------------------------------------------


def test_ranks_by_hand():
    queries = torch.tensor([[1.0, 0], [0, 1], [1, 1]])
    passages = torch.tensor([[2.0, 0], [0, 1], [3, 0], [0, 1]])

    def ranks(queries, passages):
        return gold_ranks(queries, passages, np.array([0, 1, 2]), lambda q, p: q @ p.T)

    # scores (2, 0, 3, 0), (0, 1, 0, 1), (2, 1, 3, 1); one with the same score stands before
    assert ranks(queries, passages).tolist() == [2, 2, 1]
    assert ranks(queries * 0, passages).tolist() == [4, 4, 4]
    assert ranks(queries * np.nan, passages).tolist() == [4, 4, 4]


def test_all_passages_of_the_dev_pairs_are_ranked_once(tmp_path):
    relevant = [PairContext("t", text, f"d#{n}") for n, text in enumerate(["bam bem", "dam dem"])]
    pairs = [
        Pair("bam bem", relevant[0], negatives=(relevant[1], PairContext("", "dim"))),
        Pair("dam dem", relevant[1], hard_negatives=(PairContext("", "dom"), PairContext("", "dum"))),
    ]
    folder = save_normalized(tmp_path / "tiny")
    measure = AverageRank(pairs, TextFormat(title=False), negatives=1, hard_negatives=1)
    assert measure._passages == ["bam bem", "dam dem", "dom"]
    # the same text as query and passage, and vectors of length 1: it is the best
    assert measure(PairModel(open_base(str(folder)))) == 1.0


def test_queries_and_passages_are_read_as_the_encoder_reads_them(tmp_path):
    model = open_base(str(save_normalized(tmp_path / "tiny")))
    encode = PassageTokenizer(open_tokenizer(model_facts(model, "tiny")), TextFormat())
    pairs = [
        Pair("whose is bam?", PairContext("dam", "bem " * 60)),
        Pair("it\u2019s bim", PairContext("", "bom")),
    ]
    collator = PairCollator(PairModel(model).features, encode.text_format, 48, 48)
    batch = collator([Sample(n, "", pair) for n, pair in enumerate(pairs)], 0)
    passages = encode(*zip(*[(p.positive.title, p.positive.text) for p in pairs], strict=True))
    queries = [encode.tokenizer.encode(pair.query.replace("\u2019", "'")).ids for pair in pairs]
    for name, expected in (("passages", passages), ("queries", queries)):
        [features] = batch[name]
        ids, mask = features["input_ids"], features["attention_mask"].bool()
        assert [i[m].tolist() for i, m in zip(ids, mask, strict=True)] == expected
    assert max(map(len, passages)) == 48


def test_a_bare_transformer_of_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    folder = save_bert(tmp_path / "bert")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="Hub cannot be reached"):
        open_base("nobody/bert")
    files = {"config.json": str(folder / "config.json")}
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda name, file: files.get(file))
    assert [type(module).__name__ for module in open_base("nobody/bert")] == ["Transformer", "Pooling"]


def test_the_folder_of_a_bare_transformer_is_read_by_its_first_token(tmp_path: Path):
    folder = save_bert(tmp_path / "bert")
    model = open_base(str(folder))
    [vector] = model.encode(["bam bem"], convert_to_tensor=True)
    states = model[0].model(**model.tokenizer(["bam bem"], return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(vector, states[0, 0])


@pytest.mark.parametrize("normalized", [False, True])
def test_several_widths_by_hand(normalized):
    """The mean of the loss of all numbers and that of the first."""
    vectors = {"q": torch.randn(3, 4), "p": torch.randn(3, 4)}
    vectors["q"].requires_grad_()
    keys = torch.arange(1, 13).reshape(3, 1, 4)
    inputs = {"queries": [{"name": "q"}], "passages": [{"name": "p"}], "keys": keys}

    def model(features):
        return {"sentence_embedding": vectors[features["name"]]}

    base = torch.nn.Sequential(*[Normalize()] * normalized)
    base.get_embedding_dimension = lambda: 4
    loss = PairLoss(PairModel(base, [2]), 2.0)(model, inputs)["loss"]
    cut = [v[:, :2] for v in vectors.values()]
    if normalized:
        cut = [v / v.norm(dim=1, keepdim=True) for v in cut]
    expected = [
        torch.nn.functional.cross_entropy(2 * q @ p.T, torch.arange(3)) for q, p in (vectors.values(), cut)
    ]
    torch.testing.assert_close(loss, sum(expected) / 2)
