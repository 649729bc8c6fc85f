"""python docs/figures.py: draw the pictures of docs/concepts.md, as SVG that is readable in light and dark.

A picture is 560 wide, so that its text can be read on a phone too. Colours come from one style sheet inside
each file, which follows the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures" / "concepts"
WIDTH = 560

_STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .note { fill: #57606a } tspan.link { fill: #0550ae; text-decoration: underline }
.good { fill: #116329 } .bad { fill: #a40e26 }
rect { fill: #f6f8fa; stroke: #8c959f } rect.model { fill: #ddf4ff; stroke: #0969da }
path { fill: none; stroke: #57606a; stroke-width: 1.5 } path.link { stroke: #0550ae; stroke-width: 2 }
marker path { fill: #57606a; stroke: none } marker.link path { fill: #0550ae }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .note { fill: #9da7b3 } tspan.link { fill: #79c0ff } .good { fill: #56d364 } .bad { fill: #ff9492 }
  rect { fill: #21262d; stroke: #6e7681 } rect.model { fill: #0c2d6b; stroke: #58a6ff }
  path { stroke: #9da7b3 } path.link { stroke: #79c0ff }
  marker path { fill: #9da7b3 } marker.link path { fill: #79c0ff }
}
"""


def text(x: float, y: float, words: str, look: str = "", anchor: str = "start") -> str:
    """A line of text; a part between [ and ] is drawn as a link."""
    parts = []
    for number, part in enumerate(words.replace("]", "[").split("[")):
        parts.append(f'<tspan class="link">{escape(part)}</tspan>' if number % 2 else escape(part))
    return f'<text x="{x}" y="{y}" class="{look}" text-anchor="{anchor}">{"".join(parts)}</text>'


def box(x: float, y: float, width: float, title: str, lines: Iterable[str] = ()) -> str:
    """A document or a passage: a frame with a title and lines of text, 22 high each."""
    rows = list(lines)
    height = (34 if rows else 30) + 22 * len(rows)
    return "".join(
        (
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>',
            text(x + 10, y + 21, title, "title"),
            *(text(x + 10, y + 43 + 22 * number, line) for number, line in enumerate(rows)),
        )
    )


def model(x: float, y: float, width: float, title: str) -> str:
    """A model: a frame of its own colour, 34 high."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="34" rx="17" class="model"/>' + text(
        x + width / 2, y + 22, title, anchor="middle"
    )


def arrow(course: str, look: str = "arrow") -> str:
    """A line along an SVG path that ends in an arrow."""
    return f'<path d="{course}" class="{look}" marker-end="url(#{look})"/>'


def picture(height: int, title: str, *parts: str) -> str:
    """A complete file. title: for those who cannot see it."""
    markers = "".join(
        f'<marker id="{look}" class="{look}" viewBox="0 0 8 8" refX="7" refY="4" '
        f'markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker>'
        for look in ("arrow", "link")
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><defs>{markers}</defs>{''.join(parts)}</svg>\n"
    )


def dual_link() -> str:
    """HLP's dual link, with a pair of the sample."""
    asked = [
        "The engine, she wrote, “weaves algebraical patterns just as the",
        "[Jacquard loom] weaves flowers and leaves”.",
    ]
    found = ["... which, as [Ada Lovelace] wrote, weaves algebra as the loom", "weaves flowers."]
    return picture(
        254,
        "Two passages of different articles whose links lead to each other's article",
        box(10, 8, 540, "Ada Lovelace", asked),
        text(550, 106, "query: the sentence with the link", "note", "end"),
        box(10, 146, 540, "Jacquard loom", found),
        text(550, 244, "passage to find", "note", "end"),
        arrow("M60 80V140", "link"),
        arrow("M165 174V92", "link"),
    )


def co_mention() -> str:
    """HLP's co-mention, with a pair of the sample."""
    asked = ["There was no writing with letters; officials tied numbers into the", "knots of the [quipu]."]
    found = [
        "The armies of the [Inca Empire] marched on chuño ... Stocks of",
        "them were entered on the [quipu].",
    ]
    return picture(
        280,
        "Two passages that link to the same third article; one of them also links to the other's article",
        box(10, 8, 540, "C: Inca Empire", asked),
        text(410, 106, "query", "note", "end"),
        box(430, 114, 120, "E: Quipu"),
        box(10, 172, 540, "D: Potato", found),
        text(410, 270, "passage to find", "note", "end"),
        arrow("M168 72H490V108", "link"),
        arrow("M284 237H520V150", "link"),
        arrow("M190 200V92", "link"),
    )


def bi_encoder() -> str:
    """Two texts, two vectors, one product."""
    return picture(
        250,
        "A bi-encoder makes a vector of each text; the product of two vectors is the score",
        box(10, 8, 250, "question"),
        box(300, 8, 250, "passage"),
        model(60, 74, 150, "encoder"),
        model(350, 74, 150, "encoder"),
        text(135, 146, "(.12, -.40, .07, ...)", anchor="middle"),
        text(425, 146, "(.10, -.38, .21, ...)", anchor="middle"),
        text(425, 168, "stored in the index", "note", "middle"),
        text(280, 222, "score: the dot product", "title", "middle"),
        text(280, 244, "the two texts never meet; only their vectors do", "note", "middle"),
        *(arrow(f"M{x} 38V70") + arrow(f"M{x} 108V128") for x in (135, 425)),
        arrow("M135 154V178L240 202"),
        arrow("M425 176V182L320 202"),
    )


def contrast() -> str:
    """Two pairs for a cross-encoder, with an example of PHP from the sample."""
    query = [
        "... was a runner from [Ethiopia] and the first man to win the",
        "marathon at the Olympic Games twice ...",
    ]
    return picture(
        324,
        "A contrast: a cross-encoder scores the query with two documents; one pair should score higher",
        box(10, 8, 540, "query: a passage of “Abebe Bikila”", query),
        box(10, 122, 260, "Ethiopia", ["this passage links to it"]),
        box(290, 122, 260, "Alan Turing", ["only a later passage of", "“Abebe Bikila” links to it"]),
        model(40, 230, 200, "cross-encoder"),
        model(320, 230, 200, "cross-encoder"),
        text(140, 294, "higher", "title good", "middle"),
        text(420, 294, "lower", "title bad", "middle"),
        text(280, 318, "the model learns the order of the two scores", "note", "middle"),
        *(
            arrow(f"M{x} 86V118") + arrow(f"M{x} {y}V226") + arrow(f"M{x} 264V280")
            for x, y in ((140, 178), (420, 200))
        ),
    )


def fusion() -> str:
    """Reciprocal rank fusion of two rankings."""
    words, vectors = "ABC", "CAD"

    def score(name: str) -> float:
        return sum(1 / (61 + ranking.index(name)) for ranking in (words, vectors) if name in ranking)

    fused = sorted({*words, *vectors}, key=score, reverse=True)
    parts = []
    for x, title, names in (
        (10, "BM25: words", words),
        (210, "dense: vectors", vectors),
        (410, "fused", fused),
    ):
        rows = [f"{row}   passage {name}" for row, name in enumerate(names, start=1)]
        parts.append(box(x, 8, 150, title, rows))
    return picture(
        164,
        "Two rankings joined into one by the ranks of their passages",
        *parts,
        text(182, 70, "+", "title", "middle"),
        text(378, 70, "=", "title", "middle"),
        text(10, 154, "rank r adds 1 / (60 + r); A leads, because both rank it high", "note"),
    )


FIGURES = {
    "dual-link": dual_link,
    "co-mention": co_mention,
    "bi-encoder": bi_encoder,
    "contrast": contrast,
    "fusion": fusion,
}


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        (PICTURES / f"{name}.svg").write_text(draw(), "utf-8")
