"""HTML of comparisons: the list, a question to judge, and the outcome."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from linkseek.app.context.article import is_cut_before
from linkseek.app.preferences.comparison_files import QRELS, QUERIES, ListedComparison
from linkseek.app.preferences.disagreement import OVERLAP
from linkseek.app.preferences.record import Disagreement, Preferences, Side, a_is_left
from linkseek.app.rendering.addresses import CompareView, SearchView
from linkseek.app.rendering.html_templates import render
from linkseek.app.report.text import moment
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.passages import Passage
from linkseek.indexer.program.text import counted
from linkseek.retriever.search.query_words import Span, matched_spans

_CHARACTERS = 1_200  # of a passage


def comparisons_html(listed: Sequence[ListedComparison], index: str) -> str:
    """A table of all comparisons, each a link."""
    rows = [
        (
            each,
            CompareView(each.name).address(index),
            moment(each.preferences.created) if each.preferences else "",
        )
        for each in listed
    ]
    return render("comparisons.html", rows=rows)


def question_html(index: OpenIndex, question: Disagreement, name: str) -> str:
    """A question, and the two first results side by side, without the names of their pipelines."""
    hits = [_first(index, question.text, id_) for id_ in (question.first_a, question.first_b)]
    if not a_is_left(name, question.text):
        hits.reverse()
    return render(
        "judge.html",
        question=question,
        depth=OVERLAP,
        hits=hits,
        index=index.path.name,
        limit=_CHARACTERS,
    )


def _first(
    index: OpenIndex, question: str, id_: str | None
) -> tuple[Passage | None, Sequence[Span], tuple[bool, bool]]:
    """A passage, the question's words in it, and whether it begins and ends within a sentence."""
    row = _row_of(index, id_)
    if row < 0:
        return None, (), (False, False)
    passage = index.passages[row]
    marks = matched_spans(question, passage.text, index.language)
    return passage, marks, (is_cut_before(index, row), is_cut_before(index, row + 1))


def _row_of(index: OpenIndex, id_: str | None) -> int:
    """The row of a passage; -1 without an id, or if the passage is not in the index any more."""
    return int(index.passages.rows_of([id_])[0]) if id_ is not None else -1


def progress_html(preferences: Preferences, place: int, before: Side | None) -> str:
    """How many questions are judged, and the judgement of this one, if it has any."""
    to_judge = preferences.to_judge
    texts = {None: "", "left": "result 1 is better", "same": "the same", "right": "result 2 is better"}
    return render(
        "judged.html",
        place=place + 1,
        count=len(to_judge),
        judged=len(preferences.choices),
        same=len(preferences.questions) - len(to_judge),
        before=texts[before],
    )


def verdict_html(preferences: Preferences) -> str:
    """The verdict, and how many questions it leaves out."""
    return render(
        "verdict.html",
        text=verdict_text(preferences),
        same=preferences.verdict.same,
        same_first=len(preferences.questions) - len(preferences.to_judge),
        open=len(preferences.to_judge) - len(preferences.choices),
    )


def verdict_text(preferences: Preferences) -> str:
    """The verdict of a comparison that has ended, with the sign test."""
    verdict, a, b = preferences.verdict, preferences.a, preferences.b
    decided = verdict.wins_a + verdict.wins_b
    if not decided:
        return f"No question was decided for {a} or {b}."
    better, wins = (a, verdict.wins_a) if verdict.wins_a > verdict.wins_b else (b, verdict.wins_b)
    worse = b if better == a else a
    if verdict.wins_a == verdict.wins_b:
        return f"{a} and {b} are better on {counted(wins, 'question')} each. Sign test: p = 1."
    sign = "which is hardly by chance" if verdict.p < 0.05 else "which may be chance: too few were decided"
    return (
        f"{better} is better than {worse} on {wins} of {counted(decided, 'decided question')}. "
        f"Sign test: p = {verdict.p:.2g}, {sign}."
    )


def outcome_html(index: OpenIndex | None, preferences: Preferences) -> str:
    """All questions of a comparison that has ended, the largest disagreement first."""
    pair = (preferences.a, preferences.b)
    name = {"a": preferences.a, "b": preferences.b, "same": "the same"}

    def title(id_: str | None) -> str:
        row = _row_of(index, id_) if index else -1
        passage = index.passages[row] if index and row >= 0 else None
        return (passage.title.strip() or passage.document_id) if passage else (id_ or "no result")

    rows = [
        (
            question,
            SearchView(question.text, pair).address(preferences.index),
            "same first result"
            if question.same_first
            else name.get(preferences.choices.get(question.id, ""), ""),
            [title(question.first_a), title(question.first_b)],
        )
        for question in preferences.questions
    ]
    return render("preferences.html", pair=pair, rows=rows, depth=OVERLAP)


def commands(preferences: Preferences, index: Path, results: Path, name: str) -> str:
    """The commands that evaluate on the judgements, and that train a fusion on them."""
    folder, pair = results / name, f"{shlex.quote(preferences.a)} {shlex.quote(preferences.b)}"
    paths = (index, folder / QUERIES, folder / QRELS)
    where = "--index {} --queries {} --qrels {}".format(*(shlex.quote(path.as_posix()) for path in paths))
    output = shlex.quote((results / f"{name}-evaluated").as_posix())
    return (
        f"linkseek evaluate {where} --pipeline {pair} --output {output}\n"
        f"linkseek train-fusion {where} --pipeline {pair} --output fusion.json"
    )
