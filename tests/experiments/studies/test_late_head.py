"""The layer over token vectors: its scores and its start, by hand."""

import torch

from experiments.studies.late_head import components, maxsim


def test_scores_and_components_by_hand() -> None:
    query, short = torch.tensor([[1.0, 0], [0, 1]]), torch.tensor([[0.5, 0.25]])
    assert maxsim(query, [short, torch.tensor([[1.0, 0], [0, 0.5]])]).tolist() == [0.375, 0.75]
    assert components(torch.tensor([[0, 1.0], [3, 0]]), 1).abs().tolist() == [[1, 0]]
