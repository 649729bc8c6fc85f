"""The ranks of the first ten passages in every pipeline, as lines from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.report.scales import shorten, text_width
from app.report.svg import at, element, image, path, title, words
from app.report.text import clean
from app.service import Answer, Hit
from app.web.state import View, why_address

_RANKS = 10
_ROW, _HEAD, _FONT, _DOT = 26.0, 30.0, 13.0, 9.0


@dataclass(frozen=True, slots=True)
class Frame:
    """Width of the drawing, and of the labels at each side; all in units of the drawing."""

    width: float
    labels: float


WIDE, NARROW = Frame(1100, 250), Frame(360, 92)


def ranks_svg(answers: Sequence[Answer], view: View, index: str, frame: Frame = WIDE) -> str:
    """A line for each passage that one of the answers has among its first ten.

    What is further down than that in a column leaves the drawing at its lower edge. Passages that hold an
    answer stand out, or where answers are not known, each pipeline's first.
    """
    columns = [{hit.row: hit.rank for hit in answer.hits[:_RANKS]} for answer in answers]
    most = max([len(column) for column in columns], default=0)
    first = frame.labels + 12
    step = (frame.width - 2 * first) / max(len(answers) - 1, 1)
    places = [first + number * step for number in range(len(answers))]
    height = _HEAD + (most + 1) * _ROW
    hits: dict[int, Hit] = {}
    for answer in answers:
        for hit in answer.hits[:_RANKS]:
            hits.setdefault(hit.row, hit)
    judged = any(hit.right is not None for hit in hits.values())
    leading = {answer.hits[0].row for answer in answers if answer.hits}
    strong = {row for row, hit in hits.items() if (hit.right if judged else row in leading)}
    ordered = sorted(hits, key=lambda row: row in strong)  # the strong ones lie on top
    lines = []
    for row in ordered:
        ranks = [column.get(row) for column in columns]
        heights = [_HEAD + ((most + 1 if rank is None else rank) - 0.5) * _ROW for rank in ranks]
        address = why_address(view, index, hits[row].passage_id)
        lines.append(_line(hits[row], ranks, places, heights, frame, row in strong, address))
    names = [
        words(shorten(answer.pipeline, max(step - 8, 60), _FONT), x, 12, _FONT, "name", anchor="middle")
        for answer, x in zip(answers, places, strict=True)
    ]
    pipelines = ", ".join(answer.pipeline for answer in answers)
    return image(
        frame.width, height, "".join([*names, *lines]), "ls-ranks", f"Ranks of the first ten in {pipelines}"
    ).replace(' role="img"', ' role="group"')


def _line(
    hit: Hit,
    ranks: Sequence[int | None],
    places: Sequence[float],
    heights: Sequence[float],
    frame: Frame,
    strong: bool,
    address: str,
) -> str:
    """A passage: its line, a dot with the rank in each column, and its title at both ends."""
    parts = []
    for left, right in zip(range(len(places)), range(1, len(places)), strict=False):
        if ranks[left] is None and ranks[right] is None:
            continue
        middle = (places[left] + places[right]) / 2
        steps = (
            f"M{at(places[left])} {at(heights[left])}C{at(middle)} {at(heights[left])} "
            f"{at(middle)} {at(heights[right])} {at(places[right])} {at(heights[right])}"
        )
        parts.append(path("line", steps))
    for rank, x, y in zip(ranks, places, heights, strict=True):
        if rank is not None:
            parts.append(element("circle", {"cx": at(x), "cy": at(y), "r": at(_DOT)}))
            parts.append(words(str(rank), x, y, 11, "rank", anchor="middle"))
    name, number = hit.title.strip() or hit.document_id, _number(hit.passage_id)
    label = _fitting(name, number, frame.labels - 8)
    if ranks[0] is not None:
        parts.append(words(label, frame.labels - 4, heights[0], _FONT, "label", anchor="end"))
    if ranks[-1] is not None and len(ranks) > 1:
        parts.append(words(label, frame.width - frame.labels + 4, heights[-1], _FONT, "label"))
    told = ", ".join("–" if rank is None else str(rank) for rank in ranks)
    link = {"href": address, "class": "strong" if strong else "faint"}
    return element("a", link, title(f"{name}{number}: {told}") + "".join(parts))


def _fitting(name: str, number: str, width: float) -> str:
    """A title with the number of its passage; of a longer title as much of its beginning as fits."""
    kept = clean(name)
    while len(kept) > 1 and text_width(f"{kept}…{number}", _FONT) > width:
        kept = kept[:-1]
    return f"{kept}{'…' if kept != clean(name) else ''}{number}"


def _number(passage_id: str) -> str:
    """Which passage of its document: " 3" for the third."""
    _, mark, number = passage_id.rpartition("#")
    return f" · {int(number) + 1}" if mark and number.isdecimal() else ""
