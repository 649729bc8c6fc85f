"""Building an index: one corpus through its stages, each reused where nothing has changed.

    documents -> passages -> links
                          -> bm25
                          -> vectors -> dense     (for one encoder after another)

The stages after passages run at the same time: links and a part of Lucene's work keep one core busy, encoding
uses a GPU or the other cores. Every stage is a part of the workspace (`indexer.store.artifacts`) with a
fingerprint of its inputs, by content: an interrupted build, or one that is run again with one more encoder,
makes only the missing parts.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from linkseek.indexer.building.filling import PartSource
from linkseek.indexer.building.plan import BuildPlan, Built, OpenEncoder, documents_inputs
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.passages import Cutting
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.extras import installed_versions
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import BM25, DOCUMENTS, LINKS, PASSAGES, vector_part
from linkseek.indexer.store.manifests import (
    FORMAT_VERSION,
    AllDocuments,
    CorpusRecord,
    Counts,
    DocumentsPart,
    IndexManifest,
    LinksPart,
    PassagesPart,
    TextRecord,
)


def build_index(
    index: Path, plan: BuildPlan, open_encoder: OpenEncoder, reader: Reader | None = None
) -> Built:
    """Build `index`, replacing an existing index, which stays intact until then.

    open_encoder: (name, with titles) -> encoder; called once for each of `plan.encoders`. reader: for a
    corpus that is not at the path `plan.corpus`, such as documents in memory. Raises `InputError` for a bad
    corpus, `UsageError` for options that do not fit, `BusyError` if another build works on the same index.
    After any error the finished parts are kept for next time.
    """
    reader, cutting, index = open_corpus(index, plan, reader)
    with Workspace(index, fresh=plan.fresh) as workspace:
        stages = Stages(workspace, plan)
        workspace.check_not_updated()
        documents = stages.documents(documents_inputs(reader), partial(stages.read, reader))
        plan = stages.decide_language(reader)
        passages = stages.passages(documents, cutting)
        plan = stages.decide(passages)
        source = PartSource(plan, stages.store(passages), workspace.index_in_use())
        links = stages.after_passages(documents, passages, open_encoder, source)
        parts = [DOCUMENTS, PASSAGES, LINKS, *[BM25] * plan.bm25, *map(vector_part, plan.encoders)]
        retained = workspace.reuse_others(
            lambda fingerprint: (
                fingerprint.get("passages") == passages.content_sha256
                and fingerprint.get("title", plan.title) == plan.title
                and ("encoder" in fingerprint or fingerprint.get("language", ENGLISH) == plan.language)
            ),
            but=parts,
        )
        more: dict[str, Any] = {"language": plan.language} if plan.language != ENGLISH else {}
        more |= {"headings": True} if cutting.headings else {}
        manifest = publish(
            workspace,
            plan.command,
            (documents, passages, links),
            parts=parts + retained,
            corpus=corpus_record(reader, documents, plan.base_url),
            text=TextRecord(
                title=plan.title, passage_words=cutting.words, min_words=cutting.min_words, **more
            ),
            default_encoder=stages.default_encoder(parts + retained),
        )
    return Built(manifest, stages.times, workspace.reused, retained)


def corpus_record(reader: Reader, documents: DocumentsPart, base_url: str) -> CorpusRecord:
    """The record of the corpus of an index of one."""
    return CorpusRecord(
        file=reader.path.name or reader.path.resolve().name,
        format=reader.name,
        bytes=documents.fingerprint["bytes"],
        sha256=documents.source_sha256,
        **({"base_url": base_url} if base_url else {}),
    )


def publish(
    workspace: Workspace,
    command: str,
    made: tuple[AllDocuments, PassagesPart, LinksPart],
    *,
    parts: Sequence[str],
    **entries: Any,
) -> IndexManifest:
    """Replace the index in use by these parts; their manifest. entries: more of its values."""
    documents, passages, links = made
    packages = ("linkseek", "numpy", "pyarrow", "torch", "sentence-transformers", "openvino", "pyserini")
    versions = {"format": str(FORMAT_VERSION), "python": platform.python_version()}
    manifest = IndexManifest(
        format_version=FORMAT_VERSION,
        parts=tuple(parts),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        versions=versions | installed_versions(packages),
        counts=Counts(
            documents=documents.documents,
            redirects=documents.redirects,
            passages=passages.passages,
            **links.counts.to_json(),
        ),
        skipped=documents.skipped,
        deleted_rows=(),
        **entries,
    )
    workspace.publish(manifest)
    return manifest


def open_corpus(index: Path, plan: BuildPlan, reader: Reader | None = None) -> tuple[Reader, Cutting, Path]:
    """The reader, how its documents are cut, and the index's full path.

    Raises `UsageError` for options that do not fit, `InputError` for a corpus of no known format.
    """
    index = index.resolve()
    if reader is None:
        reader = open_reader(plan.corpus, plan.format, plan.reading)
        check_apart(plan.corpus.resolve(), index)
    else:
        reader.choices = plan.reading
    words = reader.passage_words if plan.passage_words is None else plan.passage_words
    min_words = words // 5 if plan.min_words is None else plan.min_words
    if min_words and min_words >= words:
        raise UsageError(f"--min-words {min_words}: passages have {words} words", "Give fewer, or 0.")
    if len({vector_part(name) for name in plan.encoders}) < len(plan.encoders):
        raise UsageError("two encoders have the same name", "Each needs a folder name of its own.")
    headings = reader.headings if plan.headings == "auto" else plan.headings == "on"
    return reader, Cutting(words, min_words, headings and words > 0), index


def check_apart(corpus: Path, index: Path) -> None:
    """Raises `UsageError` if one of two full paths is inside the other."""
    around = corpus.is_dir() and corpus in (index, *index.parents)
    if around or (index.name and index in corpus.parents):
        raise UsageError(
            f"--index {index}: the corpus {corpus} is inside it, or contains it",
            "Choose an --index outside the corpus.",
        )
