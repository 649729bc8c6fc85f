"""Files from which a generator makes web pages, next to the pages themselves."""

from __future__ import annotations

import codecs
import re

_CONTROL = re.compile(rb"\{%.*?%\}|\{\{[^{}]*\}\}|<%.*?%>|<\?(?:php\b|=).*?(?:\?>|\Z)", re.DOTALL)
_CODE = re.compile(rb"<(script|style|pre|code|textarea)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_NAME = re.compile(rb"<(title|h1)\b[^<>]*>(.*?)</\1", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(rb"<[^<>]*>")
_BYTES_PER_CONTROL = 60  # of text; what pages write about templates has far more, templates have less


def is_template(content: bytes) -> bool:
    """Whether a generator makes pages from this file, rather than that it is one.

    It has control tags ({{...}}, {%...%}, <%...%>, <?php) outside code, and either begins with one, or has
    little text and a title or first heading that is missing or holds one. In doubt it is a page.
    """
    if not _CONTROL.search(content):
        return False
    shown = _CODE.sub(b"", content.removeprefix(codecs.BOM_UTF8)).lstrip()
    if _CONTROL.match(shown):
        return True
    name = _NAME.search(shown)
    text, controls = _CONTROL.subn(b"", shown)
    named = name is not None and not _CONTROL.search(name[2]) and _TAG.sub(b"", name[2]).strip()
    return bool(controls and not named) and len(_TAG.sub(b"", text)) < _BYTES_PER_CONTROL * controls
