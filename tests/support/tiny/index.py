"""Small real indexes: Lucene, and FAISS with the vectors of encoders that need no model."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.index import OpenIndex
from linkseek.reranker.pair_texts import PairFormat
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.encoder import FakeEncoder

HOSTILE_TITLE = "<script>alert(1)</script> [title](javascript:alert(2)) :red[title] $x^2$"
HOSTILE_TEXT = (
    'The volcano <img src=x onerror="alert(3)"> erupts & </p></li></ol></section><h1>breaks</h1> out. '
    "[click](http://evil.example) **bold** :smile: :material/home: $\\frac{1}{2}$ \u202edesrever\u202c "
    "{{ template }} &lt;volcano&gt; <mark>lava</mark>"
)

DOCUMENTS = [
    (
        "Paris",
        "Paris",
        "Paris is the capital of France. It lies on the river Seine.",
        "https://a.example.org/Paris",
    ),
    ("Lyon", "Lyon", "Lyon lies where two rivers meet. Its cooking is famous in all France.", ""),
    (
        "Seine",
        "Seine",
        "The Seine is a river. Boats on it carry gravel and visitors.",
        "http://a.example.org/Seine",
    ),
    ("Hostile", HOSTILE_TITLE, HOSTILE_TEXT, "javascript:alert(4)"),
    (
        "Naples",
        "Naples",
        "Naples lies below a volcano, which erupted last in 1944.",
        "https://a.example.org/?a=1&b=2",
    ),
    ("Titleless", "", "A volcano without a title, so its id stands for it.", "not an address"),
]


class WordEncoder(FakeEncoder):
    """Vectors of hashed words: texts are near each other if they share words."""

    identity: ClassVar = {"name": "words", "sha256": hashlib.sha256(b"1").hexdigest()}

    def __init__(self):
        super().__init__("words", dimension=64, token_budget=256, shard_rows=4)

    def encode_tokens(self, batch):
        vectors = np.zeros((len(batch), self.dimension), np.float32)  # [B, d]
        for vector, tokens in zip(vectors, batch, strict=True):
            np.add.at(vector, list(tokens), 1)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)

    def _tokenize(self, text):
        words = text.lower().split() or [""]
        return [hashlib.sha256(word.encode()).digest()[0] % self.dimension for word in words]


class WordScorer:
    """Scores pairs by the share of the question's words that the text has."""

    text_format = PairFormat()

    def __init__(self):
        self.identity = {"name": "words", "sha256": hashlib.sha256(b"scorer").hexdigest()}

    def score(self, queries, texts, on_rows=lambda rows: None):
        shares = [self._share(*pair) for pair in zip(queries, texts, strict=True)]
        on_rows(len(shares))
        return np.array(shares, np.float32)

    def windows(self, query, head, text):
        return [head + text]

    def _share(self, query, text):
        words = query.lower().split()
        return sum(word in text.lower() for word in words) / max(len(words), 1)


TINY = {"passage_words": 10, "bm25": False, "encoders": ["fake"]}
"""A plan that takes no time."""


def built(
    index: Path, corpus: Path | Iterable[dict[str, Any]], encoder: Any = None, **plan: Any
) -> OpenIndex:
    """Build an index in this process, and open it.

    corpus: what is read, or rows, which are written next to the index and removed. encoder: instead of
    `WordEncoder` for "words", and `FakeEncoder` for other names. plan: settings of a `BuildPlan`.
    """

    def open_encoder(name: str, title: bool) -> Any:
        return encoder or (WordEncoder() if name == "words" else FakeEncoder(name, title=title))

    index.parent.mkdir(parents=True, exist_ok=True)
    is_file = isinstance(corpus, Path)
    source = corpus if is_file else write_jsonl(index.with_name(f"{index.name}.jsonl"), corpus)
    build_index(index, BuildPlan(source, **{"processes": 1, "language": "en"} | plan), open_encoder)
    if not is_file:
        source.unlink()
    return OpenIndex.open(index)


def build(index: Path, documents=DOCUMENTS, **plan) -> Path:
    """Build an index of (id, title, text, url), and metadata if there is any."""
    rows = [
        {"id": id_, "title": title, "text": text, "links": [], "url": url, "metadata": dict(*more)}
        for id_, title, text, url, *more in documents
    ]
    return built(index, rows, **{"encoders": ["words"], **plan}).path
