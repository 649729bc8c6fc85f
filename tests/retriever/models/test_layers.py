"""Layers without padding: every fast way next to the padded model or torch's own functions."""

from __future__ import annotations

import pytest
import torch
from accelerate.utils import send_to_device
from torch.nn import functional
from transformers import AutoConfig, AutoModel

from linkseek.retriever.models.backends import layers
from linkseek.retriever.models.torch_modes import QuickOnCpu, dropout_mask
from tests.support.tiny.models import BACK_TO_BACK, attend_alone

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"hidden_size": 32, "embedding_size": 16, "intermediate_size": 64, "num_attention_heads": 2}
LENGTHS = (3, 37, 1, 40, 22, 38, 2)


def transformer(kind: str, **options):
    torch.manual_seed(1)
    sizes = SIZES | {"num_hidden_layers": 3, "vocab_size": 50, "pad_token_id": 0, "type_vocab_size": 2}
    return AutoModel.from_config(AutoConfig.for_model(kind, **sizes, **options)).eval()


def batch(lengths=LENGTHS, side="right"):
    """Texts with padding at one side, and one with a hole in its middle."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    mask[1, 5:9] = 0
    mask = mask if side == "right" else mask.flip(1)
    ids = torch.randint(5, 50, mask.shape, generator=torch.Generator().manual_seed(0))
    types = {"token_type_ids": mask} if side == "right" else {}
    return {"input_ids": ids * mask, "attention_mask": mask, **types}


def read(model, inputs, **options):
    """Vectors of tokens, and the gradients of their weighted sum."""
    model.zero_grad()
    vectors = model(**inputs, **options).last_hidden_state * inputs["attention_mask"][..., None]
    (vectors * torch.arange(vectors[0].numel()).view(vectors[0].shape).sin()).sum().backward()
    return [vectors.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", sorted(layers._TRAINED_PACKED))
@pytest.mark.parametrize("pack", [layers.in_blocks, BACK_TO_BACK], ids=["blocks", "back to back"])
def test_packed_has_the_vectors_and_gradients_of_padded(kind, side, pack):
    model, inputs = transformer(kind), batch(side=side)
    expected = read(model, inputs)
    packed = layers.PackedTransformer(model, pack)
    found = [read(model, inputs), read(model, inputs, packing=pack(inputs["attention_mask"]))]
    for values in found:
        assert len(values) == len(expected) > 40
        for own, padded in zip(values, expected, strict=True):
            torch.testing.assert_close(own, padded, atol=2e-4, rtol=1e-3)
    assert len(model(**batch(), output_hidden_states=True).hidden_states) == 4  # of all places
    assert model.config._attn_implementation != layers.PACKED
    assert torch.equal(read(model, inputs)[0], expected[0]) and model.forward == packed._read


def test_blocks_by_hand():
    packing = layers.in_blocks(batch((2, 30, 1, 31))["attention_mask"])
    assert [block[:2] for block in packing.blocks] == [(2, 2), (2, 31)]
    assert packing.places.tolist() == [62, 63, 0, 1, *range(31, 62), *range(93, 124)]
    [_, _, first], [_, _, second] = packing.blocks
    assert (first < 0).squeeze().tolist() == [[False, True], [False, False]]
    assert (second < 0).sum(dim=-1).flatten().tolist() == [5, 0]  # the hole of 4 tokens, and the end
    equal = layers.in_blocks(torch.ones(3, 4))
    assert equal.blocks == ((3, 4, None),) and len(equal.places) == 12


def test_attentions_are_tried_before_a_training():
    exact = attend_alone
    assert layers.is_exact(exact, "cpu")
    assert not layers.is_exact(
        lambda q, k, v, *rest: exact(q, k.roll(1, 0), v, *rest), "cpu"
    )  # others' tokens
    assert not layers.is_exact(lambda q, k, v, *rest: exact(q, k, v.detach(), *rest), "cpu")  # gradients
    assert not layers.is_exact(layers._attend_flash, "cpu")  # it raises


def test_features_get_their_packings():
    inputs = {"pieces": [batch(), batch((4, 9))], "mask": torch.ones(2)}
    given = layers.with_packings(inputs, BACK_TO_BACK)
    bounds = [piece[layers.PACKING].bounds.tolist() for piece in given["pieces"]]
    assert bounds[1] == [0, 4, 9] and len(bounds[0]) == len(LENGTHS) + 1 and given.keys() == inputs.keys()
    moved = send_to_device(given, "meta")["pieces"][1][layers.PACKING]
    assert moved.places.is_meta and moved.bounds.is_meta and moved.longest == 5


# --- dropout and casts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "p"), [(torch.float32, 0.1), (torch.bfloat16, 0.5), (torch.float32, 0.003)]
)
def test_masks_of_dropout_have_their_share_of_zeros(dtype, p):
    torch.manual_seed(5)
    first, second = (dropout_mask(torch.empty(999, 1001, dtype=dtype), p) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(dropout_mask(torch.empty(999, 1001, dtype=dtype), p), first)
    for mask in (first, second):
        assert mask.dtype == dtype
        assert mask.unique().tolist() == [0, pytest.approx(1 / (1 - p), rel=4e-3)]
        zeros = (mask == 0).double()
        assert zeros.mean().item() == pytest.approx(p, rel=0.03)
        assert max(zeros.mean(dim=d).std().item() for d in (0, 1)) < 1.1 * (p / 999) ** 0.5
    both = ((first == 0) & (second == 0)).double().mean().item()
    assert both == pytest.approx(p * p, rel=0.2, abs=5e-5)


def test_a_step_on_a_cpu_is_torchs_own_but_for_its_draws():
    x, weights = torch.randn(2, 6, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    found = []
    for context in (torch.enable_grad(), QuickOnCpu()):
        with context, torch.autocast("cpu", torch.bfloat16):
            kept = [functional.dropout(x, 0.0), functional.dropout(x, 0.5, training=False)]
            y = functional.linear(kept[0], weights) + functional.linear(kept[0], 2 * weights)
            lost = functional.dropout(x, 1.0)
        found.append([*kept, y, lost, *torch.autograd.grad(y.float().square().sum(), weights)])
    for own, expected in zip(*found, strict=True):
        assert torch.equal(own, expected)
    with QuickOnCpu():
        dropped = functional.dropout(x, 0.5)
    [gradient] = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(dropped, x * gradient) and set(gradient.unique().tolist()) == {0, 2}
