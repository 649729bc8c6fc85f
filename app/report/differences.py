"""The questions that the baseline and another pipeline answer most differently."""

from __future__ import annotations

from app.report import text
from app.report.document import Block, Case, Cases, Data, Folded, Paragraph, Section, Side, Strong
from app.report.results import Difference, Results, Top
from indexer.base.text import counted

_TITLE, _TEXT, _ANSWERS = 120, 240, 8


def differences_section(results: Results) -> Section | None:
    """A folded list for each pair."""
    pairs: dict[tuple[str, str], list[Difference]] = {}
    for found in results.differences:
        pairs.setdefault((found.a, found.b), []).append(found)
    if not pairs:
        return None
    blocks: list[Block] = [Paragraph((_ORDER,), "note")]
    for (a, b), cases in pairs.items():
        better = sum(_reciprocal(case.rank_b) > _reciprocal(case.rank_a) for case in cases)
        worse = sum(_reciprocal(case.rank_b) < _reciprocal(case.rank_a) for case in cases)
        summary = (
            Strong(Data(b, "name")),
            " beside ",
            Strong(Data(a, "name")),
            f": {counted(len(cases), 'question')}, {better} better and {worse} worse",
        )
        blocks.append(Folded(summary, (Cases(tuple(_case(case, results.depth) for case in cases)),)))
    return Section("differences", "Where they differ most", tuple(blocks))


def _case(case: Difference, depth: int | None) -> Case:
    answers = [*case.answers[:_ANSWERS]]
    if len(case.answers) > _ANSWERS:
        answers.append(f"and {len(case.answers) - _ANSWERS} more")
    return Case(
        text.clean(case.question) or case.query_id,
        tuple(answers),
        (
            _side(case.a, case.rank_a, case.top_a, depth),
            _side(case.b, case.rank_b, case.top_b, depth),
        ),
    )


def _side(pipeline: str, rank: int | None, top: Top | None, depth: int | None) -> Side:
    if rank is not None:
        found = f"first right result at rank {rank:,}"
    else:
        found = "no right result" + (f" among {depth:,}" if depth else "")
    if top is None:
        return Side(pipeline, found, "", "", None)
    return Side(
        pipeline,
        found,
        text.cut(text.clean(top.title), _TITLE),
        text.clean(text.excerpt(top.text, _TEXT)),
        top.right,
    )


def _reciprocal(rank: int | None) -> float:
    return 1 / rank if rank else 0.0


_ORDER = (
    "Up to 20 questions of each pair with the baseline, the largest difference of reciprocal ranks of the "
    "first right result first, with the first passage that each of the two found."
)
