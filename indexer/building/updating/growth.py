"""Growing an index: a build of the final corpus that encodes nothing twice.

The final corpus is the index's documents without the removed and replaced ones, in their order, followed by
the added ones. All parts are made from it in the workspace of a build, so an update is as safe as a build,
and rankings are the same as after a build of that corpus:

    documents        files that keep all their rows are linked; the added documents are new files
    passages, links  made anew from the documents: linear, and little next to encoding
    bm25             Lucene deletes and adds in a linked copy, and writes segments with deleted passages anew,
                     since its statistics would count those
    dense/NAME       vectors of passages with a text that was there are copied, others encoded; the FAISS
                     index is filled anew
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from linkseek.indexer.building.builder import publish
from linkseek.indexer.building.filling import PartSource
from linkseek.indexer.building.plan import BuildPlan, Built, OpenEncoder, Vectors, cutting_of
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, log_line
from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.artifacts import BM25, DOCUMENTS, LINKS, PASSAGES, prefix_of, vector_part
from linkseek.indexer.store.manifests import EncodedPart


def update_index(index: Path, changes: Changes, plan: BuildPlan, open_encoder: OpenEncoder) -> Built:
    """Change the documents of an index, and replace it by the result, which all of its parts follow.

    plan: of its fields only encoders (to be added), faiss (of these), base_url (if there is one), processes
    and command count.
    Raises `DamagedIndexError` if there is no index, `InputError` for a damaged record or an unknown id (with
    on_error "skip" both are skipped), `MismatchError` if a model has changed since it encoded the index,
    `BusyError` if another build works on the index. After any error the index is as it was.
    """

    def changes_to(old: OpenIndex) -> Changes:
        if not (done := old.manifest.updates) or done[-1].request != changes.request:
            return changes
        log_line(f"{index}: this update was made already")  # which was killed at its very end
        return Changes()

    return change_index(index, changes_to, plan, open_encoder)


def change_index(
    index: Path, changes_to: Callable[[OpenIndex], Changes], plan: BuildPlan, open_encoder: OpenEncoder
) -> Built:
    """As `update_index`, with the changes to the index in use."""
    open_whole(index)  # before a workspace is made next to nothing
    with Workspace(index.resolve()) as workspace:
        old = open_whole(workspace.index)
        changes = changes_to(old)
        plan = _full_plan(plan, old)
        stages = Stages(workspace, plan)
        with stages.timed("verifying"), progress(f"verifying {index}", old.bytes, "bytes") as advance:
            old.verify(advance)  # because most of it will be copied
        documents = stages.documents(changes.inputs(old), partial(changes.write, old, stages.read))
        update = changes.update(documents, workspace.folder / DOCUMENTS)
        passages = stages.passages(documents, cutting_of(old.parts.passages))
        if not changes.documents and passages.content_sha256 != old.parts.passages.content_sha256:
            raise DamagedIndexError(
                f"{old.path / PASSAGES}: not the passages of its documents: a manifest was altered",
                "Build the index again.",
            )
        source = PartSource(plan, stages.store(passages), old, update=True, merge=changes.merge)
        links = stages.after_passages(documents, passages, open_encoder, source)
        dense = [vectors.part for vectors in plan.vectors]
        default = old.manifest.default_encoder
        corpus = changes.corpus(documents, plan.base_url) or old.manifest.corpus
        manifest = publish(
            workspace,
            plan.command,
            (documents, passages, links),
            parts=[DOCUMENTS, PASSAGES, LINKS, *[BM25] * plan.bm25, *dense],
            corpus=corpus if corpus.base_url == plan.base_url else corpus.replace(base_url=plan.base_url),
            text=old.manifest.text,
            default_encoder=stages.default_encoder([*([vector_part(default)] if default else []), *dense]),
            updates=(*old.manifest.updates, *([update] if update else [])),
        )
    return Built(manifest, stages.times, workspace.reused)


def open_whole(index: Path) -> OpenIndex:
    """Open an index that has no partitions. Raises `UsageError` if it has."""
    old = OpenIndex.open(index)
    old.check_undivided()
    return old


def _full_plan(plan: BuildPlan, old: OpenIndex) -> BuildPlan:
    """The plan with everything that an index decides for its updates."""
    ours = [
        Vectors(name, prefix_of(name) + part.encoder["location"], part.fingerprint.get("factory", ""))
        for name, part in old.parts.items()
        if isinstance(part, EncodedPart)
    ]
    names = [vectors.part for vectors in ours]
    return replace(
        plan,
        corpus=old.path,
        title=old.manifest.text.title,
        language=old.language,
        base_url=plan.base_url or old.manifest.corpus.base_url,
        bm25=old.has_lucene,
        encoders=[name for name in plan.encoders if vector_part(name) not in names],
        reused=ours,
    )
