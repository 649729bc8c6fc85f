"""Losses against numbers computed by hand, and gradients in pieces against those of the whole batch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from linkseek.reranker.training.group_loss import LOSSES, TAUGHT, batch_loss, lce, pointwise, with_teacher

E = math.e


def test_the_worked_example():
    scores, mask = torch.tensor([[1.0, 0.0, 0.5]]), torch.ones(1, 3, dtype=torch.bool)
    root = math.sqrt(E)
    by_hand = {
        "lce": math.log(E + 1 + root) - 1,
        "pointwise": (math.log(1 + 1 / E) + math.log(2) + math.log(1 + root)) / 3,
        "hinge": (0 + 0.5) / 2,
    }
    for (kind, loss), printed in zip(LOSSES.items(), (0.6803, 0.6601, 0.25), strict=True):
        assert loss(scores, mask).item() == pytest.approx(by_hand[kind], abs=1e-6)
        assert by_hand[kind] == pytest.approx(printed, abs=1e-4)


def test_the_worked_example_with_a_teacher():
    scores, mask = torch.tensor([[1.0, 0.0, 0.5]]), torch.ones(1, 3, dtype=torch.bool)
    goals = torch.tensor([[2.0, 0.0, 1.0]])
    of_teacher, own = ([math.exp(value) for value in values] for values in ((2, 0, 1), (1, 0, 0.5)))
    shares = [(q / sum(of_teacher), p / sum(own)) for q, p in zip(of_teacher, own, strict=True)]
    by_hand = {"kl": sum(q * math.log(q / p) for q, p in shares), "margin": (1**2 + 0.5**2) / 2}
    for (kind, loss), printed in zip(TAUGHT.items(), (0.0602, 0.625), strict=True):
        assert loss(scores, mask, goals).item() == pytest.approx(by_hand[kind], abs=1e-6)
        assert by_hand[kind] == pytest.approx(printed, abs=1e-4)
        assert loss(scores + 3, mask, scores).item() == pytest.approx(0, abs=1e-6)  # differences alone count
        mixed = with_teacher(lce, loss, 0.25)(scores, mask, goals)
        assert mixed.item() == pytest.approx(0.75 * lce(scores, mask).item() + 0.25 * by_hand[kind], abs=1e-6)


@pytest.mark.parametrize("kind", [*LOSSES, *TAUGHT])
def test_a_blank_place_counts_for_nothing(kind):
    scores = torch.tensor([[1.0, -0.5, 7.0], [0.3, 0.1, 0.2]], requires_grad=True)
    goals = torch.tensor([[1.0, 0.5, 0.0], [0.9, -0.4, 0.1]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    loss, given = (LOSSES | TAUGHT)[kind], [mask, goals][: 1 + (kind in TAUGHT)]
    found = loss(scores, *given)
    alone = loss(scores[:1, :2], *(of_groups[:1, :2] for of_groups in given))
    assert found[0].item() == pytest.approx(alone.item(), abs=1e-6)
    found.sum().backward()
    assert scores.grad[0, 2] == 0 and (scores.grad[1] != 0).all()


def test_lce_knows_only_differences_and_pointwise_also_how_high():
    scores, mask = torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool)
    torch.testing.assert_close(lce(scores, mask), lce(scores + 3, mask))
    assert (pointwise(scores, mask) - pointwise(scores + 3, mask)).abs().item() > 1


# --- in pieces -------------------------------------------------------------------------------------


class Scores(nn.Module):
    """Two layers on tokens, as anything that gives {"scores": [P, 1]}."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embeddings = nn.Embedding(50, 8)
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
        self.calls = 0

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        self.calls += 1
        return {"scores": self.layers(self.embeddings(features["input_ids"]).mean(dim=1))}


SIZES = [4, 2, 4, 3]  # pairs of each group, of four places
MASK = torch.arange(4) < torch.tensor(SIZES)[:, None]
IDS = torch.randint(0, 50, (sum(SIZES), 6), generator=torch.Generator().manual_seed(1))


def in_pieces(lengths: list[int]) -> list[dict[str, Tensor]]:
    assert sum(lengths) == len(IDS)
    return [{"input_ids": ids} for ids in IDS.split(lengths)]


GOALS = torch.randn(MASK.shape, generator=torch.Generator().manual_seed(2))
ALL = LOSSES | {kind: with_teacher(lce, taught, 0.5) for kind, taught in TAUGHT.items()}


def gradients(model: nn.Module, lengths: list[int], kind: str) -> tuple[float, list[Tensor]]:
    model.zero_grad()
    goals = GOALS if kind in TAUGHT else None
    loss, added = batch_loss(model, in_pieces(lengths), MASK, ALL[kind], goals)
    assert added == 0
    loss.backward()
    return loss.item(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("lengths", "passes"),
    [([4, 2, 4, 3], 1), ([6, 7], 1), ([5, 5, 3], 2), ([1] * 13, 2), ([3, 10], 2)],
    ids=str,
)
def test_split_over_micro_batches_value_and_gradients_are_those_of_the_whole_batch(kind, lengths, passes):
    model = Scores()
    value, expected = gradients(model, [13], kind)
    model.calls = 0
    found, pieces = gradients(model, lengths, kind)
    assert model.calls == passes * len(lengths)
    assert found == pytest.approx(value, abs=1e-6)
    moved = [tensor.abs().max() > 1e-4 for tensor in expected]  # not vacuous
    assert all(moved[:-1]) and moved[-1] == (kind == "pointwise")  # LCE knows no common offset
    for mine, theirs in zip(pieces, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


def test_the_second_pass_drops_out_what_the_first_did():
    model = Scores(dropout=0.5).train()
    torch.manual_seed(9)
    value, found = gradients(model, [5, 5, 3], "lce")
    after = torch.rand(1)
    torch.manual_seed(9)
    model.zero_grad()
    scores = torch.cat([model(piece)["scores"].view(-1) for piece in in_pieces([5, 5, 3])])
    placed = torch.zeros(MASK.shape).masked_scatter(MASK, scores)
    direct = lce(placed, MASK).mean()
    direct.backward()
    assert value == pytest.approx(direct.item(), abs=1e-6)
    for mine, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, atol=1e-6, rtol=1e-5)
    assert torch.rand(1) == after  # and the generator stands where one pass leaves it


def test_in_bfloat16_the_second_pass_has_gradients_too():
    model = Scores()
    with torch.autocast("cpu", torch.bfloat16):
        value, expected = gradients(model, [13], "lce")
        found, pieces = gradients(model, [5, 5, 3], "lce")
    assert found == pytest.approx(value, abs=2e-2)
    for mine, theirs in zip(pieces, expected, strict=True):
        assert (mine.abs().max() > 1e-3) == (theirs.abs().max() > 1e-3)
        torch.testing.assert_close(mine, theirs, atol=3e-2, rtol=0.1)
    assert sum(float(tensor.abs().max()) > 1e-3 for tensor in pieces) >= 4


def test_a_score_that_is_no_number_makes_the_loss_none():
    model = Scores()
    with torch.no_grad():
        model.embeddings.weight[IDS[6, 0]] = torch.nan
    loss, _ = batch_loss(model, in_pieces([4, 2, 4, 3]), MASK, lce)
    assert not torch.isfinite(loss)
