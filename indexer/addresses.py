"""Addresses of published pages and of their sections."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin

_MARKDOWN = re.compile(r"(?:/(?:index|readme|_index))?\.(?:md|markdown|mdx)\Z", re.I)


def page_address(base: str, path: str) -> str:
    """The address of a page by its path in the folder of its site. base: the address of the folder.

    Pages of Markdown are expected as generators of sites publish them: guide/install/ for guide/install.md.
    """
    published = _MARKDOWN.sub("/", f"/{path}").lstrip("/")
    return urljoin(base if base.endswith("/") else f"{base}/", quote(published))


def section_address(page: str, anchor: str) -> str:
    """The address of a section of a page by its anchor."""
    return f"{page.partition('#')[0]}#{quote(anchor)}"
