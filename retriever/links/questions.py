"""Questions from hyperlinks, for training without labels: the words of a link describe the article that it
leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.ranking import Query

_TRIES = 3  # of a link that gives no question


class LinkQuestion(NamedTuple):
    """A question, the document that it is about, and the passage that it was taken from."""

    query: Query
    document: int
    passage: int


def link_questions(
    index: OpenIndex, count: int, seed: int, *, sentences: bool = False
) -> Sequence[LinkQuestion]:
    """At most `count` questions, from links drawn at random: every second question is the sentence around
    the anchor, without the anchor; the others are the anchor alone. sentences: all are sentences.

    Raises `InputError` if the index has no links between documents.
    """
    source, links = LinkSource(index), index.links
    if source.missing_links:
        raise InputError(f"{index.path}: {source.missing_links}", "Give questions with answers instead.")
    drawn = np.random.default_rng(seed).permutation(len(links))[: count * _TRIES]
    owner = index.passages.document_rows(np.asarray(links.passage[drawn], np.int64))
    questions: list[LinkQuestion] = []
    for link, document in zip(drawn.tolist(), owner.tolist(), strict=True):
        target, passage = int(links.target[link]), int(links.passage[link])
        anchor = source.text(passage)[int(links.start[link]) : int(links.end[link])].strip()
        if target == document or not anchor or len(questions) == count:
            continue
        sentence = sentences or len(questions) % 2
        text = source.anchor_sentence(link).replace(anchor, " ") if sentence else anchor
        if text.strip():
            query = Query(f"link-{link}", " ".join(text.split()))
            questions.append(LinkQuestion(query, target, passage))
    return questions
