"""HTML tags and magic words: a tag becomes a space, a line, a paragraph or nothing.

What is between two tags stays; `extensions` has taken out those whose content does not. A tag that
MediaWiki does not know is text: `a <foo> b`.

Source: https://www.mediawiki.org/wiki/Help:Formatting.
"""

from __future__ import annotations

import re

from indexer.wikitext.characters import GAP, ITEM, raised
from indexer.wikitext.extensions import DROPPED, RAW

# fmt: off
_INLINE = frozenset([
    "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "mark", "noinclude", "onlyinclude", "q", "rb", "rp", "rt", "ruby", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
    *RAW, *DROPPED,
])
_BLOCK = frozenset([
    "blockquote", "caption", "center", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol",
    "p", "poem", "tbody", "td", "th", "thead", "tr", "ul",
])
# fmt: on
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])[^<>]*>|__[^\W\d_]{3,40}__")
_SUPERSCRIPT = re.compile(r"<sup>\s*([-+−–]?\d{1,5}[-+−]?)\s*</sup>", re.IGNORECASE)


def replace_tags(source: str) -> str:
    """Every tag by the white space it stands for, and numbers in `<sup>` by raised ones."""
    source = _SUPERSCRIPT.sub(lambda match: raised(match[1]), source)
    return _TAG.sub(_replace_tag, source)


def _replace_tag(match: re.Match[str]) -> str:
    if match[1] is None:  # __TOC__; __init__ is somebody's text
        return "" if match[0] == match[0].upper() else match[0]
    name = match[1].lower()
    if name == "br":
        return " "
    if name in ("li", "dt", "dd"):
        return f"\n{ITEM}"
    if name in _BLOCK:
        return "\n\n"
    return GAP if name in _INLINE else match[0]
