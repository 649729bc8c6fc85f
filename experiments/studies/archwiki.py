"""python -m experiments archwiki --data DIR: pre-training by links on a corpus of manuals, ArchWiki.

A fifth of the articles is held out. Every objective trains a static encoder on pairs mined from the other
articles, with equal steps; then all passages are searched with questions about the articles held out: the
anchors of links to them where they are not the article's title (known-item search), and the sentences around
the anchors, without them. Relevant is every passage of the article; the passage of the link itself is left
out. Rates are those that experiments/hlp-static.toml chose on another corpus. Finished models are kept.

DIR holds archwiki/docs.jsonl.zst.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from experiments.packing.held_out import is_held_out
from linkseek.app.evaluation.measures import bootstrap_intervals
from linkseek.app.evaluation.significance import holm, randomisation_test
from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.log import log_line
from linkseek.indexer.encoding.batches import encode_texts
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import Index
from linkseek.retriever.links.questions import LinkQuestion, link_questions
from linkseek.retriever.models.biencoder import BiEncoder, open_biencoder
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.fusion import weighted
from linkseek.retriever.search.searchers import Bm25

PROGRAM = "python -m experiments archwiki"
ROOT = Path(__file__).parents[2]
RIVALS = ("ict", "wlp", "bfs")
ROWS = {name: (name,) for name in RIVALS} | {"ict-wlp-bfs": RIVALS}
ROWS |= {name: (name,) for name in ("dual-link", "co-mention", "hlp")}
"""The objectives of each row that trains."""
RATE = 3e-3
RATES = {"co-mention": 1e-3}
BATCH = 512
SEEDS = (1, 2, 3)
MINILM = "all-MiniLM-L6-v2"
CUTS = (1, 5, 20)
KINDS = ("anchors", "sentences")
DEPTH = 100
START = "no pre-training"
FUSED = (MINILM, START, "hlp")
"""Rows that are also joined with BM25, by even weights."""
TESTED = (
    *((name, START) for name in ROWS),
    *((links, rival) for links in ("dual-link", "hlp") for rival in ("bfs", "ict-wlp-bfs")),
    ("co-mention", "dual-link"),
    *((name, "BM25") for name in (MINILM, "BM25 + hlp")),
    ("BM25 + hlp", f"BM25 + {START}"),
)
"""Pairs of rows whose difference is tested."""

Table = dict[str, list[NDArray[np.float64]]]
"""Of each row and kind of question whether they are answered at 1, 5 and 20, [S, Q, 3], S being the seeds."""


class Models:
    """Trains encoders in a folder by commands of this project; those that are there are kept."""

    def __init__(self, work: Path, corpus: Path, pairs: int, steps: int) -> None:
        """corpus: the corpus to mine. pairs: for each encoder, or fewer if an objective has fewer."""
        self._work = work
        self._pairs = pairs
        self._steps = steps
        self._index = self.made("kept", f"build --corpus {corpus} --no-dense --no-bm25 --index <>")
        self.start = self.made("start", f"distill {MINILM} --index {self._index} --output <>")

    def trained(self, row: str, seed: int) -> Path:
        """The start after an objective, or after several with an equal part of the pairs each."""
        count = self._pairs // len(ROWS[row])
        mine = f"mine --index {self._index} --pairs {count} --output <> --objective "
        files = [str(self.made(f"{part}-{count}.jsonl", mine + part)) for part in ROWS[row]]
        settings = {
            "model.base": self.start,
            "data.pairs": orjson.dumps(files).decode(),
            "training.seed": seed,
            "training.batch": BATCH,
            "training.epochs": 1000,
            "training.steps": self._steps,
            "training.learning_rate": RATES.get(row, RATE),
            "output.folder": "<>",
        }
        words = [shlex.quote(f"{name}={value}") for name, value in settings.items()]
        return self.made(f"{row}-{seed}", f"train static-pretrain --set {' --set '.join(words)}")

    def made(self, name: str, command: str) -> Path:
        """A file or folder that a command makes, <> in its words."""
        path = self._work / name
        if not path.exists():
            words = shlex.split(command.replace("<>", str(path)))
            log_line(f"+ {shlex.join(['linkseek', *words])}")
            if subprocess.run([sys.executable, "-m", "linkseek", *words], cwd=ROOT).returncode:
                raise UsageError(f"linkseek {words[0]} did not finish", "See above.")
        return path


class Questions:
    """Questions of one kind about the articles held out, over all passages."""

    def __init__(self, index: Index, kind: str, held_out: Collection[str]) -> None:
        self._index = index
        self._passages = index.passages
        self.questions = list(_questions(index, kind, held_out))
        self._texts = [question.query.text for question in self.questions]
        self._targets = np.array([question.document for question in self.questions])
        self._own = np.array([question.passage for question in self.questions])

    def answered(self, ranking: Ranking) -> NDArray[np.float64]:
        """Whether a passage of the article is in the first 1, 5 and 20, 0 or 1 [Q, 3]."""
        left = np.where(ranking.rows == self._own[:, None], -1, ranking.rows)  # [Q, k]
        rows = Ranking.of(ranking.query_ids, left, ranking.scores, CUTS[-1]).rows
        documents = self._passages.document_rows(np.maximum(rows, 0).ravel()).reshape(rows.shape)
        relevant = (documents == self._targets[:, None]) & (rows >= 0)
        return np.stack([relevant[:, :cut].any(axis=1) for cut in CUTS], axis=1).astype(float)

    def by_words(self) -> Ranking:
        """BM25's ranking."""
        return Bm25(self._index)([question.query for question in self.questions], DEPTH)

    def by_vectors(self, encoder: BiEncoder, passages: NDArray[np.float32]) -> Ranking:
        """The ranking of an encoder. passages: the vectors of all, [n, d]."""
        scores = encoder.search_vectors(self._texts) @ passages.T  # [Q, n]
        depth = min(DEPTH, scores.shape[1])
        rows = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        ids = [question.query.id for question in self.questions]
        return Ranking.of(ids, rows, np.take_along_axis(scores, rows, 1))


def _questions(index: Index, kind: str, held_out: Collection[str]) -> Iterator[LinkQuestion]:
    """Those of all links to articles held out, each text once for an article."""
    seen = set()
    for number, question in enumerate(link_questions(index, len(index.links), seed=1)):
        document = index.documents[question.document]
        text = question.query.text.casefold()
        wanted = kind == KINDS[number % 2] and document.id in held_out
        if wanted and text != document.title.casefold() and (text, document.id) not in seen:
            seen.add((text, document.id))
            yield question


def split(corpus: Path, kept: Path) -> set[str]:
    """Write the articles that are not held out, and return the ids of the others."""
    held_out = set()
    _, stream = open_source(corpus)
    with stream, kept.open("wb") as out:
        for _, line in read_lines(stream):
            document_id = orjson.loads(line)["id"]
            if is_held_out(document_id):
                held_out.add(document_id)
            else:
                out.write(line.rstrip(b"\n") + b"\n")
    return held_out


def vectors_of(encoder: BiEncoder, index: Index, name: str) -> NDArray[np.float32]:
    """The vectors of all passages, float32 [n, d]."""
    if name == MINILM:
        return index.own_dense(name).flat_vectors().astype(np.float32)
    table = index.passages.table
    titles, texts = (list(table.column(name, 0, len(table))) for name in ("title", "text"))
    return encoder.comparable(encode_texts(encoder, encoder.tokenize_passages(titles, texts)))


def measure(index: Index, models: Models, kinds: Sequence[Questions]) -> Table:
    """Every row, with the models trained where they are missing."""
    words = [questions.by_words() for questions in kinds]
    found: dict[str, list[list[NDArray[np.float64]]]] = {}  # of each row, seed and kind

    def add(name: str, rankings: Sequence[Ranking]) -> None:
        answered = [questions.answered(ranking) for questions, ranking in zip(kinds, rankings, strict=True)]
        found.setdefault(name, []).append(answered)

    def add_encoder(name: str, folder: str | Path) -> None:
        encoder = open_biencoder(str(folder))
        vectors = vectors_of(encoder, index, str(folder))
        rankings = [questions.by_vectors(encoder, vectors) for questions in kinds]
        add(name, rankings)
        if name in FUSED:
            pairs = zip(words, rankings, strict=True)
            add(f"BM25 + {name}", [weighted(pair, (0.5, 0.5), DEPTH) for pair in pairs])

    add("BM25", words)
    add_encoder(MINILM, MINILM)
    add_encoder(START, models.start)
    for row in ROWS:
        for seed in SEEDS:
            add_encoder(row, models.trained(row, seed))
    return {
        name: [np.stack(of_kind) for of_kind in zip(*seeds, strict=True)] for name, seeds in found.items()
    }


def print_table(table: Table, kinds: Sequence[Questions]) -> None:
    """The mean over seeds in %, their standard deviation, and at 20 the interval over questions."""
    counts = [f"{name} ({len(kind.questions):,})" for name, kind in zip(KINDS, kinds, strict=True)]
    heads = [f"{count} @{cut}" for count in counts for cut in CUTS]
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, of_kinds in table.items():
        cells = []
        for answered in of_kinds:
            of_seeds = 100 * answered.mean(axis=1)  # [S, 3]
            cells += [f"{value:.1f}" for value in of_seeds.mean(axis=0)]
            if len(of_seeds) > 1:
                cells[-1] += f" ±{of_seeds[:, -1].std(ddof=1):.1f}"
            low, high = 100 * bootstrap_intervals(answered.mean(axis=0)[:, -1:])[:, 0]
            cells[-1] += f" ({low:.1f}-{high:.1f})"
        print(f"| {name} | {' | '.join(cells)} |")


def print_differences(table: Table) -> None:
    """At 20, by the mean of the seeds for each question; p of the randomisation test, corrected by Holm."""
    columns = []
    for kind in range(len(KINDS)):
        means = {name: of_kinds[kind].mean(axis=0)[:, -1] for name, of_kinds in table.items()}
        differences = np.stack([means[a] - means[b] for a, b in TESTED], axis=1)  # [Q, tests]
        low, high = 100 * bootstrap_intervals(differences)
        ps = holm(randomisation_test(differences).tolist())
        shown = zip(100 * differences.mean(axis=0), low, high, ps, strict=True)
        columns.append([f"{mean:+.1f} ({a:+.1f} to {b:+.1f}), p = {p:.3f}" for mean, a, b, p in shown])
    print(f"\n| difference @{CUTS[-1]} | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    for (a, b), *cells in zip(TESTED, *columns, strict=True):
        print(f"| {a} - {b} | {' | '.join(cells)} |")


def main(argv: Sequence[str]) -> None:
    """Split, train, measure, and print two tables in Markdown."""
    parser = argparse.ArgumentParser(
        "python -m experiments archwiki", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of the corpora")
    parser.add_argument(
        "--output", type=Path, default=Path("results/archwiki"), help="for models and indexes"
    )
    parser.add_argument("--pairs", type=int, default=4_000, help="of each objective")
    parser.add_argument("--steps", type=int, default=30, help=f"of {BATCH} pairs")
    options = parser.parse_args(argv)
    work = options.output.resolve()
    work.mkdir(parents=True, exist_ok=True)
    corpus = options.data.resolve() / "archwiki" / "docs.jsonl.zst"
    held_out = split(corpus, work / "kept.jsonl")
    models = Models(work, work / "kept.jsonl", options.pairs, options.steps)
    index = Index.open(models.made("all", f"build --corpus {corpus} --encoder {MINILM} --index <>"))
    kinds = [Questions(index, kind, held_out) for kind in KINDS]
    table = measure(index, models, kinds)
    print_table(table, kinds)
    print_differences(table)
