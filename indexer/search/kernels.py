"""Two steps of exact search as Triton kernels: products with the largest of each group, and scores of rows.

`exact` uses them where they have the numbers of its steps in torch in less time. They need Triton, which
comes with torch for NVIDIA GPUs; `TRITON_INTERPRET=1` runs them on a CPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _COLUMNS, _DEPTH, _PLACES = 128, 64, 64, 16


@triton.jit  # type: ignore[untyped-decorator]
def _maxima(
    vectors: Any, queries: Any, out: Any, count: Any, dimension: Any, columns: Any,
    group: tl.constexpr, block_rows: tl.constexpr, block_columns: tl.constexpr, block_depth: tl.constexpr,
) -> None:  # fmt: skip
    blocks = tl.cdiv(columns, block_columns)  # neighbours share rows of vectors, which are then in the cache
    first = tl.program_id(0) // blocks
    rows = (first * block_rows + tl.arange(0, block_rows)).to(tl.int64)[:, None]
    places = (tl.program_id(0) % blocks * block_columns + tl.arange(0, block_columns))[None, :]
    sums = tl.zeros((block_rows, block_columns), tl.float32)
    for start in range(0, dimension, block_depth):
        depth = start + tl.arange(0, block_depth)
        across, down = depth[None, :], depth[:, None]
        x = tl.load(vectors + rows * dimension + across, (rows < count) & (across < dimension), 0.0)
        q = tl.load(queries + places * dimension + down, (places < columns) & (down < dimension), 0.0)
        sums += tl.dot(x, q)
    sums = tl.where(rows < count, sums, float("-inf"))
    best = tl.max(tl.reshape(sums, (block_rows // group, group, block_columns)), axis=1)
    groups = (first * (block_rows // group) + tl.arange(0, block_rows // group)).to(tl.int64)[:, None]
    is_one = (groups * group < count) & (places < columns)
    tl.store(out + groups * columns + places, best.to(out.dtype.element_ty), is_one)


@triton.jit  # type: ignore[untyped-decorator]
def _dots(
    vectors: Any, queries: Any, rows: Any, out: Any, dimension: Any, width: Any,
    block: tl.constexpr, block_depth: tl.constexpr,
) -> None:  # fmt: skip
    query = tl.program_id(0)
    places = tl.program_id(1) * block + tl.arange(0, block)
    row = tl.load(rows + query * width + places, places < width, 0)[:, None]
    sums = tl.zeros((block,), tl.float32)
    for start in range(0, dimension, block_depth):
        depth = start + tl.arange(0, block_depth)
        x = tl.load(vectors + row * dimension + depth[None, :], depth[None, :] < dimension, 0.0)
        q = tl.load(queries + query * dimension + depth, depth < dimension, 0.0)
        sums += tl.sum(x.to(tl.float32) * q[None, :], axis=1)
    tl.store(out + query * width + places, sums, places < width)


def group_maxima(vectors: Tensor, directions: Tensor, group: int) -> Tensor:
    """The largest score in each group of rows, [groups, q]; float16 vectors [N, d], directions [q, d]."""
    count, dimension = vectors.shape
    columns = len(directions)
    out = vectors.new_empty(triton.cdiv(count, group), columns)
    grid = (triton.cdiv(count, _ROWS) * triton.cdiv(columns, _COLUMNS),)
    sizes = count, dimension, columns, group, _ROWS, _COLUMNS, _DEPTH
    _maxima[grid](vectors, directions.contiguous(), out, *sizes)
    return out


def scores_of(vectors: Tensor, queries: Tensor, rows: Tensor) -> Tensor:
    """The float32 scores [q, c] of rows, int64 [q, c], of float16 vectors [N, d]; queries float32 [q, d]."""
    out = torch.empty(rows.shape, dtype=torch.float32, device=rows.device)
    grid = len(rows), triton.cdiv(rows.shape[1], _PLACES)
    _dots[grid](vectors, queries, rows, out, vectors.shape[1], rows.shape[1], _PLACES, _DEPTH)
    return out
