"""The names that authors of plug-ins import: functions that add something, and base classes.

A plug-in is a module that LINKSEEK_PLUGINS names. As it is imported, it calls one of the functions below:

    from linkseek.plugins import add_pipeline_kind

    add_pipeline_kind(MyEntry)  # tables of that kind in any file of pipelines

`linkseek.testing` has contract tests for additions.
"""

from linkseek.app.evaluation.own_measures import OWN as MEASURES
from linkseek.app.evaluation.own_measures import OwnMeasure
from linkseek.app.pipelines.pipeline_entry import (
    FirstStage,
    OpenPipeline,
    PipelineEntry,
    PipelineParts,
    with_first_stage,
)
from linkseek.app.pipelines.pipeline_kinds import add_pipeline_kind
from linkseek.app.testsets import add_test_sets
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.formats import add_readers
from linkseek.indexer.readers.reader import Reader
from linkseek.reranker.kinds import RerankerKind, add_kind
from linkseek.retriever.learned.hop_graph import GRAPHS, StepGraph

__all__ = [
    "GRAPHS", "MEASURES", "Choices", "FirstStage", "FolderReader", "OpenPipeline", "OwnMeasure",
    "PipelineEntry", "PipelineParts", "Reader", "RerankerKind", "StepGraph", "add_kind", "add_pipeline_kind",
    "add_readers", "add_test_sets", "with_first_stage",
]  # fmt: skip
