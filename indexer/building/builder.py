"""Building an index: one corpus through its stages, each taken over where nothing has changed.

    documents -> passages -> links
                          -> bm25
                          -> vectors -> dense     (for one encoder after another)

What follows on the passages runs at the same time: links and a part of Lucene's work keep one core busy,
encoding takes a GPU or the other cores. Every stage is a part of the workspace (`indexer.store.artifacts`)
with
a fingerprint of what it is made from, by content: a build that was interrupted, or is run again with one
more encoder, does only what is missing.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from indexer.base.errors import UsageError
from indexer.building.stages import Stages
from indexer.building.workspace import Workspace
from indexer.encoding.encode import Encoder, Share
from indexer.encoding.shards import Shard
from indexer.readers.formats import open_reader
from indexer.readers.reader import Reader
from indexer.search.faiss_index import FLAT
from indexer.store.artifacts import (
    BM25,
    DOCUMENTS,
    FORMAT_VERSION,
    LINKS,
    PASSAGES,
    Manifest,
    dense_part,
)

OpenEncoder = Callable[[str, bool], Encoder]
"""(name, whether passages are read with their titles) -> the encoder."""


@dataclass(frozen=True)
class Plan:
    """What to build. The names are those of the command's options, which explain them."""

    corpus: Path
    format: str | None = None
    passage_words: int | None = None
    limit: int | None = None
    on_error: str = "stop"
    title: bool = True
    bm25: bool = True
    encoders: Sequence[str] = ()
    faiss: str = FLAT
    processes: int | None = None
    fresh: bool = False
    command: str = ""


@dataclass
class Built:
    """What came out: the manifest, when each stage ran, and which were taken over.

    times: (start, end) of a stage in seconds since the build began; stages overlap.
    """

    manifest: Manifest
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    taken_over: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> dict[str, float]:
        """How long each stage took, in the order in which they began."""
        order = sorted(self.times, key=lambda name: self.times[name])
        return {name: self.times[name][1] - self.times[name][0] for name in order}


def build_index(index: Path, plan: Plan, open_encoder: OpenEncoder) -> Built:
    """Build `index` and put it in the place of what was there; what was there stays whole till then.

    open_encoder: (name, with titles) -> encoder; called once for each of `plan.encoders`.
    Raises `InputError` for a bad corpus, `UsageError` for options that do not fit, `BusyError` if
    another build works on the same index. After any error the finished parts are kept for next time.
    """
    reader, words, index = _begin(index, plan)
    with Workspace(index, fresh=plan.fresh) as workspace:
        stages = Stages(workspace, plan)
        documents = stages.documents(reader)
        passages = stages.passages(documents, words)
        links = stages.after_passages(documents, passages, open_encoder)
        parts = [DOCUMENTS, PASSAGES, LINKS, *[BM25] * plan.bm25, *map(dense_part, plan.encoders)]
        kept = workspace.take_over_others(
            lambda fingerprint: (
                fingerprint.get("passages") == passages["content_sha256"]
                and fingerprint.get("title", plan.title) == plan.title
            ),
            parts,
        )
        dense = [part for part in parts + kept if part.startswith("dense/")]
        manifest = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": plan.command,
            "versions": _versions(),
            "corpus": {
                "file": plan.corpus.name or plan.corpus.resolve().name,
                "format": reader.name,
                "bytes": documents["fingerprint"]["bytes"],
                "sha256": documents["source_sha256"],
            },
            "text": {"title": plan.title, "passage_words": words},
            "counts": {
                "documents": documents["documents"],
                "redirects": documents["redirects"],
                "passages": passages["passages"],
                **links["counts"],
            },
            "skipped": documents["skipped"],
            "default_encoder": dense[0].partition("/")[2] if dense else None,
            "deleted_rows": [],
        }
        workspace.publish(manifest, parts + kept)
    return Built(manifest, stages.times, workspace.taken_over, kept)


def encode_share(index: Path, plan: Plan, open_encoder: OpenEncoder, share: Share) -> dict[str, list[Shard]]:
    """Encode the i-th of n shares of the shards and leave them in the workspace, for `indexer.join`.

    The shards of each part of vectors by its name. Documents and passages are made as for `build_index`, of
    which it raises the errors, and nothing else.
    """
    reader, words, index = _begin(index, plan)
    with Workspace(index, fresh=plan.fresh) as workspace:
        stages = Stages(workspace, plan)
        passages = stages.passages(stages.documents(reader), words)
        return {dense_part(n): stages.share(passages, n, open_encoder, share) for n in plan.encoders}


def _begin(index: Path, plan: Plan) -> tuple[Reader, int, Path]:
    """The reader, the words of a passage, and the index's full path."""
    reader = open_reader(plan.corpus, plan.format)
    words = reader.passage_words if plan.passage_words is None else plan.passage_words
    if len({dense_part(name) for name in plan.encoders}) < len(plan.encoders):
        raise UsageError("two encoders of the same name", "Each needs a folder name of its own.")
    index = index.resolve()
    index.parent.mkdir(parents=True, exist_ok=True)
    return reader, words, index


def _versions() -> dict[str, str]:
    names = ("linkseek", "numpy", "pyarrow", "torch", "sentence-transformers", "openvino", "pyserini")
    return {"format": str(FORMAT_VERSION), "python": platform.python_version()} | {
        name: version(name) for name in names
    }
