"""The Lucene index against raw Anserini and Pyserini, by hand, with hostile queries and threads."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.program.errors import DamagedIndexError, InputError, MachineError, UsageError
from linkseek.indexer.search.jvm import java_threads
from linkseek.indexer.search.lucene_index import BM25, MAX_QUERY_CHARACTERS, Dirichlet, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
from tests.support.command import python, run_forked

WORDS = "amber birch cedar delta ember fjord grove haven inlet juniper kelp lagoon".split()
PASSAGES = [
    (
        ["plain#{}", "with space {}", "ünï cödé/{}", "قال {}", "emoji 🦊 {}"][n % 5].format(n),
        f"Title {WORDS[n % 12]}",
        " ".join(random.Random(n).choices(WORDS, k=3 + n % 17)),
    )
    for n in range(53)
]
QUERIES = ["amber", "cedar grove", "juniper kelp lagoon haven", "title inlet inlet", "delta 7"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lucene") / "bm25"
    build_lucene(PASSAGES, folder, index_title=True, threads=2)
    return folder


@pytest.fixture(scope="module")
def index(folder):
    return LuceneIndex(folder)


@pytest.fixture(scope="module")
def raw_folder(tmp_path_factory) -> Path:
    """What `IndexCollection` makes of a JSONL file with the same contents."""
    return raw_index(tmp_path_factory.mktemp("raw"), PASSAGES)


def raw_index(folder: Path, passages) -> Path:
    java_threads()
    from jnius import autoclass

    (folder / "corpus").mkdir()
    lines = [json.dumps({"id": i, "contents": f"{title} {text}"}) for i, title, text in passages]
    (folder / "corpus" / "part.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    arguments = autoclass("io.anserini.index.IndexCollection$Args")()
    arguments.collectionClass = "JsonCollection"
    arguments.input = str(folder / "corpus")
    arguments.index = str(folder / "index")
    arguments.threads = 1
    arguments.memoryBuffer = 64
    arguments.quiet = True
    autoclass("io.anserini.index.IndexCollection")(arguments).run()
    return folder / "index"


def raw_search(folder: Path, query: str, k: int, similarity) -> tuple[list[str], list[float]]:
    java_threads()
    from jnius import autoclass

    searcher = autoclass("io.anserini.search.SimpleSearcher")(str(folder))
    if isinstance(similarity, BM25):
        searcher.set_bm25(similarity.k1, similarity.b)
    else:
        searcher.set_qld(similarity.mu)
    hits = searcher.search(query, k)
    searcher.close()
    return [hit.docid for hit in hits], [hit.score for hit in hits]


def moved_apart(scores) -> list[float]:
    """Anserini's scores: rounded to four places, equal ones lowered by a millionth each."""
    moved: list[np.float32] = []
    equal = 0
    for at, score in enumerate(scores):
        rounded = np.float32(math.floor(float(score) * 10000 + 0.5) / 10000)
        equal = equal + 1 if at and moved[at - 1] - rounded <= np.float32(1e-4) else 0
        moved.append(np.float32(rounded - np.float32(1e-6) * np.float32(equal)))
    return [float(score) for score in moved]


@pytest.mark.parametrize("similarity", [BM25(), BM25(1.2, 0.75), Dirichlet(), Dirichlet(10.0)])
def test_ids_and_scores_equal_those_of_raw_anserini(folder, raw_folder, index, similarity):
    found = index.search(QUERIES, 20, similarity)
    assert all(len(ids) == 20 for ids, _ in found[:3])
    for query, (ids, scores) in zip(QUERIES, found, strict=True):
        for place in (folder, raw_folder):  # our index opened by Anserini; its own
            raw_ids, raw_scores = raw_search(place, query, 20, similarity)
            assert ids == raw_ids
            np.testing.assert_allclose(moved_apart(scores), raw_scores, rtol=0, atol=1e-9)
    [(ids, scores)] = LuceneIndex(raw_folder).search(QUERIES[:1], 20, similarity)
    assert ids == found[0][0]
    assert scores.tolist() == found[0][1].tolist()


def test_pyserini_opens_it(folder, index):
    program = f"""
import json, os
os.environ["OPENAI_API_KEY"] = "x"
from linkseek.indexer.search.jvm import java_threads
java_threads()
from pyserini.search.lucene import LuceneSearcher
searcher = LuceneSearcher({str(folder)!r})
hits = [searcher.search(query, 20) for query in {QUERIES!r}]
print("HITS" + json.dumps([[(hit.docid, hit.score) for hit in found] for found in hits]))
"""
    done = run_forked(["-c", program])
    if "HITS" not in done.stdout:
        pytest.skip(f"Pyserini cannot be imported here: {done.stderr[-300:]}")
    theirs = json.loads(done.stdout.partition("HITS")[2])
    for hits, (ids, scores) in zip(theirs, index.search(QUERIES, 20, BM25()), strict=True):
        assert [id_ for id_, _ in hits] == ids
        np.testing.assert_allclose([s for _, s in hits], moved_apart(scores), rtol=0, atol=1e-6)


TINY = [
    ("a", "", "amber birch"),
    ("b", "", "amber amber cedar delta"),
    ("c", "", "birch cedar ember fjord grove haven"),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "bm25"
    build_lucene(TINY, folder, index_title=False, threads=1)
    return LuceneIndex(folder)


def test_bm25_by_hand(tiny):
    # amber: in 2 of 3 passages, b has it twice; 12 words in all. Lengths below 40 are kept exactly.
    def term(frequency, length, holding):
        idf = math.log(1 + (3 - holding + 0.5) / (holding + 0.5))
        return idf * frequency / (frequency + 0.9 * (1 - 0.4 + 0.4 * length / (12 / 3)))

    [(ids, scores)] = tiny.search(["amber ember amber"], 3, BM25(0.9, 0.4))
    assert ids == ["b", "a", "c"]
    # A word that the query has twice counts twice.
    wanted = [2 * term(2, 4, 2), 2 * term(1, 2, 2), term(1, 6, 1)]
    np.testing.assert_allclose(scores, wanted, rtol=1e-6)


def test_dirichlet_by_hand(tiny):
    # amber: 3 of 12 words, cedar: 2 of 12; Lucene adds one to both counts.
    def term(frequency, length, total, mu=5.0):
        share = (total + 1) / (12 + 1)
        score = math.log(1 + frequency / (mu * share)) + math.log(mu / (length + mu))
        return max(score, 0.0)

    [(ids, scores)] = tiny.search(["amber cedar"], 3, Dirichlet(5.0))
    assert ids == ["b", "a", "c"]
    wanted = [term(2, 4, 3) + term(1, 4, 2), term(1, 2, 3), term(1, 6, 2)]
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def edits(a: str, b: str) -> int:
    """Insertions, deletions, replacements and transpositions of neighbours (optimal string alignment)."""
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        table[i, j] = min(
            table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
        )
        if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
            table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a), len(b)]


def test_words_near_to_unknown_ones(tmp_path):
    """Against the distances to all terms; the commonest of the nearest is taken."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abdkm", k=draw.randint(3, 8))) for _ in range(300)]
    build_lucene([("x", "", " ".join(words)), ("y", "", " ".join(words[:150]))], tmp_path / "near",
                 index_title=False, threads=1)  # fmt: skip
    index = LuceneIndex(tmp_path / "near")
    counts = Counter(
        term for text in (words, words[:150]) for term in {term for (term,) in index.terms(text)}
    )
    asked = ["".join(draw.choices("abdkm", k=draw.randint(3, 8))) for _ in range(200)]
    found = 0
    for (term,), near in zip(index.terms(asked), index.near(asked), strict=True):
        most = (0 if len(term) < 4 else 1 if len(term) < 6 else 2) * (term not in counts)
        distances = {other: edits(term, other) for other in counts if other[0] == term[0]}
        nearest = [other for other, distance in distances.items() if 0 < distance <= most]
        least = min((distances[other] for other in nearest), default=0)
        nearest = [other for other in nearest if distances[other] == least]
        if near is None:
            assert not nearest, term
        else:
            assert near.term in nearest and near.passage_id in ("x", "y")
            assert counts[near.term] == max(counts[other] for other in nearest)
            found += 1
    assert found > 50


def test_equal_scores_come_by_id_and_searches_repeat(index):
    [first] = index.search(["title"], 53, BM25())
    assert len(first[0]) == 53
    tied = [(-score, id_.encode()) for id_, score in zip(*first, strict=True)]
    assert len({score for score, _ in tied}) < 53  # there are ties
    assert tied == sorted(tied)
    assert index.search(["title"], 53, BM25())[0][0] == first[0]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "the of and",
        'amber AND (birch OR "cedar',
        "+amber -birch ~2 [a TO z] {x} ^3 \\ / title:amber",
        "amber 🦊 قال עברית",
        "\x00amber\ud800",
        "amber " * 17_000,
        "amber " + " ".join(f"w{n}" for n in range(17_000)),
        "x" * 200_000,
        "飛" * 100_000,
    ],
    ids=lambda query: repr(query[:16]),
)
@pytest.mark.parametrize("similarity", [BM25(), Dirichlet()])
def test_any_query_is_answered(index, query, similarity):
    [(ids, scores)] = index.search([query], 10, similarity)
    assert bool(ids) == ("amber" in query)
    assert len(ids) == len(scores)
    assert scores.dtype == np.float32


def test_only_the_start_of_an_endless_query_is_read(index):
    assert index.search(["x " * (MAX_QUERY_CHARACTERS // 2) + "amber"], 10, BM25())[0][0] == []


def test_depth(index):
    [(ids, _)] = index.search(["title"], 1_000_000, BM25())
    assert len(ids) == 53
    with pytest.raises(UsageError, match="k = 0"):
        index.search(["title"], 0, BM25())
    assert index.search([], 10, BM25()) == []


def test_count_leaves_out_blank_passages_and_titles_where_asked(tmp_path):
    seen: list[int] = []
    passages = [("1", "amber", "birch"), ("2", "", " \n\t"), ("3", "amber", "\u2028 cedar")]
    count = build_lucene(passages, tmp_path / "new", index_title=False, threads=1, on_rows=seen.append)
    index = LuceneIndex(tmp_path / "new")
    assert count == index.count == sum(seen) == 2
    found = index.search(["amber", "cedar"], 5, BM25())
    assert [ids for ids, _ in found] == [[], ["3"]]


def test_an_empty_index(tmp_path):
    assert build_lucene([], tmp_path / "new", index_title=True, threads=2) == 0
    index = LuceneIndex(tmp_path / "new")
    assert index.count == 0
    assert index.search(["amber"], 10, BM25())[0][0] == []


def test_several_indexes_and_eight_threads(index, tiny):
    alone = {s: index.search(QUERIES, 20, s) for s in (BM25(), Dirichlet())}
    other = tiny.search(QUERIES, 3, BM25())

    def same(n: int) -> bool:
        similarity = (BM25(), Dirichlet())[n % 2]
        if n % 3 == 0:
            found = tiny.search(QUERIES, 3, BM25())
            return [ids for ids, _ in found] == [ids for ids, _ in other]
        found = index.search(QUERIES, 20, similarity)
        pairs = zip(found, alone[similarity], strict=True)
        return all(a[0] == b[0] and a[1].tolist() == b[1].tolist() for a, b in pairs)

    for _ in range(3):  # threads come and go
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(same, range(80)))


def test_a_missing_folder_and_a_foreign_one(tmp_path):
    with pytest.raises(DamagedIndexError, match="no such folder"):
        LuceneIndex(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DamagedIndexError, match="no segments"):
        LuceneIndex(tmp_path)


@pytest.mark.parametrize("damage", ["segments_", ".doc", ".si", ".fnm", ".tim"])
def test_a_damaged_folder(tmp_path, damage):
    build_lucene(TINY, tmp_path / "new", index_title=False, threads=1)
    file = next(path for path in (tmp_path / "new").iterdir() if damage in path.name)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(DamagedIndexError) as error:
        LuceneIndex(tmp_path / "new").search(["amber"], 10, BM25())
    assert error.value.hint


def test_a_build_that_fails_lets_go_of_the_folder(tmp_path):
    def passages():
        yield from TINY
        raise KeyError("corpus")

    with pytest.raises(KeyError, match="corpus"):
        build_lucene(passages(), tmp_path / "new", index_title=False, threads=1)
    assert build_lucene(TINY, tmp_path / "new", index_title=False, threads=1) == 3
    with pytest.raises(InputError, match="32,766"):
        build_lucene([("é" * 20_000, "", "x")], tmp_path / "id", index_title=False, threads=1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(MachineError, match="could not write"):
        build_lucene(TINY, tmp_path / "file" / "new", index_title=False, threads=1)


def test_any_java_on_the_machine_and_nothing_on_the_terminal(tmp_path):
    program = f"""
import os, sys, time
from pathlib import Path
from linkseek.indexer.search.lucene_index import BM25, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene
assert "jnius" not in sys.modules
folder = Path({str(tmp_path / "new")!r})
build_lucene([("a", "amber", "birch")], folder, index_title=True, threads=2)
assert LuceneIndex(folder).search(["amber"], 10, BM25())[0][0] == ["a"]
assert not any(name.startswith("pyserini") for name in sys.modules)
assert os.environ["JAVA_HOME"] == "/nowhere" and os.environ["JVM_PATH"] == "/nowhere/libjvm.so"
if os.fork() == 0:
    try:
        LuceneIndex(folder)
    except Exception as error:
        os._exit(42 if "fork" in str(error) else 1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 42
"""
    environment = {"JAVA_HOME": "/nowhere", "JVM_PATH": "/nowhere/libjvm.so", "PATH": "/nowhere"}
    done = python("-W", "ignore", "-c", program, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
