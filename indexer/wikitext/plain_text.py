"""From the rendered page to the text of its document: paragraphs, list items, no debris.

A blank line separates paragraphs, a line break list items, and lines of one paragraph are joined. Every step
is a list of edits, which move the links and sections along. Headings are sections and not part of the text,
and the marks of lists disappear.

Debris is left around removed markup: "(; born 1950)", "a , b", "1888. .". Text that authors write, such as
main(), an ellipsis or .NET, is not debris. One search matches everything once; where an edit makes new debris
("( ( ) )"), another search follows.
"""

import re
from collections.abc import Sequence

from linkseek.indexer.documents import Link
from linkseek.indexer.wikitext.characters import GAP, ITEM, KEPT, KEPT_END, MARKS
from linkseek.indexer.wikitext.edits import Edit, PageText

_WORD = re.compile(r"\w")
_STRAY = re.compile(r"[ ,;:.]+[ ](?=[\w(])")  # left by a template before it: ", born 1950"
_KEPT_MARK = re.compile(rf"{KEPT}(\d+){KEPT_END}")


_DEBRIS = re.compile(
    r"""
    (?=[(（,;、，；،؛\[\]{|}\t\x04] | [ ][ ).,;،؛])  # else all would be tried at every character
    (?:
    (?P<nothing>
        [ ](?<=\w\.[ ])\.(?!\S|[ ]\.)                # "1888. ."
      | [ ](?=[ )]|[,;،؛](?:[ \n)\]"”]|\Z))
      | [ ](?<!\.[ ])(?=\.(?![\w.]|[ ]\.))           # a space before a comma
      | \((?<![A-Za-z0-9_]\()[ ,;:/–—-]*\) | \([ ,;:/–—-]+\)  # brackets around nothing, not main()
      | （[ 、，；：–—-]*） | [、，；،؛](?=[、，；،؛）)])
      | [,;](?=[ ][–—][ ])                             # "(x; – 1982)"
      | ,(?=[ ]*(?:[,;][ ]|\))) | ;(?=[ ]*\)|[ ]+;)  # ", ,", "1950, )", "; ;"
      | \[[ ,;]*\]
      | \[\[ | \]\] | \{\{+ | \}\}+ | \{\| | \|\}    # brackets without a partner
    )
    | (?P<bracket> \([ ,;:،؛]+ ) | (?P<wide> （[ 、，；：]+ )  # "(; born 1950)"
    | (?P<semicolon> ;[ ]*,(?=[ ]) )
    | (?P<space> \t | \x04 )                         # \x04: `ITEM`, not at the start of a line
    )
    """,
    re.VERBOSE,
)
_DEBRIS_BECOMES = {"nothing": "", "bracket": "(", "wide": "（", "semicolon": ";", "space": " "}


def lay_out(page: PageText, kept: Sequence[str] = ()) -> PageText:
    """The page, cleaned. `kept`: the verbatim pieces that `tags` set aside."""
    page = page.edited(_lines_to_paragraphs(page.text))
    for _ in range(8):  # brackets can be empty inside empty ones: "( ( ) )"
        debris = _DEBRIS.finditer(page.text)
        edits = [(*match.span(), _DEBRIS_BECOMES[match.lastgroup or ""]) for match in debris]
        if not edits:
            break
        page = page.edited(edits)
    marks = _KEPT_MARK.finditer(page.text)
    page = page.edited([(*match.span(), kept[int(match[1])]) for match in marks])
    page = page._replace(links=tuple(_trimmed(page.text, link) for link in page.links))
    return page.edited([(len(page.text.rstrip()), len(page.text), "")])


def _trimmed(text: str, link: Link) -> Link:
    """The link without white space at its ends."""
    anchor = text[link.start : link.end]
    start = link.start + len(anchor) - len(anchor.lstrip())
    return Link(start, start + len(anchor.strip()), link.target)


def _lines_to_paragraphs(text: str) -> list[Edit]:
    """Lines to paragraphs (a blank line between them) and list items (a line each).

    Lines of punctuation alone, and rows of tables without a start, are dropped.
    """
    edits: list[Edit] = []
    position = previous_end = 0
    first, previous_item, blank, heading = True, False, False, False
    for line in text.split("\n"):
        content = line.strip(MARKS)
        start = position + (line.index(content[0]) if content else 0)
        item = ITEM in line[: start - position]
        position += len(line) + 1
        if not _WORD.search(content) or content[0] == "|":
            blank = True
            heading = heading or GAP in line
            continue
        if first:
            between = ""
        elif item and not heading and (previous_item or not blank):
            between = "\n"
        else:
            between = "\n\n" if blank or previous_item else " "
        end = start + len(content)
        if between != " " and (stray := _STRAY.match(text, start)):
            start = stray.end()
        edits.append((previous_end, start, between))
        previous_end, previous_item = end, item
        first = blank = heading = False
    edits.append((previous_end, len(text), ""))
    return edits
