"""Comments and extension tags, which MediaWiki takes out before it looks at anything else.

What is inside `<ref>` or `<nowiki>` is no markup, whatever it looks like. What is shown as it stands
(`RAW`) is put aside here, and `layout` puts it back. Left out on purpose: references, formulas,
galleries, HTML tables and the rest of `DROPPED`, since none of them is running text.
"""

from __future__ import annotations

import html
import re

from indexer.wikitext.characters import GAP, KEPT, KEPT_END

RAW = ("nowiki", "pre", "source", "syntaxhighlight")  # their content is text and not markup
DROPPED = (
    "ref", "references", "math", "chem", "ce", "gallery", "timeline", "score", "imagemap", "hiero",
    "graph", "mapframe", "maplink", "templatedata", "templatestyles", "categorytree", "inputbox",
    "section", "includeonly", "style", "table",
)  # fmt: skip
_EXTENSION = re.compile(
    rf"(?=[< \t])(?:(?<=\n)[ \t]*+(?><!--.*?-->)[ \t]*+\n|<!--.*?(?:-->|\Z)"
    rf"|<({'|'.join(RAW + DROPPED)})(?=[\s/>])([^<>]*)>)",
    re.IGNORECASE | re.DOTALL,
)


def take_out_extensions(source: str) -> tuple[str, list[str]]:
    """Drop comments and the tags of `DROPPED` with their content; put aside that of `RAW`.

    What is put aside is the list, and a number between `KEPT` and `KEPT_END` stands in its place.
    """
    pieces: list[str] = []
    kept: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while match := _EXTENSION.search(source, position):
        pieces.append(source[position : match.start()])
        position = match.end()
        if match[1] is None:
            continue
        name = match[1].lower()
        content = ""
        if not match[2].endswith("/") and name not in unclosed:
            closing = _closing(source, name, position)
            if closing is None:
                unclosed.add(name)  # an opening tag alone is dropped without what follows it
            else:
                content = source[position : closing.start()]
                position = closing.end()
        pieces.append(GAP)
        if name in RAW and content.strip():
            if name in ("nowiki", "pre"):
                content = html.unescape(content).replace("\xa0", " ")
            around = "" if name == "nowiki" or "\n" not in content else "\n\n"
            pieces.append(f"{around}{KEPT}{len(kept)}{KEPT_END}{around}")
            kept.append(content.strip("\n") if around else content)
    pieces.append(source[position:])
    return "".join(pieces), kept


def _closing(source: str, name: str, position: int) -> re.Match[str] | None:
    # Only tables nest: for the others MediaWiki, too, takes the first closing tag.
    depth = 1
    for match in re.compile(rf"<(/)?{name}(?(1)\s*|(?:\s[^<>]*)?)>", re.IGNORECASE).finditer(
        source, position
    ):
        depth += -1 if match[1] else name == "table"
        if not depth:
            return match
    return None
