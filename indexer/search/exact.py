"""Exact search in torch, for GPUs: blocked matrix products, then the best groups of rows again in float32.

    1. scores in half precision, a block of rows at a time; of each 16 rows only the largest is kept
    2. the groups with the largest of these, a few more than k
    3. all rows of these groups in float32; the k best, equal ones by row

Step 1 reads each vector once and takes nearly all of the time. Its rounding loses no hit: the error of a
score in half precision is bounded, and while a row of another group could be among the k best, step 2 takes
four times as many groups. So the result equals an exact float32 search over the same float16 vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linkseek.indexer.program.errors import DamagedIndexError, MachineError, log_line
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.search.faiss_tools import checked_queries

if TYPE_CHECKING:  # its imports are not installed wherever this file is measured
    from linkseek.indexer.encoding.shards import ShardRows

_GROUP = 16  # rows
_MORE_GROUPS = 32
_MAX_QUERIES = 512  # at a time
_TILE = 32 << 20  # bytes of scores at a time: about the size of a GPU's cache
_BLOCK = {"cpu": 64 << 20, "cuda": 512 << 20}  # bytes of vectors at a time
_RESERVE = 2 << 30  # bytes of a GPU's memory
_PROBE = 64  # queries
_CLOSE = 2e-3  # between two products in float16, of the longest vector


class ExactSearch:
    """Vectors on one or several devices, searched by inner product."""

    def __init__(
        self,
        vectors: NDArray[np.float16] | Tensor | ShardRows,
        devices: Sequence[str],
        *,
        must_hold: bool = False,
    ) -> None:
        """vectors: float16 [N, d], in memory, memory-mapped, or a tensor that is on the only device.

        Each device gets its part of the rows, and holds it if its memory is large enough; else, and on a CPU,
        the vectors stay where they are and each search copies them in blocks, unless they must be held.
        Raises `MachineError` if they do not fit a device, `DamagedIndexError` if one is not finite.
        """
        self._dimension = vectors.shape[1]
        bounds = np.linspace(0, len(vectors), len(devices) + 1).astype(int).tolist()
        self._parts = [
            _Part(vectors, start, stop, torch.device(device), must_hold=must_hold)
            for start, stop, device in zip(bounds[:-1], bounds[1:], devices, strict=True)
            if start < stop
        ]
        self._rows = len(vectors)

    def __len__(self) -> int:
        return self._rows

    def search(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best rows: (rows int64 [Q, k], scores float32 [Q, k]); -1 and -inf in place of missing hits.

        vectors: float32 [Q, d].
        """
        vectors = checked_queries(vectors, self._dimension)
        rows = np.full((len(vectors), k), -1, np.int64)  # [Q, k]
        scores = np.full((len(vectors), k), -np.inf, np.float32)  # [Q, k]
        depth = min(k, self._rows)
        for start in range(0, len(vectors), _MAX_QUERIES):
            chunk = slice(start, start + _MAX_QUERIES)
            queries = torch.from_numpy(np.array(vectors[chunk], np.float32))  # [q, d]
            best = self._search(queries, depth)
            rows[chunk, :depth], scores[chunk, :depth] = (x.numpy() for x in best)
        return rows, scores

    def _search(self, queries: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        with torch.inference_mode():
            started = [(part, part.group_maxima(queries)) for part in self._parts]  # all devices at once
            best = [part.best(queries, maxima, depth) for part, maxima in started]
        return _best(torch.cat([r for r, _ in best], 1), torch.cat([s for _, s in best], 1), depth)


class _Part:
    """Rows [start, stop) of the vectors, on one device."""

    def __init__(
        self,
        vectors: NDArray[np.float16] | Tensor | ShardRows,
        start: int,
        stop: int,
        device: torch.device,
        *,
        must_hold: bool,
    ) -> None:
        self._vectors: Any = vectors
        self._first = self._before = start  # rows of `_vectors` before the part
        self._device = device
        self._count = stop - start
        self._dimension: int = vectors.shape[1]
        self._type = torch.float32 if device.type == "cpu" else torch.float16
        self._bytes = _BLOCK[device.type]
        if device.type == "cuda":
            # Partial sums in half precision would exceed the bound of `_slack`.
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        held = None
        if not isinstance(vectors, Tensor):
            needed, free = 2 * self._count * self._dimension + _RESERVE, _free_bytes(device)
            if needed < free:
                shape = self._count, self._dimension
                held = torch.empty(shape, dtype=torch.float16, device=device)
            elif must_hold:
                raise MachineError(
                    f"{device} has {byte_size(free)} of free memory, its vectors need {byte_size(needed)}",
                    "Use more GPUs, or search on the CPU.",
                )
        self._longest = 0.0  # length of a vector
        block = max(1, self._bytes // (4 * self._dimension))
        for start in range(0, self._count, block):
            piece = self._block(start, start + block)
            if held is not None:
                held[start : start + block] = piece
            # first, so that one that is not a number stays
            self._longest = max(float(piece.float().norm(dim=1).max()), self._longest)
        if not isfinite(self._longest):
            raise DamagedIndexError("vectors that are not finite: the index was altered", "Build it again.")
        if held is not None:
            self._vectors, self._before = held, 0
        self._kernels: Any = None
        if device.type == "cuda" and isinstance(self._vectors, Tensor):
            self._use_kernels()

    def _use_kernels(self) -> None:
        """Takes the kernels if their numbers are those of the steps in torch, and faster on this device."""
        queries = torch.randn((_PROBE, self._dimension), generator=torch.Generator().manual_seed(0))
        plain, seconds = self._timed(queries)
        try:
            from linkseek.indexer.search import kernels

            self._kernels = kernels
            found, fewer = self._timed(queries)
            is_close = torch.isclose(found, plain, rtol=0, atol=_CLOSE * self._longest).all()
            reason = "" if is_close else "they give other scores"
        except Exception as error:  # Triton is missing, or refuses this GPU in any way
            fewer, reason = inf, f"{type(error).__name__}: {error}".partition("\n")[0]
        if reason or fewer >= seconds:
            self._kernels = None
            log_line(f"exact search in steps of torch, not in kernels ({reason or 'they are slower'})")

    def _timed(self, queries: Tensor) -> tuple[Tensor, float]:
        """Scores of both steps for some queries scaled to length 1, and seconds of the second time."""
        for _ in range(2):
            started = perf_counter()
            maxima = self.group_maxima(queries)
            best = self.best(queries, maxima, min(100, self._count))[1]  # on the CPU, so it waits
            seconds = perf_counter() - started
        return torch.cat([maxima[:1024].float().cpu(), best.T / queries.norm(dim=1)]), seconds

    def _block(self, start: int, stop: int) -> Tensor:
        """Rows [start, stop) of the part, on its device, in the type of its products."""
        start, stop = start + self._before, min(stop, self._count) + self._before
        if isinstance(self._vectors, Tensor):
            return self._vectors[start:stop].to(self._device, self._type)
        return torch.from_numpy(np.array(self._vectors[start:stop])).to(self._device, self._type)

    def group_maxima(self, queries: Tensor) -> Tensor:
        """The largest score in each group of rows, [groups, q], of queries scaled to length 1."""
        directions = _directions(queries).to(self._device, self._type)  # [q, d]
        count = len(directions)
        if self._kernels is not None and count > 1:
            largest: Tensor = self._kernels.group_maxima(self._held(), directions, _GROUP)
            return largest
        if count > 1:  # GPUs are fastest with a multiple of 8 columns
            directions = torch.nn.functional.pad(directions, (0, 0, 0, -count % 8))
        size = directions.element_size()
        block = _TILE // (size * len(directions))
        held, place = self._vectors, (self._device.type, self._type)
        if not isinstance(held, Tensor) or (held.device.type, held.dtype) != place:  # a block is a copy
            block = min(block, self._bytes // (size * self._dimension))
        block = max(block // _GROUP, 1) * _GROUP
        groups = -(-self._count // _GROUP)
        maxima = torch.empty((groups, count), dtype=self._type, device=self._device)
        for start in range(0, self._count, block):
            rows = self._block(start, start + block)  # [b, d]
            if count == 1:
                scores = torch.mv(rows, directions[0])[:, None]  # [b, 1]
            else:
                scores = (rows @ directions.T)[:, :count]  # [b, q]
            full, first = len(rows) // _GROUP, start // _GROUP
            if full:
                grouped = scores[: full * _GROUP].view(full, _GROUP, count)
                torch.amax(grouped, 1, out=maxima[first : first + full])
            if len(rows) % _GROUP:
                maxima[first + full] = scores[full * _GROUP :].amax(0)
        return maxima

    def best(self, queries: Tensor, maxima: Tensor, depth: int) -> tuple[Tensor, Tensor]:
        """The best rows of each query, [q, at most depth] on the CPU, and their scores."""
        depth = min(depth, self._count)
        slack = self._slack(queries).to(self._device)  # [q]
        queries = queries.to(self._device)
        lengths = queries.norm(dim=1)  # [q]
        rows = torch.empty((len(queries), depth), dtype=torch.int64, device=self._device)
        scores = torch.empty((len(queries), depth), dtype=torch.float32, device=self._device)
        uncertain = torch.arange(len(queries), device=self._device)
        count = depth + _MORE_GROUPS
        while len(uncertain):
            count = min(count, len(maxima))
            considered = maxima if len(uncertain) == len(queries) else maxima[:, uncertain]
            largest, groups = torch.topk(considered, count, dim=0)  # [w, u]
            candidates = self._score(queries[uncertain], groups.T)
            rows[uncertain], scores[uncertain] = _best(*candidates, depth)
            if count == len(maxima):
                break
            elsewhere = (largest[-1].float() + slack[uncertain]) * lengths[uncertain]  # at most
            uncertain = uncertain[scores[uncertain, -1] <= elsewhere]
            count *= 4
        return (rows + self._first).cpu(), scores.cpu()

    def _slack(self, queries: Tensor) -> Tensor:
        """How much larger a score may be than its value in `group_maxima`, for queries of length 1, [q]."""
        exact = _directions(queries)
        rounding = 2.0**-11 if self._type == torch.float16 else 0.0  # of a score that is stored
        rounding += self._dimension * 2.0**-24  # of sums in float32
        lost = (exact - exact.to(self._type).float()).norm(dim=1)  # [q]
        slack: Tensor = (lost + 2 * rounding) * self._longest
        return slack

    def _score(self, queries: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        """All rows of the groups [u, w] and their scores in float32, [u, w * group]; -inf beyond the last."""
        rows = groups[:, :, None] * _GROUP + torch.arange(_GROUP, device=self._device)
        rows = rows.flatten(1).sort(dim=1).values  # [u, c]
        places = rows.clamp(max=self._count - 1)
        if self._kernels is not None:
            scores = self._kernels.scores_of(self._held(), queries, places)
            return rows, torch.where(rows < self._count, scores, -torch.inf)
        scores = torch.empty(rows.shape, dtype=torch.float32, device=self._device)
        width = max(1, self._bytes // (8 * self._dimension))  # vectors at a time
        step = max(1, width // rows.shape[1])  # queries at a time
        for start in range(0, len(queries), step):
            block_queries = queries[start : start + step, :, None]  # [s, d, 1]
            for low in range(0, rows.shape[1], width):
                block = slice(start, start + step), slice(low, low + width)
                scores[block] = torch.bmm(self._gather(places[block]), block_queries)[..., 0]
        return rows, torch.where(rows < self._count, scores, -torch.inf)

    def _held(self) -> Tensor:
        """The vectors of the part, on its device."""
        rows: Tensor = self._vectors[self._before : self._before + self._count]
        return rows

    def _gather(self, places: Tensor) -> Tensor:
        """Vectors of the part by row, [s, c] -> float32 [s, c, d] on its device."""
        where = (places + self._before).flatten()
        if isinstance(self._vectors, Tensor):
            # index_select copies whole rows; on a GPU, indexing finds the place of each number.
            gathered = self._vectors.index_select(0, where.to(self._vectors.device))
        else:
            gathered = torch.from_numpy(self._vectors[where.cpu().numpy()])
        return gathered.view(*places.shape, -1).to(self._device, torch.float32)


def _free_bytes(device: torch.device) -> int:
    """The memory that vectors may take; none of a CPU's, where they are mapped."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def _directions(queries: Tensor) -> Tensor:
    """Queries scaled to length 1, so that no score overflows float16."""
    lengths: Tensor = queries.norm(dim=1, keepdim=True)  # [q, 1]
    return queries / lengths.clamp(min=torch.finfo(torch.float32).tiny)


def _best(rows: Tensor, scores: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """The `depth` best of each line; equal scores stay ordered by row."""
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :depth]
    return rows.gather(1, order), scores.gather(1, order)
