"""python -m experiments known-items: Kendall's tau by hand, and the cells of its table."""

import numpy as np
import pytest

from experiments.studies import known_items as script


def test_tau_by_hand():
    """Means .1 .2 .3 and .2 .1 .3: of three pairs two agree, (2 - 1) / 3."""
    a, b = (np.array(means)[:, None] for means in ((0.1, 0.2, 0.3), (0.2, 0.1, 0.3)))
    assert script.tau(a, b) == pytest.approx(1 / 3) and script.tau(a, -a) == -1


def test_the_table_and_its_sums():
    kind = {"tau": 0.5, "low": 0.25, "high": 1.0, "told_apart": 3, "alike": 2, "contradicted": 1}
    row = {"index": "i", "questions": "q", "n": 1000, "titles": kind}
    assert script.line(row) == "| i, q | 1,000 | - | - | 0.50 (0.25 to 1.00); 2 of 3, 1 |"
    rows = [row, row | {"titles": kind | {"tau": -0.5}}, row | {"anchors": kind}]
    assert [*script.summary(rows)] == [
        "anchors: tau 0.50 over 1; 2 of 3 pairs alike, 1 not",
        "titles: tau 0.17 over 3; 6 of 9 pairs alike, 3 not",
    ]
