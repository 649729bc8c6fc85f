"""Entries of pipelines.toml, and what is made of them."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from experiments.pipelines.adaptive import AdaptiveEntry
from experiments.pipelines.rule_hops import RuleHopsEntry
from linkseek.app import search
from linkseek.app.pipelines.catalogue import Pipelines, read_pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.app.pipelines.pipeline_entry import OpenPipeline, PipelineEntry
from linkseek.app.pipelines.pipeline_kinds import KINDS, add_pipeline_kind
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.store.manifests import Reading
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.stages import recorded_stages
from linkseek.testing import check_pipeline_kind
from tests.support.rankings import ranking_of
from tests.support.tiny.index import DOCUMENTS, WordEncoder, WordScorer, build

ENTRIES = (
    "bm25 ql dense sparse hybrid-sparse hlp hlp-finetuned static hybrid hybrid-static hybrid-weighted hops "
    "best late best-static bm25-answers bm25-squad bm25-prop bm25-harp bm25-php hybrid-squad"
).split()
NEED_VECTORS = {"hlp", "hlp-finetuned", "static", "hybrid-static", "best-static", "late", "sparse"}
NEED_VECTORS |= {"hybrid-sparse"}  # of these encoders
QUERIES = [Query("1", "a river in France"), Query("2", "volcano"), Query("3", "zzz")]


def test_of_the_shipped_encoders_the_static_one_has_not_learned_from_links(monkeypatch, make_pipelines):
    monkeypatch.setattr(
        "linkseek.app.pipelines.pipeline_kinds.shipped_models", lambda: ["hlp", "linkseek-static"]
    )
    index = make_pipelines().index
    groups = {name: read_pipelines()[name].group(index) for name in ("hlp", "static", "hybrid-static")}
    assert groups == {"hlp": "Taught by links", "static": "Zero-shot", "hybrid-static": "Fused"}


def test_the_rankings_are_those_of_the_searchers(make_pipelines):
    pipelines = make_pipelines()
    assert pipelines.available() == [name for name in ENTRIES if name not in NEED_VECTORS]
    rows = {
        name: [row for row, _ in pipelines.open(name)(QUERIES, 6).results(1)]
        for name in pipelines.available()
    }
    assert sorted(rows["bm25"]) == [3, 4, 5]  # the passages with the word, and no others
    assert len(rows["dense"]) == len(DOCUMENTS)
    share = dict.fromkeys(rows["dense"], 0.0)
    for name in ("bm25", "dense"):
        for rank, row in enumerate(rows[name], start=1):
            share[row] += 1 / (60 + rank)
    assert rows["hybrid"] == sorted(share, key=lambda row: (-share[row], row))


def test_a_pipeline_and_its_encoder_are_opened_once(built_index):
    opened = []

    def open_encoder(location):
        opened.append(location)
        return WordEncoder()

    pipelines = Pipelines(OpenIndex.open(built_index), None, Models(open_encoder))
    for name in ("dense", "hybrid", "hybrid-weighted", "dense"):
        pipelines.open(name)
    assert opened == ["words"]
    assert pipelines.open("hybrid") is pipelines.open("hybrid")


def test_an_encoder_that_an_index_names_is_not_downloaded(built_index, monkeypatch):
    monkeypatch.setattr(
        "linkseek.retriever.models.locations._from_hub", lambda *_: pytest.fail("asked the Hub")
    )
    with pytest.raises(InputError, match="encoder of the index, words, is not on this machine") as caught:
        Pipelines(OpenIndex.open(built_index)).open("dense")
    assert "hf download words" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("bm25", ["search"]),
        ("dense", ["encode question", "search vectors"]),
        ("hybrid", ["search", "encode question", "search vectors", "fuse"]),
        ("hops", ["search", "encode question", "search vectors", "fuse", "follow links"]),
    ],
)
def test_stages(make_pipelines, name, stages):
    pipeline = make_pipelines().open(name)
    with recorded_stages() as seconds:
        pipeline(QUERIES, 3)
    assert list(seconds) == stages
    described = (Path(__file__).parents[3] / "docs" / "reference" / "pipelines.md").read_text("utf-8")
    assert all(f"`{name}`" in described for name in stages)
    assert all(value > 0 for value in seconds.values())


# --- files of one's own ---------------------------------------------------------------------------


def test_a_file_adds_and_replaces_entries(make_pipelines):
    pipelines = make_pipelines(
        '[bm25]\nsearcher = "bm25"\nk1 = 2.0\n[mine]\nfusion = "reciprocal-rank"\nof = ["bm25", "ql"]\n'
    )
    assert list(pipelines.entries) == [*ENTRIES, "mine"]
    assert (pipelines.entries["bm25"].k1, pipelines.entries["bm25"].b) == (2.0, 0.4)
    standard = make_pipelines().open("bm25")(QUERIES, 3).scores
    assert not np.array_equal(pipelines.open("bm25")(QUERIES, 3).scores, standard)
    assert pipelines.open("mine")(QUERIES, 3).results(0)


@pytest.mark.parametrize(
    "toml, message, hint",
    [
        ('[x]\nsearcher = "bm25"\nkl = 1', 'unknown key "kl"', "Known: b, k1, searcher."),
        ('[x]\nsearcher = "dense"\nencodr = "a"', 'unknown key "encodr"', "Did you mean encoder?"),
        (
            '[x]\nfusion = "weighted"\nof = ["ql"]\nweight = [1]',
            'unknown key "weight"',
            "Did you mean weights?",
        ),
        ('[x]\nsearcher = "bm26"', "no known searcher", 'searcher = "bm25"'),
        ("[x]\nk1 = 1", "no known searcher", 'fusion = "weighted"'),
        ('[pipelines.x]\nsearcher = "bm25"', "[pipelines] has no known searcher", 'searcher = "bm25"'),
        ('x = "bm25"', "[x] is not a table", "[name]"),
        ('[x]\nsearcher = "bm25"\nk1 = "much"', "k1: needs a number", ""),
        ('[x]\nfusion = "reciprocal-rank"\nof = []', "of: needs at least one value", ""),
        ('[x]\nfusion = "reciprocal-rank"\nof = ["ql"]\ndepth = 0', "depth: needs a whole number", ""),
        ('[x]\nfusion = "weighted"\nof = ["ql"]', "weights: missing", ""),
        ('[x]\nfusion = "weighted"\nof = ["ql"]\nweights = [1e308]', "weights.1: needs a number", ""),
        ('[x]\nsearcher = "bm25"\nk1 = 1e308', "k1: needs a number", ""),
        ('[x]\nsearcher = "query-likelihood"\nmu = nan', "mu: needs a number", ""),
        (
            '[x]\nfusion = "reciprocal-rank"\nof = ["ql"]\ndepth = 1000000000000',
            "depth: needs a whole number",
            "",
        ),
        ("[x", "Expected ']'", "TOML"),
    ],
)
def test_a_bad_entry_is_named(make_pipelines, tmp_path, toml, message, hint):
    with pytest.raises(UsageError) as caught:
        make_pipelines(toml)
    assert message in caught.value.message
    assert str(tmp_path / "pipelines.toml") in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_pipelines(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"bad\.toml"):
        read_pipelines(tmp_path / "bad.toml")


# --- what does not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize("name, hint", [("bm52", "Did you mean bm25?"), ("zzz", "Known: best, best-static")])
def test_an_unknown_pipeline(make_pipelines, name, hint):
    with pytest.raises(UsageError) as caught:
        make_pipelines().open(name)
    assert f'no pipeline "{name}"' in caught.value.message
    assert hint in caught.value.hint


def test_pipelines_that_fuse_each_other(make_pipelines):
    fused = 'fusion = "reciprocal-rank"\nof = '
    pipelines = make_pipelines(f'[a]\n{fused}["b"]\n[b]\n{fused}["bm25", "c"]\n[c]\n{fused}["a"]\n')
    assert not {"a", "b", "c"} & set(pipelines.available())
    with pytest.raises(UsageError, match="in a circle: a -> b -> c -> a"):
        pipelines.open("a")


def test_the_same_pipeline_twice_is_no_circle(make_pipelines):
    fused = 'fusion = "reciprocal-rank"\nof = '
    pipelines = make_pipelines(f'[a]\n{fused}["bm25", "b"]\n[b]\n{fused}["bm25", "ql"]\n')
    assert {"a", "b"} <= set(pipelines.available())
    assert pipelines.open("a")(QUERIES, 3).results(0)


@pytest.mark.parametrize("weights", ["[1.0]", "[1, 2, 3]", "[]"])
def test_as_many_weights_as_pipelines(make_pipelines, weights):
    pipelines = make_pipelines(f'[x]\nfusion = "weighted"\nof = ["bm25", "ql"]\nweights = {weights}\n')
    with pytest.raises(UsageError, match="2 pipelines"):
        pipelines.open("x")


def test_a_member_that_does_not_exist(make_pipelines):
    pipelines = make_pipelines('[x]\nfusion = "reciprocal-rank"\nof = ["bm25", "denze"]\n')
    assert "x" not in pipelines.available()
    with pytest.raises(UsageError, match="Did you mean dense"):
        pipelines.open("x")


@pytest.mark.parametrize(
    "plan, available",
    [
        ({"bm25": False}, ["dense"]),
        ({"encoders": ()}, "bm25 ql bm25-answers bm25-squad bm25-prop bm25-harp bm25-php".split()),
        ({"bm25": False, "encoders": ()}, []),
    ],
)
def test_an_index_without_a_part(tmp_path, plan, available):
    index = OpenIndex.open(build(tmp_path / "index", **plan))
    pipelines = Pipelines(index, None, Models(lambda _: WordEncoder(), lambda *_: WordScorer()))
    assert pipelines.available() == available
    for name in set(pipelines.entries) - set(available):
        with pytest.raises(UsageError):
            pipelines.open(name)


# --- kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, AdaptiveEntry, RuleHopsEntry], ids=lambda kind: kind.chosen_by[1])
def test_a_kind_explains_itself_and_its_keys(kind):
    check_pipeline_kind(kind)


class FirstRows(PipelineEntry):
    """The first passages of the index, whatever the question."""

    chosen_by = ("searcher", "first-rows")
    searcher: Literal["first-rows"]
    """the kind of the table"""
    score: float = 1.0
    """of the first passage"""

    def is_available(self, index):
        return len(index.passages) > 3

    def describe(self, index):
        return f"The first of {len(index.passages)} passages"

    def open(self, parts, name):
        def search(queries, k):
            return ranking_of([q.id for q in queries], [[(0, self.score)]] * len(queries), k)

        return OpenPipeline(search)


def test_a_new_kind_is_one_class(make_pipelines, monkeypatch):
    monkeypatch.setattr("linkseek.app.pipelines.pipeline_kinds._ADDED", [])
    add_pipeline_kind(FirstRows)
    pipelines = make_pipelines(
        '[first]\nsearcher = "first-rows"\nscore = 2\n'
        '[joined]\nfusion = "reciprocal-rank"\nof = ["first", "bm25"]\n'
    )
    assert {"first", "joined"} <= set(pipelines.available())
    assert pipelines.describe("first") == f"The first of {len(DOCUMENTS)} passages"
    assert pipelines.open("first")(QUERIES, 2).rows.tolist() == [[0, -1]] * 3
    assert pipelines.open("joined")(QUERIES, 6).results(2) == [(0, pytest.approx(1 / 61))]
    assert pipelines.fingerprint("joined")["first"] == {"searcher": "first-rows", "score": 2.0}
    with pytest.raises(UsageError, match='unknown key "scor"'):
        make_pipelines('[first]\nsearcher = "first-rows"\nscor = 2\n')


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", "", "a\\u0000b", "a\\nb"])
def test_a_name_that_leads_out_of_the_folder_of_runs_is_refused(make_pipelines, name):
    with pytest.raises(UsageError, match="cannot name a file"):
        make_pipelines(f'["{name}"]\nsearcher = "bm25"\n')


def test_pipelines_of_pipelines_have_a_limit(make_pipelines):
    """A chain of a thousand, a circle of as many, and thirty that each have the one before twice."""
    chain = [f'[p{n}]\nfusion = "reciprocal-rank"\nof = ["p{n + 1}", "bm25"]\n' for n in range(1000)]
    twice = [f'[p{n}]\nfusion = "reciprocal-rank"\nof = ["p{n + 1}", "p{n + 1}"]\n' for n in range(30)]
    for tables, last in ((chain, 1000), (twice, 30)):
        pipelines = make_pipelines("".join(tables) + f'[p{last}]\nsearcher = "bm25"\n')
        assert "p0" not in pipelines.available()
        with pytest.raises(UsageError, match="members are more than 50"):
            pipelines.open("p0")


@pytest.mark.parametrize(
    "encoder, available, recommended, expected",
    [
        ("words", ENTRIES, "hybrid-weighted", ("bm25", "dense", "hlp-finetuned", "best")),
        ("words", ["bm25", "dense", "hlp", "best"], "bm25", ("bm25", "dense", "hlp", "best")),
        ("words", ["bm25", "ql", "hybrid-weighted"], "hybrid-weighted", ("bm25", "hybrid-weighted")),
        (
            "linkseek-static",
            ENTRIES[ENTRIES.index("static") :],
            "hybrid-static",
            ("static", "hybrid-static", "best-static"),
        ),
        ("linkseek-static", ["dense", "static"], "dense", ("static",)),
        (None, ["bm25", "ql"], "bm25", ("bm25", "ql")),
        ("words", ["dense"], "dense", ("dense",)),
        (None, ["a", "b", "c"], "a", ("a", "b")),
        (None, [], "hybrid-weighted", ()),
    ],
)
def test_the_pipelines_of_a_first_visit(
    make_pipelines, monkeypatch, encoder, available, recommended, expected
):
    pipelines = make_pipelines()
    manifest = pipelines.index.manifest.replace(default_encoder=encoder)
    monkeypatch.setattr(pipelines.index, "manifest", manifest)
    monkeypatch.setattr(pipelines, "available", lambda: available)
    monkeypatch.setattr(pipelines, "reads", lambda name: True)
    assert (pipelines.recommended, pipelines.first_visit) == (recommended, expected)


@pytest.mark.parametrize(
    "encoder, hidden",
    [("linkseek-static", {"dense", "hybrid-weighted"}), ("hlp", {"dense"}), ("words", set())],
)
def test_what_is_the_same_on_an_index_is_offered_once(make_pipelines, monkeypatch, encoder, hidden):
    own = '[fast]\nsearcher = "dense"\nsearch = { nprobe = 2 }\n[mine]\nfusion = "weighted"\n'
    pipelines = make_pipelines(own + 'of = ["bm25", "static"]\nweights = [0.9, 0.1]\n')
    manifest = pipelines.index.manifest.replace(default_encoder=encoder)
    monkeypatch.setattr(pipelines.index, "manifest", manifest)
    names = "bm25 dense hlp static fast hybrid hybrid-static hybrid-weighted mine best best-static".split()
    assert pipelines.offered(names) == [name for name in names if name not in hidden]
    assert pipelines.offered(names, ["dense", "hybrid-weighted"]) == names
    said = pipelines.describe("hybrid-static")
    assert said.endswith("; on this index like hybrid-weighted") == ("hybrid-weighted" in hidden)


def test_no_pipeline_is_recommended_whose_models_cannot_read_the_passages(tmp_path, monkeypatch, capsys):
    path = tmp_path / "index"
    monkeypatch.setattr(WordEncoder, "reading", lambda self, texts: Reading(languages=("en",)))
    build(path, language="de")
    pipelines = Pipelines(OpenIndex.open(path))
    assert (pipelines.recommended, pipelines.first_visit) == ("bm25", ("bm25", "ql"))
    search.main(["--index", str(path), "volcano"])
    printed = capsys.readouterr()
    assert "bm25: 3 passages" in printed.out
    assert "bm25 answers instead. To add an encoder" in printed.err and f"--index {path}" in printed.err

    monkeypatch.setattr(WordEncoder, "reading", lambda self, texts: Reading(languages=("de", "fr")))
    update_index(path, Changes(), BuildPlan(path, encoders=["other"]), lambda name, title: WordEncoder())
    pipelines = Pipelines(OpenIndex.open(path))
    assert pipelines.index.manifest.default_encoder == "other"
    assert pipelines.first_visit == ("bm25", "dense", "hybrid-weighted") and not pipelines.language_note()
    assert "best: its models cannot read" in (note := pipelines.language_note("best"))
    assert note.endswith("hybrid-weighted ranks better.")
