"""Damaged bytes through everything that reads a file: what comes out is sound, or it is refused by name.

The examples are the same in every run. A longer search: `make fuzz`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from experiments.tables.definition import read_experiment
from linkseek.app.pipelines.catalogue import read_pipelines
from linkseek.app.preferences.comparison_files import read_preferences
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.documents import Document, DocumentStore
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, LinkseekError
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.readers.formats import all_readers, open_reader
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import read_json, segment_paths
from linkseek.retriever.learned.boosted_trees import BoostedTrees, FusionFile, TreeFile
from linkseek.retriever.learned.hops import HopModel
from linkseek.retriever.mining.pairs import read_pairs
from linkseek.retriever.models.checks.only_data import read_settings as read_model_settings
from linkseek.retriever.models.checks.tokenizer_costs import check_tokenizer, tokenized
from linkseek.retriever.models.facts import ModelFacts, open_tokenizer
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.runs import read_qrels, read_run
from tests.indexer.readers import test_readers
from tests.support.accepted import manifest_bytes
from tests.support.fuzzing import altered, examples
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder

# --- damage --------------------------------------------------------------------------------------

# What readers look out for, and what breaks them elsewhere.
TOKENS = [
    b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b"\t", b" ", b"\xc2\x85",
    b'"', b"\\", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-1", b"1e999",
    b"99999999999999999999", b"NaN", b"<", b">", b"</", b"&", b"&#0;", b"&#xd800;", b"]]>", b"<![CDATA[",
    b"<!--", b"<page>", b"</page>", b"<text>", b"<revision>", b"[[", b"]]", b"{{", b"}}", b"{|", b"''",
    b"==", b"<ref>", b"<nowiki>", b"#", b"```", b"---\n", b"<a href='", b"<SOE>", b"<EOE>", b"\xcc\x81",
    b"\xf0\x9f\xa6\x8a", b"\x1b[2J", b"['", b"%", b"=", b"'", b"../",
]  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """One change of some bytes. Places are numbers of any size, taken modulo the length."""

    kind: str
    at: int
    length: int
    bytes: bytes

    def __call__(self, data: bytes) -> bytes:
        at = self.at % (len(data) + 1)
        piece, behind = data[at : at + self.length], data[at + self.length :]
        match self.kind:
            case "replace":
                return data[:at] + self.bytes + data[at + len(self.bytes) :]
            case "cut":
                return data[:at] + behind
            case "end":
                return data[:at]
            case "insert":
                return data[:at] + self.bytes + data[at:]
            case "repeat":
                return data[:at] + piece * (2 + self.at % 50) + behind
            case _:  # move
                return data[:at] + behind + piece


DAMAGE = st.builds(
    Damage,
    kind=st.sampled_from(["replace", "replace", "cut", "end", "insert", "insert", "repeat", "move"]),
    at=st.integers(0, 1 << 16),
    length=st.integers(1, 60),
    bytes=st.one_of(st.sampled_from(TOKENS), st.binary(min_size=1, max_size=4)),
)
DAMAGES = st.lists(DAMAGE, min_size=1, max_size=4)


def damaged(data: bytes, damages: Sequence[Damage]) -> bytes:
    for damage in damages:
        data = damage(data)
    return data


# --- corpora -------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(set(all_readers()) & set(test_readers.EXAMPLES)))
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small valid corpus of each format: a file, or a folder of files, named by its format."""
    path = tmp_path / str(request.param)
    test_readers.EXAMPLES[request.param].write(path, 4)
    return path


def assert_sound(document: Document) -> None:
    places = [(link.start, link.end) for link in document.links]
    assert places == sorted(places)
    assert all(0 <= start < end <= len(document.text) for start, end in places), document
    starts = [section.start for section in document.sections]
    assert starts == sorted(starts)
    assert all(0 <= start <= len(document.text) for start in starts), document
    assert document.id and not set(document.id) & set("\n\r\t\0")


def store(reader: Reader, folder: Path, on_error: str) -> list[Document]:
    """The documents as they are stored and read again; none if the corpus is refused."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        reader.choices = replace(reader.choices, on_error=on_error)
        written = write_documents(reader, folder)
    except InputError as error:
        assert str(reader.path) in error.message
        assert error.hint
        return []
    documents = list(DocumentStore(segment_paths(folder)))
    assert len(documents) == written["documents"] > 0
    return documents


def test_any_bytes_of_a_corpus_become_sound_documents_or_are_refused(corpus: Path, tmp_path: Path) -> None:
    file = sorted(corpus.iterdir())[2] if corpus.is_dir() else corpus
    whole = file.read_bytes()
    reader = all_readers()[corpus.name]
    intact = store(reader(corpus), tmp_path / "store", "stop")
    kept: list[int] = []

    @examples(40)
    @given(DAMAGES)
    def run(damages: list[Damage]) -> None:
        file.write_bytes(damaged(whole, damages))
        stopped = store(reader(corpus), tmp_path / "store", "stop")
        skipped = store(reader(corpus), tmp_path / "store", "skip")
        for document in [*stopped, *skipped]:
            assert_sound(document)
        if stopped:
            assert stopped == skipped
        kept.append(len(skipped))
        try:
            open_reader(corpus)
        except InputError as error:
            assert str(corpus) in error.message

    assert len(intact) >= 3
    run()
    assert max(kept) >= len(intact) - 1  # not everything is refused


# --- manifests -----------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(["", "../../x", "/etc/passwd", "documents", "dense/fake", "a\0b", "Flat", "x" * 300]),
    st.sampled_from([[], {}, {"a": {}}]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    corpus = write_jsonl(folder / "c.jsonl", linked_rows(12))
    plan = BuildPlan(corpus, passage_words=10, bm25=False, encoders=["fake"], processes=1)
    build_index(folder / "index", plan, lambda name, title: FakeEncoder(name, title=title))
    return folder / "index"


def use(path: Path) -> None:
    index = OpenIndex.open(path)
    rows, _ = index.dense().search(np.ones((1, 32), np.float32), 3)
    assert all(index.passages[row].text and index.document_url(row) for row in rows[0].tolist())
    assert len(index.passages.rows_of(["d3#0", "none"])) == 2
    index.verify()


def every_manifest(index: Path) -> list[Path]:
    return sorted(index.rglob("manifest.json"))


def is_refused(index: Path, which: int, change: Callable[[Path], bytes]) -> bool:
    """Whether an index with one of its manifests changed is refused, by name, rather than used."""
    path = every_manifest(index)[which % len(every_manifest(index))]
    whole = path.read_bytes()
    path.write_bytes(change(path))
    try:
        use(index)
    except LinkseekError as error:
        assert str(index) in error.message and error.hint
        return True
    finally:
        path.write_bytes(whole)
    return False


def test_any_value_of_a_manifest_is_used_or_refused(index: Path) -> None:
    refused = 0

    @examples(400)
    @given(st.integers(0, 99), st.lists(st.integers(0, 99), max_size=4), VALUES, st.booleans())
    def run(which: int, way: list[int], new: Any, remove: bool) -> None:
        nonlocal refused
        refused += is_refused(
            index, which, lambda path: manifest_bytes(altered(read_json(path), way, new, remove))
        )

    run()
    assert refused > 100
    use(index)


@examples(60)
@given(st.integers(0, 99), DAMAGES)
def test_any_bytes_of_a_manifest_are_used_or_refused(index: Path, which: int, damages: list[Damage]) -> None:
    is_refused(index, which, lambda path: damaged(path.read_bytes(), damages))


# --- questions, runs, judgements, configuration --------------------------------------------------


class _Options(Options):
    index: Path = Path("i")
    names: list[str] = Field([])
    depth: int = 3
    ratio: float = 0.5


def read_config(path: Path) -> Options:
    return parse_options(_Options, ["--config", str(path)], "fuzz")


TREES = (
    b'"features": ["x"], "trained": {}, "trees": [{"feature": [0, -1, -1], "threshold": [0.5, 0, 0], '
    b'"left": [1, 0, 0], "right": [2, 0, 0], "value": [0.25, -1.0, 1.5]}]}'
)


def scored(file: TreeFile) -> list[float]:
    """The scores of rows of features."""
    scores: list[float] = BoostedTrees(file.trees).scores(np.zeros((3, len(file.features)))).tolist()
    return scores


TOKENIZER = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False
        },
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "b": 1}, "unk_token": "[UNK]"},
    }
).encode()  # fmt: skip


PREFERENCES = json.dumps(
    {
        "index": "i", "a": "bm25", "b": "dense", "origin": "x", "created": 1.5, "judged": "",
        "questions": [
            {"id": id_, "text": "who", "first_a": "d1", "first_b": "d2", "overlap": 0.5, "rbo": 0.2}
            for id_ in ("q1", "q2")
        ],
        "choices": {"q1": "a"},
    }
).encode()  # fmt: skip


def compared(path: Path) -> Any:
    """A comparison of the pages, with its judgements."""
    place = path.parent / "results" / "one" / "preferences.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(path.read_bytes())
    try:
        preferences = read_preferences(place.parents[1], "one")
    except LinkseekError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from error
    return preferences, preferences.verdict


def cut(path: Path) -> list[int]:
    """The tokens of a text by a tokenizer, which is opened as those of models are."""
    try:
        check_tokenizer(path, read_model_settings(path))
        tokenizer = open_tokenizer(ModelFacts(1, 40, 0, path.read_text("utf-8")))
        [encoding] = tokenized(tokenizer, ["aaaa b " * 50])
    except LinkseekError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from error
    except Exception as error:  # of the library; `from_folder` names the file
        raise InputError(f"{path}: {error}", "Save it again.") from error
    return [len(encoding.ids), *encoding.ids]


FILES: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "queries.jsonl": (
        b'{"id": "1", "text": "who?", "answers": ["She"]}\n'
        b'{"_id": 2, "question": "\xc3\x9cber", "answer": "x"}\n',
        read_queries,
    ),
    "others.jsonl": (
        b'{"query_id": 1, "question": "who?", "golden_answers": ["She"]}\n'
        b'{"qid": 2.0, "query": "what?", "answer": {"value": "x", "aliases": ["y"]}}\n',
        read_queries,
    ),
    "heads.csv": (
        b'QID,question,answers\n7,"who, when","[""a"", ""\\ud83d\\ude00""]"\n8,what,x\n',
        read_queries,
    ),
    "queries.tsv": (b"1\twho wrote it\n2\t\xc3\x9cber 'it'\n3\twhat\n", read_queries),
    "queries.csv": (b"who\t['She', \"He\"]\nwhat\t['\xc3\x9cber']\n", read_queries),
    "run.trec": (b"q1 Q0 d%201 1 2.5 tag\nq1 Q0 d2 2 1e-3 tag\nq2 Q0 \xc3\x9cber 1 -1 tag\n", read_run),
    "qrels.txt": (b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d%251 2\n", read_qrels),
    "heads.txt": (b"query_id iteration doc_id relevance\nq1 0 d1 1\nq2 0 d2 0\n", read_qrels),
    "pairs.jsonl": (
        b'{"question": "who", "answers": ["a"], "hard_negative_ctxs": [{"text": "y", "psg_id": 7}], '
        b'"positive_ctxs": [{"title": "t", "text": "x", "passage_id": null}]}\n',
        lambda path: list(read_pairs(path)),
    ),
    "pairs.json": (
        b'[{"question": "who", "positive_ctxs": [{"text": "x", "passage_id": "-1"}]},\n'
        b' {"question": "what", "answers": null, "positive_ctxs": [{"title": null, "text": "y"}]}]',
        lambda path: list(read_pairs(path)),
    ),
    "plain.csv": (b';qid;question;answers\n0;7;"who";a\n1;8;"what; when";"[""x""]"\n', read_queries),
    "names.trec": (
        b"query_id iter doc_id rank score tag\nq1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 -inf t\nq2 Q0 d1 1 1 t\n",
        read_run,
    ),
    "preferences.json": (PREFERENCES, lambda path: compared(path)),
    "fusion.json": (
        b'{"format": "linkseek fusion 1", "pipelines": ["a"], "links": false, ' + TREES,
        lambda path: scored(FusionFile.read(path)),
    ),
    "hops.json": (
        b'{"format": "linkseek hops 1", "graphs": ["links"], "sources": 10, ' + TREES,
        lambda path: scored(HopModel.read(path)),
    ),
    "tokenizer.json": (TOKENIZER, lambda path: cut(path)),
    "experiment.toml": (
        b'title = "t"\nsource = "s"\n[indexes.tiny]\npath = "index"\n[[columns]]\ntest_set = "rivers"\n'
        b'measures = ["nDCG@5"]\n[steps.a]\ncommand = "mine --index i --output <>.jsonl"\n[pipelines.x]\n'
        b'searcher = "dense"\nencoder = "<a>"\n[[rows]]\nname = "r"\npipeline = "x"\n',
        read_experiment,
    ),
    "qrels.tsv": (b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td 2\t0\n", read_qrels),
    "pipelines.toml": (
        b'[a]\nsearcher = "bm25"\nk1 = 0.9\n[b]\nsearcher = "dense"\nsearch = {nprobe = 3}\n'
        b'[c]\nfusion = "weighted"\nof = ["a", "b"]\nweights = [1, 0.5]\n',
        read_pipelines,
    ),
    "config.toml": (b'index = "i"\nnames = ["a", "b"]\ndepth = 3\nratio = 0.5\n', read_config),
}


@pytest.mark.parametrize("name", FILES)
def test_any_bytes_of_a_file_are_read_or_refused(name: str, tmp_path: Path) -> None:
    whole, read = FILES[name]
    path = tmp_path / name
    path.write_bytes(whole)
    assert read(path)
    refused: list[bool] = []

    @examples(30 if name == "config.toml" else 80)
    @given(DAMAGES)
    def run(damages: list[Damage]) -> None:
        path.write_bytes(damaged(whole, damages))
        try:
            assert read(path)
        except LinkseekError as error:
            assert error.hint, error.message
            refused.append(str(path) in error.message)

    run()
    assert any(refused)
    if name != "config.toml":  # where a value that does not fit is told by its flag
        assert all(refused)
