"""The source of an HTML page: its encoding, and a limit on its depth.

Source: the HTML standard, section 13.2.3 (https://html.spec.whatwg.org/#determining-the-character-encoding).
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

from indexer.readers.reader import damaged

_BOMS = [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")]
_CHARSET = re.compile(
    rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_ENCODINGS = re.compile(
    r"utf-?8|windows-125\d|cp125\d|cp866|iso-?8859-\d+|koi8-[ru]|mac(?:intosh|-?roman)|gbk|gb2312|gb18030|"
    r"big5(?:-hkscs)?|euc-(?:jp|kr)|shift[_-]jis|sjis|iso-2022-jp"
)
_LATIN = re.compile("iso-?8859-1|latin-?1|us-ascii|ascii")


def decode(content: bytes) -> str:
    """A page as text: by its byte order mark, by what it declares, as UTF-8, or as windows-1252.

    Never fails: bytes that the encoding does not have become U+FFFD. iso-8859-1 means windows-1252, as in
    the encoding standard.
    """
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    match = _CHARSET.search(content[:4096])
    declared = match[1].decode("ascii", "replace").lower() if match else ""
    if _LATIN.fullmatch(declared):
        return content.decode("windows-1252", "replace")
    if _ENCODINGS.fullmatch(declared):
        with suppress(LookupError):
            return content.decode(declared, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("windows-1252", "replace")


_DEEPEST = 1000  # browsers stop at 512
_BLOCK = re.compile(
    r"<(/?)(?:div|section|article|main|nav|aside|header|footer|figure|figcaption|details|summary|center|"
    r"blockquote|ul|ol|dl|menu|dir|pre|address|fieldset|hgroup|search|listing|table|h[1-6])(?=[\s/>])",
    re.I,
)


def check_depth(source: str) -> None:
    """Raise `InputError` for blocks nested so deep that parsing takes quadratic time."""
    depth = 0
    for match in _BLOCK.finditer(source):
        depth = max(0, depth - 1) if match[1] else depth + 1
        if depth > _DEEPEST:
            raise damaged(f"elements are nested more than {_DEEPEST:,} deep", "page")
