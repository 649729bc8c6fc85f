"""Sets that ir_datasets reads, from small files in the places and formats of the real ones."""

import gzip
import sys
from pathlib import Path

import orjson
import pytest

from linkseek.app import testsets
from linkseek.app.testsets import irds
from linkseek.app.testsets.definition import Places
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import Query
from tests.support.archives import tar, zipped

SETS = testsets.all_test_sets()


def changed(test_set, **changes):
    return test_set.model_copy(update=changes)


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(
        gzip.compress(data) if path.suffix == ".gz" and not path.name.endswith("tar.gz") else data
    )


def topic(number: int, title: str) -> str:
    """A topic in TREC's markup, as Robust 2004 and the terabyte tracks have it."""
    return (
        f"<top>\n\n<num> Number: {number}\n<title> {title}\n\n<desc> Description:\nAll about it.\n\n"
        f"<narr> Narrative:\nNothing else.\n\n</top>\n\n"
    )


def dpr_row(question: str, key: str, positives: list[tuple[int, int]], answers: list[str]) -> dict:
    def passages(pairs):
        return [{key: str(id_), "title": "T", "text": "t", "score": score} for id_, score in pairs]

    return {
        "dataset": "d",
        "question": question,
        "answers": answers,
        "positive_ctxs": passages(positives),
        "negative_ctxs": passages([(901, 0)]),
        "hard_negative_ctxs": passages([(902, 5), (positives[0][0], 5)]),
    }


def fill(home: Path) -> None:
    """The files that ir_datasets would have downloaded, two or three questions each."""
    small_tsv = "300674\thow many years\n1048585\twhat is paula deen's brother\n"
    small_qrels = "300674\t0\t7067032\t1\n1048585\t0\t7187158\t1\n1048585\t0\t7187160\t1\n"
    write(
        home / "msmarco-passage/collectionandqueries.tar.gz",
        tar({"queries.dev.small.tsv": small_tsv, "qrels.dev.small.tsv": small_qrels}),
    )
    asked = "1108939\tnot judged\n156493\tdo goldfish grow\n"
    qrels = "156493 Q0 100 0\n156493 Q0 101 3\n"
    write(home / "msmarco-passage/trec-dl-2019/queries.tsv", asked)
    write(home / "msmarco-passage/trec-dl-2019/qrels", qrels)
    for section in ("msmarco-passage", "msmarco-document"):
        write(home / section / "trec-dl-2020/queries.tsv.gz", "1030303\twho is aziz hashim\n5\tnot judged\n")
        write(home / section / "trec-dl-2020/qrels", "1030303 0 D1 2\n")
    write(home / "msmarco-document/trec-dl-2019/queries.tsv.gz", asked)
    write(home / "msmarco-document/trec-dl-2019/qrels", qrels)
    write(home / "msmarco-document/dev/queries.tsv.gz", "174249\tdoes xpress bet charge\n2\tandrogen\n")
    write(home / "msmarco-document/dev/qrels.gz", "2 0 D1650436 1\n174249 0 D3126539 1\n")

    write(home / "disks45/04.testset.gz", topic(301, "International Organized Crime") + topic(672, "NRA"))
    write(home / "disks45/qrels.robust2004.txt", "301 0 FBIS3-10082 1\n301 0 FBIS3-10635 0\n672 0 LA1 0\n")
    for year, start in ((2009, 1), (2010, 51), (2011, 101), (2012, 151)):
        folder = home / f"clueweb09/trec-web-{year}"
        topics = (f'<topic number="{n}"><query>query {n}</query></topic>' for n in (start, start + 1))
        write(folder / "queries.xml", f"<webtrack{year}>{''.join(topics)}</webtrack{year}>")
        judged = [
            (start, "clueweb09-en0003-55-31884", 2),
            (start, "clueweb09-en0012-00-00001", 1),  # not of category B
            (start + 1, "clueweb09-enwp01-00-00001", -2),
        ]
        prels = "".join(f"{q} {d} {r} 1 0.5\n" for q, d, r in judged)
        qrels = "".join(f"{q} 0 {d} {r}\n" for q, d, r in judged)
        write(folder / ("prels.gz" if year == 2009 else "qrels"), prels if year == 2009 else qrels)

    def questions(ids, **extra):
        return "".join(
            orjson.dumps({"_id": id_, "text": f"text {id_}", "metadata": extra}).decode() + "\n"
            for id_ in ids
        )

    head = "query-id\tcorpus-id\tscore\n"
    write(
        home / "beir/nfcorpus/source.zip",
        zipped(
            {
                "nfcorpus/queries.jsonl": questions(["PLAIN-2", "PLAIN-3"], url="u"),
                "nfcorpus/qrels/test.tsv": head + "PLAIN-2\tMED-1\t2\nPLAIN-2\tMED-2\t1\n",
                "nfcorpus/qrels/train.tsv": head + "PLAIN-3\tMED-1\t1\n",
            }
        ),
    )
    write(
        home / "beir/trec-covid/source.zip",
        zipped(
            {
                "trec-covid/queries.jsonl": questions(["1"], query="short", narrative="long"),
                "trec-covid/qrels/test.tsv": head + "1\td1\t-1\n1\td2\t2\n",
            }
        ),
    )
    write(home / "beir/scifact/queries.json", questions(["1", "3"]))
    write(home / "beir/scifact/test.qrels", head + "1\t31715818\t1\n3\t14717500\t1\n")

    nq = [
        dpr_row("who sings", "passage_id", [(10, 1000), (11, 3)], ["Linda Davis"]),
        dpr_row("when\tnow", "passage_id", [(20, 1000)], ["1973", "seventies"]),
    ]
    write(home / "dpr-w100/nq-dev.json.gz", orjson.dumps(nq))
    trivia = [dpr_row("The VS-300 was a type of what?", "psg_id", [(30, 9), (31, 8)], ["🚁", "Helicopter"])]
    write(home / "dpr-w100/tqa-dev.json.gz", orjson.dumps(trivia))
    write(home / "dpr-w100/nq-train/queries.tsv", "0\tbig little lies\tseven\n")
    write(home / "dpr-w100/nq-train/qrels", "0 0 18768923 2\n0 0 5 1\n0 0 928112 0\n0 0 7 -1\n")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of ir_datasets with small files, for this module alone; it has no network.

    ir_datasets asks for its home when it is imported, so it is imported anew.
    """
    home = tmp_path_factory.mktemp("irds")
    fill(home)
    imported = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "ir_datasets"}
    patch = pytest.MonkeyPatch()
    patch.setenv("IR_DATASETS_HOME", str(home))
    patch.delenv("LINKSEEK_DATA", raising=False)
    patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        patch.setenv(variable, "http://127.0.0.1:9")  # nobody listens there
    patch.setenv("IR_DATASETS_DL_TRIES", "1")
    yield home
    patch.undo()
    for name in [name for name in sys.modules if name.split(".")[0] == "ir_datasets"]:
        del sys.modules[name]
    sys.modules.update(imported)


def load(name, queries, judgements, **changes):
    changes = {"records": {}, "judged": None, **changes}
    return changed(SETS[name], queries=queries, judgements=judgements, **changes).load(testsets.places())


# --- what is read --------------------------------------------------------------------------------


def test_msmarco_passages(home):
    loaded = load("msmarco-passage-dev", 2, 3)
    assert loaded.queries == [
        Query("300674", "how many years"),
        Query("1048585", "what is paula deen's brother"),
    ]
    assert loaded.qrels == {"300674": {"7067032": 1}, "1048585": {"7187158": 1, "7187160": 1}}
    assert loaded.origin["read_from"] == f"ir_datasets msmarco-passage/dev/small in {home}"


@pytest.mark.parametrize("level", ["passage", "document"])
def test_trec_dl(home, level):
    loaded = load(f"trec-dl-2019-{level}", 1, 2)
    assert loaded.queries == [Query("156493", "do goldfish grow")]  # the others are not judged
    assert loaded.qrels == {"156493": {"100": 0, "101": 3}}
    loaded = load(f"trec-dl-2020-{level}", 1, 1)
    assert loaded.queries == [Query("1030303", "who is aziz hashim")]
    assert loaded.qrels == {"1030303": {"D1": 2}}


def test_robust04(home):
    loaded = load("robust04", 2, 3, judged=1)
    assert loaded.queries == [Query("301", "International Organized Crime"), Query("672", "NRA")]
    assert loaded.qrels == {"301": {"FBIS3-10082": 1, "FBIS3-10635": 0}}  # 672 has nothing relevant


@pytest.mark.parametrize(("name", "years"), [("clueweb09b", 3), ("clueweb09b-200", 4)])
def test_clueweb09b(home, name, years):
    loaded = load(name, 2 * years, 2 * years)
    assert len(loaded.queries) == 2 * years
    assert loaded.queries[3] == Query("52", "query 52")
    assert set(loaded.qrels) == {"1", "51", "101", "151"} & {q.id for q in loaded.queries}
    assert loaded.qrels["1"] == loaded.qrels["51"] == {"clueweb09-en0003-55-31884": 2}


def test_beir(home):
    loaded = load("beir-nfcorpus", 1, 2)
    assert loaded.queries == [Query("PLAIN-2", "text PLAIN-2")]
    assert loaded.qrels == {"PLAIN-2": {"MED-1": 2, "MED-2": 1}}
    loaded = load("beir-trec-covid", 1, 2)
    assert loaded.queries == [Query("1", "text 1")]
    assert loaded.qrels == {"1": {"d1": -1, "d2": 2}}
    assert load("scifact-test", 2, 2).qrels == {"1": {"31715818": 1}, "3": {"14717500": 1}}


def test_dprs_passages(home):
    loaded = load("nq-dev-on-dpr-w100", 2, 3)
    assert loaded.queries == [
        Query("0", "who sings", ("Linda Davis",)),
        Query("1", "when now", ("1973", "seventies")),
    ]
    assert loaded.qrels == {"0": {"10": 2, "11": 1}, "1": {"20": 2}}  # without the negatives
    loaded = load("trivia-dev-on-dpr-w100", 1, 2)
    assert loaded.queries[0].answers == ("🚁", "Helicopter")
    assert loaded.qrels == {"0": {"30": 1, "31": 1}}
    assert load("nq-train-on-dpr-w100", 1, 2).qrels == {"0": {"18768923": 2, "5": 1}}


def test_the_real_counts_are_asked_for(home):
    with pytest.raises(InputError, match=r"2 questions, expected 6,980"):
        testsets.open_test_set("msmarco-passage-dev")


# --- what is missing -----------------------------------------------------------------------------

ALL = {name: s.sources[-1] for name, s in SETS.items() if isinstance(s.sources[-1], irds.IrDatasets)}


def test_the_list_of_downloads_has_every_part():
    assert len(ALL) == 28
    for source in ALL.values():
        for key, made in source.parts.items():
            entry = irds._downloads(source.section)[key]
            assert entry["url"].startswith("https://")
            assert entry["size_hint"] > 0
            assert "cache_path" in entry or made


def test_a_gap_says_what_comes_from_where_and_how_much(tmp_path, monkeypatch):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    gap = ALL["robust04"].gap(Places(None, tmp_path))
    assert gap.download
    assert gap.size == 34_293 + 6_543_541
    assert str(tmp_path / "disks45/qrels.robust2004.txt") in gap.missing
    assert "https://trec.nist.gov/data/robust/04.testset.gz" in gap.hint
    assert "6.6 MB in all" in gap.hint


@pytest.mark.parametrize(
    "kept",
    [
        ["msmarco-passage/collectionandqueries.tar.gz"],
        ["msmarco-passage/dev/small/queries.tsv", "msmarco-passage/dev/small/qrels"],
        ["downloads/31644046b18952c1386cd4564ba2ae69"],
    ],
)
def test_what_is_kept_in_any_of_its_places_is_there(tmp_path, monkeypatch, kept):
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    source, places = ALL["msmarco-passage-dev"], Places(None, tmp_path)
    assert source.gap(places) is not None
    for name in kept[:-1]:
        write(tmp_path / name, "x")
        assert source.gap(places) is not None
    write(tmp_path / kept[-1], "x")
    assert source.gap(places) is None


def test_nothing_is_downloaded_unasked(home, monkeypatch):
    monkeypatch.setattr(irds.IrDatasets, "read", None)
    with pytest.raises(InputError, match=r"missing: .*beir/fiqa/source.zip \(kept by ir_datasets"):
        load("beir-fiqa", 1, 1)


def test_a_download_that_fails_is_explained(home, capsys):
    with pytest.raises(InputError) as caught:
        changed(SETS["beir-fiqa"], records={}).load(testsets.places(), download=True)
    told = capsys.readouterr().err
    assert "ir_datasets downloads https://public.ukp.informatik.tu-darmstadt.de" in told
    assert "(17.9 MB)" in told
    assert "ir_datasets cannot give beir/fiqa/test" in caught.value.message
    assert f"fiqa.zip as {home / 'beir/fiqa/source.zip'}" in caught.value.hint


def test_damaged_judgements_are_explained(home):
    write(home / "beir/scidocs/queries.json", '{"_id": "1", "text": "x", "metadata": {}}\n')
    write(home / "beir/scidocs/test.qrels", "query-id\tcorpus-id\tscore\n1\td1\n")
    with pytest.raises(InputError, match="cannot give beir/scidocs"):
        load("beir-scidocs", 1, 1)
