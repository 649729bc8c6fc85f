"""Words of a question that no passage contains, and the nearest words of the index.

Terms are compared as Lucene indexes them, by their stems: in one edit first, then in two where a word is long
(insert, delete, replace, transpose; Lucene's automaton, Schulz and Mihov 2002). The first letter is kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from linkseek.indexer.search.jvm import java_class

_ONE_EDIT, _TWO_EDITS = 4, 6
"""Letters of a term from which it may differ in one, and in two edits."""
_FIELD = "contents"


class NearWord(NamedTuple):
    """A term of the index near to a word that it does not contain, and a passage that has it."""

    term: str
    passage_id: str


def analysed(analyzer: Any, text: str) -> list[str]:
    """The terms of a text."""
    return [str(term) for term in java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text)]


def nearest(reader: Any, searcher: Any, term: str) -> NearWord | None:
    """The commonest of the terms nearest to one that is in no passage; None if it is in one, or none is near.

    Call it in one of `java_threads`.
    """
    terms = java_class("org.apache.lucene.index.Term")
    if len(term) < _ONE_EDIT or reader.docFreq(terms(_FIELD, term)):
        return None
    field_terms = java_class("org.apache.lucene.index.MultiTerms").getTerms(reader, _FIELD)
    fuzzy = java_class("org.apache.lucene.search.FuzzyTermsEnum")
    for edits in (1, 2) if len(term) >= _TWO_EDITS else (1,):
        found = fuzzy(field_terms, terms(_FIELD, term), edits, 1, True)
        best, count = "", 0
        while (bytes_ := found.next()) is not None:
            if found.docFreq() > count:
                best, count = bytes_.utf8ToString(), found.docFreq()
        if best:
            query = java_class("org.apache.lucene.search.TermQuery")(terms(_FIELD, best))
            hit = searcher.search(query, 1).scoreDocs[0]
            return NearWord(best, str(searcher.storedFields().document(hit.doc).get("id")))
    return None
