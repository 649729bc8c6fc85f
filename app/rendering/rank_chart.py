"""The ranks of the first ten passages in every pipeline, as lines from one pipeline to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from linkseek.app.answers import Answer, AnswerHit
from linkseek.app.rendering.html_templates import passage_number
from linkseek.indexer.program.text import harmless

if TYPE_CHECKING:
    import altair as alt

SELECTION = "passage"
"""The selection that a click on a passage makes; its points have the field `id`."""

_RANKS = 10
_ROW = 26  # pixels
_NARROW = "width < 560"  # a phone: more of the width is for labels, in two lines, and so are names of columns
_LINE = 17  # characters of a label there
# (strong, faint, page) on light and on dark pages, as in style.css
_LIGHT, _DARK = ("#00664f", "#5f6673", "#fff"), ("#5fd3b4", "#a3abb8", "#12161d")


def rank_rows(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """A row for each pipeline and each passage that one of the answers has among its first ten.

    rank: None where the passage is not among the first ten; place: its rank, or the row below the last.
    strong: whether the passage is relevant, or where that is not known, is the first of a pipeline. A passage
    that is in neither a pipeline nor its neighbours has no row there.
    """
    columns = [{hit.row: hit.rank for hit in answer.hits[:_RANKS]} for answer in answers]
    below = max(map(len, columns), default=0) + 1
    hits: dict[int, AnswerHit] = {}
    for answer in answers:
        for hit in answer.hits[:_RANKS]:
            hits.setdefault(hit.row, hit)
    judged = any(hit.relevant is not None for hit in hits.values())
    leading = {answer.hits[0].row for answer in answers if answer.hits}
    rows = []
    for row, hit in hits.items():
        ranks = [column.get(row) for column in columns]
        name = harmless(hit.title.strip() or hit.document_id)
        for number, rank in enumerate(ranks):
            if not any(ranks[max(number - 1, 0) : number + 2]):
                continue
            label = f"{name} · {passage_number(hit.passage_id)}" if "#" in hit.passage_id else name
            rows.append(
                {
                    "id": hit.passage_id,
                    "label": label,
                    "lines": _two_lines(label),
                    "column": number,
                    "rank": rank,
                    "place": rank or below,
                    "ranks": ", ".join("–" if rank is None else str(rank) for rank in ranks),
                    "strong": bool(hit.relevant if judged else row in leading),
                    "side": "left" if number == 0 else "right" if number == len(answers) - 1 else "",
                }
            )
    return rows


def _two_lines(label: str) -> str:
    """A long label with a line break at the space of its title that is nearest to its middle."""
    title = label.rpartition(" · ")[0] or label
    spaces = [place for place, character in enumerate(title) if character == " "]
    if not spaces or len(label) <= _LINE:
        return label
    middle = min(spaces, key=lambda place: abs(2 * place - len(label)))
    return f"{label[:middle]}\n{label[middle + 1 :]}"


def rank_chart(answers: Sequence[Answer], dark: bool = False) -> alt.LayerChart | alt.FacetChart:
    """The chart of `rank_rows`; a click on a passage selects it."""
    import altair as alt  # large, and needed for this chart alone

    strong, faint, paper = _DARK if dark else _LIGHT
    rows = rank_rows(answers)
    names = [harmless(answer.pipeline) for answer in answers]
    depth = max((row["place"] for row in rows), default=1)
    last = len(names) - 1
    margin = f"{max(last, 1)} * ({_NARROW} ? 1.1 : 0.5)"  # columns: a third or a quarter of the width, each
    ends = [alt.ExprRef(f"-{margin}"), alt.ExprRef(f"{last} + {margin}")]
    places: dict[str, Any] = {
        "x": alt.X("column:Q", axis=None, scale=alt.Scale(domain=ends)),
        "y": alt.Y(
            "place:Q", axis=None, scale=alt.Scale(domain=[depth, alt.ExprRef(f"{_NARROW} ? -0.8 : -0.2")])
        ),
    }
    heads = [
        {"column": number, "up": 0.6 * (number % 2) if last > 1 else 0, "name": name}
        for number, name in enumerate(names)
    ]
    color = alt.when("datum.strong").then(alt.value(strong)).otherwise(alt.value(faint))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        **places, tooltip=[alt.Tooltip("label:N", title="passage"), alt.Tooltip("ranks:N", title="ranks")]
    )
    lines = base.mark_line(interpolate="monotone").encode(
        detail="id:N",
        color=color,
        opacity=alt.when("datum.strong").then(alt.value(1)).otherwise(alt.value(0.45)),
        strokeWidth=alt.when("datum.strong").then(alt.value(3)).otherwise(alt.value(1.5)),
    )
    ranked = base.transform_filter("datum.rank !== null")
    click = alt.selection_point(name=SELECTION, fields=["id"], empty=False)
    label: dict[str, Any] = {
        "fontSize": alt.ExprRef(f"{_NARROW} ? 11 : 13"),
        "limit": alt.ExprRef(f"width * ({_NARROW} ? 0.34 : 0.25) - 18"),
        "lineBreak": "\n",
    }
    named = ranked.transform_calculate(
        shown=f"{_NARROW} ? datum.lines : datum.label", broken="indexof(datum.shown, '\\n') > 0"
    )
    labels = [
        named.transform_filter(f"datum.side === '{side}' && datum.broken === {broken}")
        .mark_text(align=align, dx=dx, dy=dy, **label)
        .encode(text="shown:N", color=color)
        for side, align, dx in (("left", "right", -14), ("right", "left", 14))
        for broken, dy in (("false", 0), ("true", -6))
    ]
    return alt.layer(
        alt.Chart(alt.InlineData(values=heads))
        .transform_calculate(place=f"{_NARROW} ? -datum.up : 0")
        .mark_text(
            fontWeight=600,
            fontSize=alt.ExprRef(f"{_NARROW} ? 11 : 13"),
            limit=alt.ExprRef(f"width / ({_NARROW} ? 4 : {max(len(names), 2)})"),
        )
        .encode(**places, text="name:N", color=alt.value(faint)),
        lines,
        ranked.mark_circle(size=330, opacity=1, cursor="pointer").encode(color=color).add_params(click),
        ranked.mark_text(color=paper, fontSize=11, fontWeight=600).encode(text="rank:Q"),
        *labels,
    ).properties(
        height=(depth + 1) * _ROW,
        description=f"Ranks of the first ten in {', '.join(names)}; the columns below list them",
    )
