"""The laboratory's door, and what it adds to Linkseek, in every process."""

from __future__ import annotations

import json
import os

import pytest

from experiments import __main__ as door
from experiments.baselines import BASELINE
from experiments.baselines.folders import BASELINES
from linkseek import __main__ as linkseek
from linkseek.indexer.program.errors import UsageError
from linkseek.reranker.kinds import kind_named
from tests.support.command import ROOT, python

HLP = {"River_0": {"text": "A <SOE> lake <EOE> .", "mentions": ["lake"], "linkouts": ["Lake"]}}


LISTED = """
from contextlib import suppress
from linkseek.app.evaluation.measures import parse_measure
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.readers.formats import all_readers
from linkseek.reranker.kinds import kind_named

finds = dict.fromkeys(("jsonl", "hlp", "harp"), all_readers().get)
for name, find in {**finds, "knrm": kind_named, "LETOR-nDCG@1": parse_measure}.items():
    with suppress(ValueError, UsageError):
        print(end=f"{name} " * (find(name) is not None))
"""


@pytest.mark.parametrize(("plugins", "more"), [("", ""), (" experiments,", " hlp harp knrm LETOR-nDCG@1")])
def test_formats_rerankers_and_measures_of_the_papers_come_by_the_plug_in_alone(plugins, more):
    done = python("-c", LISTED, LINKSEEK_PLUGINS=plugins)
    assert done.stdout.strip() == f"jsonl{more}", done.stderr


def test_a_plug_in_that_is_not_there_is_named(tmp_path):
    options = ("build", "--corpus", ROOT / "docs", "--index", "i", "--no-dense")
    done = python("-m", "linkseek", *options, cwd=tmp_path, LINKSEEK_PLUGINS="expirements")
    assert done.returncode == UsageError.exit_code and "Traceback" not in done.stderr
    assert "LINKSEEK_PLUGINS: expirements cannot be imported" in done.stderr


def test_the_door_builds_an_index_of_a_papers_format(tmp_path):
    (tmp_path / "wiki_00.json").write_text(json.dumps(HLP))
    options = ("build", "--corpus", "wiki_00.json", "--index", "i", "--no-dense", "--no-bm25")
    refused = python("-m", "linkseek", *options, cwd=tmp_path, LINKSEEK_PLUGINS="")
    assert refused.returncode != 0 and "unknown format" in refused.stderr
    done = python("-m", "experiments", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "i" / "manifest.json").read_text())["counts"]["documents"] == 1


def test_kinds_of_rerankers_have_the_names_of_their_models():
    assert set(BASELINE.names) == BASELINES.keys()
    assert all(kind_named(name) is BASELINE for name in BASELINES) and kind_named("cross-encoder") is None
    with pytest.raises(ValueError, match="no such kind of re-ranker; there are: cross-encoder, knrm"):
        kind_named("knmr")


@pytest.mark.parametrize("word", linkseek.LABORATORY)
def test_linkseek_says_where_the_laboratorys_commands_are(word):
    with pytest.raises(UsageError, match=f"no command {word}") as caught:
        linkseek.main([word])
    assert "python -m experiments" in caught.value.hint


def test_processes_of_commands_inherit_the_plug_in(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "x")
    monkeypatch.delenv("LINKSEEK_PLUGINS", raising=False)
    door.inherit_plugins()
    assert os.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}x"
    assert os.environ["LINKSEEK_PLUGINS"] == "experiments"
