"""Tags and comments: extension tags, which MediaWiki takes out before anything else, then HTML tags.

The content of `<ref>` or `<nowiki>` is not markup, even if it looks like it. Content that is shown verbatim
(`RAW`) is set aside, and `layout` puts it back. References, formulas, galleries, HTML tables and the rest of
`DROPPED` are not running text and disappear. An HTML tag becomes a space, a line, a paragraph or nothing, and
the text between two tags stays. A tag that MediaWiki does not know is text: `a <foo> b`.

Source: https://www.mediawiki.org/wiki/Help:Formatting.
"""

import html
import re
import tomllib
from pathlib import Path

from linkseek.indexer.wikitext.characters import GAP, ITEM, KEPT, KEPT_END, raised

_NAMES: dict[str, str] = tomllib.loads(Path(__file__).with_name("tags.toml").read_text("utf-8"))
RAW, DROPPED, _INLINE, _BLOCK = (
    tuple(_NAMES[kind].split()) for kind in ("raw", "dropped", "inline", "block")
)
_BECOMES = dict.fromkeys(_INLINE, GAP) | dict.fromkeys(_BLOCK, "\n\n")
_BECOMES |= dict.fromkeys(("li", "dt", "dd"), f"\n{ITEM}") | {"br": " "}
_EXTENSION = re.compile(
    rf"(?=[< \t])(?:(?<=\n)[ \t]*+(?><!--.*?-->)[ \t]*+\n|<!--.*?(?:-->|\Z)"
    rf"|<({'|'.join(RAW + DROPPED)})(?=[\s/>])([^<>]*)>)",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(
    r"</?([a-zA-Z][a-zA-Z0-9-]*)(?=[\s/>:])[^<>]*>|__[^\W\d_]{3,40}__"
    r"|^__[^\s<>{}\[\]|]{3,60}__(?=[ \t]*$)",
    re.MULTILINE,
)
_TABBER = re.compile(r"<tabber\b[^<>]*>(.*?)</tabber\s*>", re.IGNORECASE | re.DOTALL)
_MAX_TABBERS = 500  # each is searched for its end
_TAB_LABEL = re.compile(r"(?:\A|\|-\|)\s*([^=\n|{}\[\]]+)=")
_SUPERSCRIPT = re.compile(r"<sup>\s*([-+−–]?\d{1,5}[-+−]?)\s*</sup>", re.IGNORECASE)


def take_out_extensions(source: str) -> tuple[str, list[str], int]:
    """Drop comments and the tags of `DROPPED` with their content; set aside the content of `RAW`.

    The content of `RAW` is returned as a list; in the source its index stands between `KEPT` and `KEPT_END`.
    The last value is the number of links in the content of `DROPPED`.
    """
    links = 0
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
        links += content.count("[[") if name not in RAW else 0
        if name in RAW and content.strip():
            if name in ("nowiki", "pre"):
                content = html.unescape(content).replace("\xa0", " ")
            around = "" if name == "nowiki" or "\n" not in content else "\n\n"
            pieces.append(f"{around}{KEPT}{len(kept)}{KEPT_END}{around}")
            kept.append(content.strip("\n") if around else content)
    pieces.append(source[position:])
    return "".join(pieces), kept, links


def _closing(source: str, name: str, position: int) -> re.Match[str] | None:
    # Only tables nest: for the others MediaWiki, too, takes the first closing tag.
    depth = 1
    tag = re.compile(rf"<(/)?{name}(?(1)\s*|(?:\s[^<>]*)?)>", re.IGNORECASE)
    for match in tag.finditer(source, position):
        depth += -1 if match[1] else name == "table"
        if not depth:
            return match
    return None


def replace_tags(source: str) -> str:
    """Every tag by the white space it stands for, and numbers in `<sup>` by raised ones."""
    source = _SUPERSCRIPT.sub(lambda match: raised(match[1]), source)
    if 0 < source.count("<tabber") <= _MAX_TABBERS:
        source = _TABBER.sub(lambda match: "\n\n" + _TAB_LABEL.sub(r"\n\n\1\n\n", match[1]), source)
    return _TAG.sub(_replace_tag, source)


def _replace_tag(match: re.Match[str]) -> str:
    if match[1] is None:  # __TOC__, on its own line also __KEIN_TOC__; __init__ is somebody's text
        return "" if match[0] == match[0].upper() else match[0]
    # <name/> is an extension's: it has no text.
    return _BECOMES.get(match[1].lower(), GAP if match[0].endswith("/>") else match[0])
