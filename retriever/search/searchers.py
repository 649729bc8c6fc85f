"""First-stage search: queries -> the best passages of an index. Each searcher is a `Pipeline`.

`Bm25` and `QueryLikelihood` are Lucene's (`indexer.search.lucene_index`), `Dense` is FAISS's
(`indexer.search.faiss_index`) with the encoder that made the vectors. Scores are Lucene's
own, with ties in order of rows (Anserini rounds scores to four places and moves equal ones apart). If
passages tie at place k, Lucene decides by id which of them are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import TokenRows, encode_texts
from linkseek.indexer.encoding.impacts import terms_and_impacts
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError, UsageError
from linkseek.indexer.search.lucene_index import BM25, Dirichlet, ImpactSum, Question, Similarity
from linkseek.indexer.store.artifacts import SPARSE, SPARSE_PREFIX, encoder_of
from linkseek.retriever.models.prompts import recorded_prompt, text_form
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import MAX_CHARACTERS, Explanation, Part, best_sentence, place_of
from linkseek.retriever.search.query_vectors import encoded_once, query_vectors
from linkseek.retriever.search.query_words import matched_spans
from linkseek.retriever.search.stages import stage

if TYPE_CHECKING:
    from linkseek.indexer.search.partitioned import WordSearch
    from linkseek.retriever.models.biencoder import BiEncoder
    from linkseek.retriever.models.sparse import ImpactEncoder


class LuceneSearcher:
    """One Lucene index with one similarity."""

    def __init__(self, index: OpenIndex, similarity: Similarity, lucene: WordSearch | None = None) -> None:
        """lucene: by default of the words of passages."""
        self.similarity = similarity
        self._passages = index.passages
        self._lucene = lucene or index.lucene()
        self._index = index

    @stage("search")
    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query; -1 where fewer contain any of its words.

        Raises `DamagedIndexError` if the Lucene index is damaged or of other passages.
        """
        hits = self._lucene.search(self._questions(queries), k, self.similarity)
        ids = [id_ for ids, _ in hits for id_ in ids]
        rows = self._passages.rows_of(ids)  # one look-up for all queries
        if (rows < 0).any():
            unknown = ids[int(np.argmax(rows < 0))]
            raise DamagedIndexError(
                f"{self._lucene.folder}: contains {unknown!r}, which is not a passage of this index",
                "Build the index again.",
            )
        rows_by_query = np.split(rows, np.cumsum([len(ids) for ids, _ in hits[:-1]], dtype=np.int64))
        found = [(own, scores) for own, (_, scores) in zip(rows_by_query, hits, strict=False)]
        return Ranking.of_candidates([query.id for query in queries], found, k)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each word of the question adds to a score (`Explain`)."""
        if (place := place_of(self([query], k), row)) is None:
            return None
        parts = sorted(self._summands(query, row), key=lambda part: (-part.added, part.name))
        return Explanation.of(place, parts)

    def _questions(self, queries: Sequence[Query]) -> Sequence[Question]:
        return [query.text for query in queries]

    def _summands(self, query: Query, row: int) -> list[Part]:
        """The parts of a score, as Lucene explains it, named by words of the passage in place of stems."""
        passage, lucene = self._passages[row], self._index.local_lucene
        text = f"{passage.title} {passage.text[:MAX_CHARACTERS]}"
        spans = matched_spans(query.text, text, self._index.language)
        words = list(dict.fromkeys(text[start:end] for start, end in reversed(spans)))
        written = {
            own[0]: word for word, own in zip(words, lucene.terms(words), strict=True) if len(own) == 1
        }
        scores = lucene.explain(query.text, passage.id, self.similarity)
        return [Part(written.get(one.word, one.word), one.score, factors=one.factors) for one in scores]


class Bm25(LuceneSearcher):
    """Okapi BM25 (Robertson et al. 1994) with Anserini's defaults."""

    def __init__(self, index: OpenIndex, k1: float = 0.9, b: float = 0.4) -> None:
        """k1: how slowly repetition saturates, >= 0. b: how much length counts, 0 to 1."""
        if not (0 <= k1 < float("inf") and 0 <= b <= 1):
            raise UsageError(f"BM25 with k1 = {k1}, b = {b}", "k1 is at least 0, b is from 0 to 1.")
        super().__init__(index, BM25(k1, b))


class QueryLikelihood(LuceneSearcher):
    """Query likelihood with Dirichlet smoothing (Zhai and Lafferty 2001)."""

    def __init__(self, index: OpenIndex, mu: float = 1000.0) -> None:
        """mu: how many words of the collection every passage is smoothed with, > 0."""
        if not 0 < mu < float("inf"):
            raise UsageError(f"query likelihood with mu = {mu}", "mu is a number above 0.")
        super().__init__(index, Dirichlet(mu))


class LearnedSparse(LuceneSearcher):
    """Sums of the products of a question's and a passage's term weights (Formal et al. 2021)."""

    def __init__(self, index: OpenIndex, name: str, open_encoder: Callable[..., ImpactEncoder]) -> None:
        """name: the name of an encoder whose weights are in the index. open_encoder: by its location, with
        the title and prompts that it read passages with. Raises as `Dense`.
        """
        self._part = index.codes_part(SPARSE, name)
        self._record = index.parts.sparse[encoder_of(self._part)]
        recorded = self._record.encoder
        self._encoder = open_encoder(SPARSE_PREFIX + recorded["location"], **text_form(recorded))
        check_made_by(recorded, self._encoder.identity)
        super().__init__(index, ImpactSum(), index.sparse(name))

    def _questions(self, queries: Sequence[Query]) -> Sequence[Question]:
        with stage("encode question"):
            weights = self._encoder.encode_queries([query.text for query in queries])
        return [{str(term): weight for term, weight in own.items()} for own in weights]

    def _summands(self, query: Query, row: int) -> list[Part]:
        """The terms that both have; of those that are not in the passage's text, it is said."""
        [weights], encoder = self._encoder.encode_queries([query.text]), self._encoder
        codes = self._index.codes(self._part, np.array([row]))[0]
        terms, impacts = terms_and_impacts(codes, self._record.most)
        passage = self._passages[row]
        written = {*encoder.tokenize_passages([passage.title], [passage.text])[0]}
        return [
            Part(
                encoder.term(term),
                weights[term] * impact,
                "" if term in written else "not in the text",
                {"question": weights[term] * encoder.scale, "passage": impact / encoder.scale},
            )
            for term, impact in zip(terms.tolist(), impacts.tolist(), strict=True)
            if term in weights
        ]


def check_made_by(recorded: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raises `MismatchError` unless an encoder is the one that an index records."""
    if own["sha256"] != recorded["sha256"]:
        raise MismatchError(
            f"the vectors were made by the encoder {recorded['name']} ({recorded['sha256'][:12]}), the "
            f"encoder of the queries is {own['name']} ({own['sha256'][:12]})",
            "Their inner products would be meaningless. Use the encoder of the index, or add this "
            "one: linkseek update --index DIR --encoder NAME.",
        )


class Dense:
    """Inner products of query and passage vectors (Karpukhin et al. 2020, section 3.1)."""

    def __init__(
        self,
        index: OpenIndex,
        encoder: BiEncoder,
        name: str | None = None,
        device: str = "auto",
        **parameters: int,
    ) -> None:
        """encoder: the encoder of the queries. name: the name of the vectors in the index, by default the
        first.

        device: searches the vectors. parameters: FAISS's, such as nprobe. Raises `MismatchError` if another
        encoder made the vectors, and the errors of `OpenIndex.dense`.
        """
        vectors = index.dense(name)
        self._encoder = encoder
        self._parameters = parameters
        check_made_by(vectors.encoder, encoder.identity)
        self._vectors = index.dense(name, device)
        self._passages = index.passages
        self._prompt = recorded_prompt(vectors.encoder, encoder.identity)

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query."""
        query_ids = [query.id for query in queries]
        if not queries:
            return Ranking.of(query_ids, np.empty((0, k), np.int64), np.empty((0, k), np.float32))
        with stage("encode question"):
            texts = [query.text for query in queries]
            vectors = query_vectors(self._encoder.search_vectors, texts, self._prompt)  # [Q, d]
        with stage("search vectors"):
            rows, scores = self._vectors.search(vectors, k, **self._parameters)  # [Q, k]
            return Ranking.of(query_ids, rows, scores)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """The inner product of question and passage (`Explain`), and the sentence nearest to the question."""
        with encoded_once():
            place = place_of(self([query], k), row)
            if place is None:
                return None
            passage = self._passages[row]
            sentence = best_sentence(
                passage.text, lambda sentences: self._similarities(query.text, passage.title, sentences)
            )
        return Explanation(*place, (Part("inner product", place[1], sentence=sentence),))

    def _similarities(self, question: str, title: str, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Inner products [n] of a question with sentences, which are read below their passage's title."""
        tokens = self._encoder.tokenize_passages([title] * len(sentences), sentences)
        vectors = self._encoder.comparable(encode_texts(self._encoder, TokenRows.of(tokens)))  # [n, d]
        question_vector = query_vectors(self._encoder.search_vectors, [question], self._prompt)[0]
        return np.asarray(vectors @ question_vector)
