"""Encoding on a Ray cluster: actors, with an encoder each, get the texts of one missing shard after another.

    this process   sends texts, and writes the vectors that come back
    actor          one a GPU, or one a machine without GPUs; shares no file with this process

A shard has the bytes that it has without Ray, so it does not matter which actor made it, nor how often one
that died or hung was replaced (`indexer.machine.cluster`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Parallel, Texts, TokenRows
from linkseek.indexer.encoding.encode import Encoder, EncoderFacts, OnRows
from linkseek.indexer.encoding.shards import write_shard
from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.machine.cluster import Actors, ClusterQuestion, connected
from linkseek.indexer.program.errors import MachineError, log_line
from linkseek.indexer.store.manifests import Reading

_PATIENCE = 30.0


@contextmanager
def on_ray(
    address: str | None, open_encoder: Callable[[str, bool], Encoder], device: str
) -> Iterator[Callable[[str, bool], Encoder]]:
    """`open_encoder` on a Ray cluster at an address; the function itself without one.

    device: cpu for one actor per machine, even if there are GPUs. Raises the errors of `connected` and of the
    actors.
    """
    if address is None:
        yield open_encoder
        return
    actors: list[_Encoders] = []

    def open_there(name: str, title: bool) -> Encoder:
        for earlier in actors:  # whose resources the next ones need
            earlier.stop()
        actors.append(_Encoders(ray, partial(open_encoder, name, title), gpus=device != "cpu"))
        return actors[-1].encoder()

    with connected(address) as ray:
        yield open_there


class _OpenEncoder:
    """The encoder of an actor."""

    def __init__(self, open_encoder: Callable[[], Encoder]) -> None:
        self._encoder = open_encoder()

    def facts(self) -> EncoderFacts:
        return EncoderFacts.of(self._encoder)

    def reading(self, texts: Sequence[str]) -> Reading:
        return self._encoder.reading(texts)

    def encode(
        self, titles: Sequence[str], texts: Sequence[str], first: int
    ) -> tuple[EncoderFacts, NDArray[np.float32] | TokenCodes]:
        """The vectors of one shard, float32 [rows, d], or its codes. first: its first row."""
        tokens = TokenRows.of(self._encoder.tokenize_passages(titles, texts))
        return self.facts(), self._encoder.encode_rows(tokens, lambda rows: None, first)


class _Encoders:
    """The actors of one encoder."""

    def __init__(self, ray: Any, open_encoder: Callable[[], Encoder], *, gpus: bool) -> None:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
        devices = int(sum(node.get("GPU", 0) for node in nodes)) if gpus else 0
        if not devices and not cores:
            raise MachineError("--ray: the cluster has neither GPUs nor cores", "Add machines to it.")
        needs = {"num_gpus": 1, "num_cpus": 0} if devices else {"num_cpus": min(cores)}
        self._count = devices or len(cores)
        self._actors = Actors(
            ray, self._count, _OpenEncoder, [open_encoder], patience=_PATIENCE, any_first=True, **needs
        )

    def encoder(self) -> Encoder:
        """The encoder, as the first actor that has opened it describes it."""
        question = ClusterQuestion(_OpenEncoder.facts)
        opening = [self._actors.ask(question, "the encoder") for _ in range(self._count)]
        self._facts: EncoderFacts = next(as_completed(opening)).result()
        log_line(f"--ray: {self._count} encoders on the cluster")
        elsewhere = Parallel(elsewhere=self.encode)
        encoder: EncoderFacts = replace(self._facts, parallel=elsewhere, reading=self.reading)
        return encoder

    def reading(self, texts: Sequence[str]) -> Reading:
        """How the encoder reads texts. Before `encode`, which ends the actors."""
        reading: Reading = self._actors.ask(
            ClusterQuestion(_OpenEncoder.reading, (texts,)), "the encoder"
        ).result()
        return reading

    def encode(self, texts: Texts, folder: Path, missing: Sequence[int], on_rows: OnRows) -> None:
        """Write all missing shards into `folder`. Raises the first error of an actor."""
        waiting, running = deque(missing), dict[Future[tuple[EncoderFacts, NDArray[np.float32]]], int]()
        try:
            while waiting or running:
                while waiting and len(running) < 2 * self._count:
                    number = waiting.popleft()
                    running[self._ask(texts, number)] = number
                for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                    number, (facts, vectors) = running.pop(future), future.result()
                    self._check(facts)
                    write_shard(folder, number, number * facts.shard_rows, vectors)
                    on_rows(len(vectors))
                on_rows(0)  # raises if another stage has failed
        finally:
            self.stop()

    def stop(self) -> None:
        """End all actors, also those that are busy."""
        self._actors.shutdown(cancel_futures=True)

    def _ask(self, texts: Texts, number: int) -> Future[tuple[EncoderFacts, NDArray[np.float32]]]:
        first = number * self._facts.shard_rows
        stop = min(first + self._facts.shard_rows, len(texts))
        question = ClusterQuestion(_OpenEncoder.encode, (*texts.read(first, stop), first))
        return self._actors.ask(question, f"shard {number}")

    def _check(self, facts: EncoderFacts) -> None:
        if facts != self._facts:
            raise MachineError(
                f"the machines of the cluster differ: {facts.execution}, {self._facts.execution}",
                "Use machines of one kind, with the same versions and the same model.",
            )
