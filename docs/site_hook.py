"""Hook of mkdocs: pages outside of docs/ become pages of the site, and cells of tables know their columns.

Pages link to them by their place in the repository, which is right on a forge; here these links are turned
to their pages on the site. On a telephone site.css shows a row as a list, for which each cell has its head.
"""

from __future__ import annotations

import os
import re
from html import escape, unescape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "samples/clients/README.md": "clients.md",
    **{
        str(card.relative_to(ROOT)): f"models/{card.parent.name}.md"
        for card in sorted(ROOT.glob("re*er/adapters/*/README.md"))
    },
}
"""Places in the repository, with their place on the site."""

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<td\b")
_TAG = re.compile(r"<[^>]+>")
_LINK = re.compile(r"(\]\()([\w./-]+?\.md)(#[\w-]*)?(\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, without a place in the navigation."""
    for source, place in OUTSIDE.items():
        page = File.generated(config, place, abs_src_path=str(ROOT / source))
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give the cells of tables the heads of their columns."""
    return _TABLE.sub(_labelled, html)


def _labelled(table: re.Match[str]) -> str:
    heads = [unescape(_TAG.sub("", head)).strip() for head in _HEAD.findall(table[0])]

    def row(match: re.Match[str]) -> str:
        labels = iter(heads)
        return _CELL.sub(lambda _: f'<td data-label="{escape(next(labels, ""))}"', match[0])

    return _ROW.sub(row, table[0])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to pages, which are relative to the repository, to the places of the pages on the site."""
    sources = {place: ROOT / source for source, place in OUTSIDE.items()}
    places = {source: place for place, source in sources.items()}
    here = sources.get(page.file.src_uri, ROOT / "docs" / page.file.src_uri)

    def on_the_site(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(here.parent / match[2]))
        docs = ROOT / "docs"
        place = target.relative_to(docs) if target.is_relative_to(docs) else places.get(target)
        if place is None:
            return match[0]  # mkdocs reports it
        start = Path(page.file.src_uri).parent
        return f"{match[1]}{os.path.relpath(place, start)}{match[3] or ''}{match[4]}"

    return _LINK.sub(on_the_site, markdown)
