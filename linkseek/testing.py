"""Contract tests for authors of plug-ins: each function checks an addition of a plug-in.

    def test_my_format(tmp_path):
        check_reader(MyReader(write_three_records(tmp_path)))

They are the tests of Linkseek's own readers, objectives and kinds of pipelines.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose

from linkseek.app.pipelines.pipeline_entry import OpenPipeline, PipelineEntry
from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.readers.reader import Reader
from linkseek.retriever.mining.pairs import Pair
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.explanation import Explanation


def check_reader(reader: Reader) -> list[Document]:
    """Check a reader of a small corpus with unique ids; returns its documents.

    Every reading gives the same documents. Links and sections lie within the text, in reading order.
    """
    kind = type(reader)
    assert kind.name == kind.name.lower() and "\n" not in kind.description, kind
    assert (kind.passage == "100 words") == (kind.passage_words == 100), kind
    outcomes = list(reader.documents())
    assert outcomes == list(reader.documents()), "a second reading differs"
    assert all(record.place for record in reader.records()), "a record has no place, for messages"
    ids = [outcome.id for outcome in outcomes if isinstance(outcome, Document | Redirect)]
    assert len(ids) == len(set(ids)), "two documents have the same id"
    documents = [outcome for outcome in outcomes if isinstance(outcome, Document)]
    assert documents, "no documents"
    for document in documents:
        starts = [link.start for link in document.links]
        assert starts == sorted(starts), document
        for link in document.links:
            assert 0 <= link.start < link.end <= len(document.text), link
            assert document.text[link.start : link.end].strip() and link.target, link
        assert all(0 <= section.start <= len(document.text) for section in document.sections), document
    return documents


def check_pairs(index: OpenIndex, pairs: Iterable[Pair]) -> None:
    """Check the pairs of a bi-encoder's objective: texts, links and titles are those of the index."""
    passages, texts = index.passages, index.documents.table
    for pair in pairs:
        assert pair.query.strip() == pair.query != "", pair
        passage = passages[int(passages.rows_of([pair.positive.id])[0])]
        words = iter(passage.text.split())
        assert pair.positive.title == passage.title, pair
        assert all(word in words for word in pair.positive.text.split()), pair
        asked_from = passages[int(passages.rows_of([pair.query_id])[0])]
        assert pair.query_title == asked_from.title, pair
        row = index.document_ids.row(asked_from.document_id)
        whole = " ".join(str(texts.value(part, row)) for part in ("title", "text"))
        assert pair.query in whole.replace("\u2019", "'"), pair
        for link in pair.evidence.values():
            holder = passages[int(passages.rows_of([link["passage_id"]])[0])]
            assert holder.text[link["start"] : link["end"]] == link["anchor"], link
        own = {pair.query_id.split("#")[0], pair.positive.id.split("#")[0]}
        assert all(negative.id.split("#")[0] not in own for negative in pair.negatives), pair


def check_pipeline_kind(kind: type[PipelineEntry]) -> None:
    """Check that a kind of pipelines and its keys are documented."""
    assert kind.__doc__ and kind.__doc__.endswith("."), kind
    assert kind.chosen_by[0] in kind.model_fields, kind
    assert all(field.description for field in kind.model_fields.values()), kind


def check_pipeline(pipeline: OpenPipeline, index: OpenIndex, question: str, k: int) -> list[Explanation]:
    """Check that explanations of an open pipeline's k best passages add up to their scores, and that no other
    passage has one.
    """
    query = Query("q", question)
    ranking = pipeline([query], k)
    assert ranking.rows.shape == ranking.scores.shape == (1, k)
    results, explained = ranking.results(0), []
    assert results == sorted(results, key=lambda result: -result[1])
    for rank, (row, score) in enumerate(results, start=1):
        explanation = pipeline.explained(query, row, k)
        assert explanation and explanation.rank == rank
        check_sum(explanation, score)
        explained.append(explanation)
    others = set(range(len(index.passages))) - {row for row, _ in results}
    assert all(pipeline.explained(query, row, k) is None for row in others)
    return explained


def check_sum(explanation: Explanation, score: float) -> None:
    """Check that the parts of an explanation add up to a score, at each level."""
    assert isclose(explanation.score, score, rel_tol=1e-5, abs_tol=1e-6), explanation
    total = sum(part.added for part in explanation.parts)
    assert isclose(total, explanation.score, rel_tol=1e-5, abs_tol=2e-5), explanation
    for part in explanation.parts:
        if {"weight", "scaled"} <= part.factors.keys():
            product = part.factors["weight"] * part.factors["scaled"]
            assert isclose(part.added, product, rel_tol=0, abs_tol=1e-6), part
        if part.of:
            check_sum(part.of, part.factors.get("score", part.of.score))
            assert part.factors.get("rank", part.of.rank) == part.of.rank, part
