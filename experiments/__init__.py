"""The laboratory: what makes the figures in docs/, on top of Linkseek. It is in the checkout only.

NAME.toml                a table of a paper or of docs/: python -m experiments NAME
tables/                  how tables are made: cells, steps, driver, documents
records/                 tables that were made, as records; docs/ is compared with them
packing/                 test collections from their publishers' files: python -m experiments pack
convert.py               checkpoints of DPR and HLP as folders: python -m experiments convert
shrink.py                smaller static encoders: python -m experiments shrink
sweep.py                 one training with several settings: python -m experiments sweep
studies/                 questions that no table of pipelines x test sets answers, each with its own command
readers/, baselines/     formats and re-rankers of the papers, and measures.py a measure
pipelines/               kinds of pipelines: hops by a rule, adaptive and lexical re-ranking, run files;
                         graphs in the place of links, as controls
testsets/                test sets in their own formats

Importing it adds its readers, re-rankers, pipelines, measures and test sets to Linkseek; with
LINKSEEK_PLUGINS=experiments every command has them.
"""

from __future__ import annotations

from pathlib import Path

from experiments import readers, testsets
from experiments.baselines import BASELINE
from experiments.measures import add_measures
from experiments.pipelines.adaptive import AdaptiveEntry
from experiments.pipelines.controls import add_graphs
from experiments.pipelines.lexical import Bm25RerankEntry, QueryLikelihoodRerankEntry
from experiments.pipelines.recorded_runs import RunEntry
from experiments.pipelines.rule_hops import RuleHopsEntry
from linkseek.plugins import add_kind, add_pipeline_kind, add_readers, add_test_sets

add_graphs()
add_readers(readers)
add_kind(BASELINE)
add_pipeline_kind(RuleHopsEntry)
add_pipeline_kind(AdaptiveEntry)
add_pipeline_kind(RunEntry)
add_pipeline_kind(Bm25RerankEntry)
add_pipeline_kind(QueryLikelihoodRerankEntry)
add_measures()
add_test_sets(Path(testsets.__file__).parent)
