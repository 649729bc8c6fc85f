"""What hatchling adds to the metadata: the README with absolute links, as an index of packages shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FILES = r"!\[[^\[\]]*\]\(|<(?:img|source)\b[^>]*?\b(?:src|srcset)=\""
_PAGES = r"\]\(|^\[[^\]]+\]:\s*|<a\b[^>]*?\bhref=\""
_LINK = re.compile(rf"(?:(?P<file>{_FILES})|(?P<page>{_PAGES}))(?P<target>[^)\s\">]+)", re.MULTILINE)
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


class ReadmeHook(MetadataHookInterface):
    """Sets `project.readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md, whose links are relative to the repository, into the metadata."""
        text = Path(self.root, "README.md").read_text("utf-8")
        source = f"{metadata['urls']['Source']}/{{}}/v{metadata['version']}/"
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, source)}


def with_absolute_links(text: str, source: str) -> str:
    """Markdown whose relative links and pictures lead to a URL. Code between fences stays as it is.

    source: the URL of the folder; {} in it stands for "blob" (a page about a file) or "raw" (the file).
    """

    def absolute(link: re.Match[str]) -> str:
        if _ABSOLUTE.match(link["target"]):
            return link[0]
        kind, before = ("raw", link["file"]) if link["file"] else ("blob", link["page"])
        return before + source.format(kind) + link["target"].removeprefix("./")

    pieces = _FENCE.split(text)
    pieces[::2] = [_LINK.sub(absolute, piece) for piece in pieces[::2]]
    return "".join(pieces)
