"""What a link points to, as far as wikitext has to know.

Whether `[[Foo:Bar]]` is a page, a picture or a link to another language depends on the wiki. The
reader of a format knows its wiki and hands in one function; no rule of titles is in this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What `[[...]]` points to. `id`: the document, None where the link leaves only its text."""

    id: str | None = None
    label: str = ""
    """What is shown where the link has no text of its own."""
    hidden: bool = False
    """Nothing is shown: files, categories, the sidebar's links to other languages."""


Resolve = Callable[[str], Target]
"""What is between `[[` and `|`, as it is written, to its target."""
