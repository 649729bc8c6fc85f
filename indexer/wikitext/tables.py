"""Tables, `{| ... |}`, are dropped with all they hold: their cells are no sentences.

Only a line can begin or end one. Left out: the rows of a table that is never closed, of which only
the first line goes, or that was never opened. Where it ends nobody knows; `layout` drops every line
that begins as a row.
"""

from __future__ import annotations

import re

from indexer.wikitext.characters import GAP
from indexer.wikitext.edits import Span, cut

_TABLE_EDGE = re.compile(rf"^[ \t:*#{GAP}]*(?:(\{{\|)|\|\}}(?!\}}))[^\n]*", re.MULTILINE)


def drop_tables(source: str) -> str:
    """The source with a blank line for each table."""
    cuts: list[Span] = []
    stack: list[re.Match[str]] = []
    for match in _TABLE_EDGE.finditer(source):
        if match[1]:
            stack.append(match)
        elif stack:
            # What stands behind the end of a table belongs to the page.
            end = source.index("|}", match.start()) + 2
            cuts.append((stack.pop().start(), end))
    cuts += [(match.start(), match.end()) for match in stack]
    return cut(source, cuts, "\n\n") if cuts else source
