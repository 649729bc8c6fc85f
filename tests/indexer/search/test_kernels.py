"""The Triton kernels next to plain products; on a CPU by Triton's interpreter, where Triton is installed."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton comes with torch for NVIDIA GPUs alone")


@pytest.mark.parametrize(("count", "dimension", "asked", "group"), [(300, 96, 5, 16), (128, 64, 64, 8)])
def test_the_kernels_have_the_numbers_of_plain_products(count, dimension, asked, group, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    from linkseek.indexer.search.kernels import group_maxima, scores_of

    torch.manual_seed(1)
    vectors = torch.randn(count, dimension).half()
    queries = torch.randn(asked, dimension)
    rows = torch.randint(count, (asked, 11))
    products = vectors.float() @ queries.T
    torch.testing.assert_close(scores_of(vectors, queries, rows), products.T.gather(1, rows))
    found = group_maxima(vectors, queries.half(), group).float()
    for place, best in enumerate(found):
        own = (vectors.float() @ queries.half().float().T)[place * group : (place + 1) * group].amax(0)
        torch.testing.assert_close(best, own, atol=0.02, rtol=0.002)
