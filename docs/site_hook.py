"""Hook of mkdocs: pages outside of docs/, such as CONTRIBUTING.md, become pages of the site.

Pages link to them by their place in the repository, which is right on a forge; here these links are turned
to their pages on the site.
"""

from __future__ import annotations

import os
import re
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

_LINK = re.compile(r"(\]\()([\w./-]+?\.md)(#[\w-]*)?(\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, without a place in the navigation."""
    for source, place in OUTSIDE.items():
        page = File.generated(config, place, abs_src_path=str(ROOT / source))
        page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    return files


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
