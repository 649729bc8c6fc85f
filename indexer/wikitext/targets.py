"""The target of a link.

Whether `[[Foo:Bar]]` is a page, a picture or a link to another language depends on the wiki. The reader of a
format supplies one function with the rules of its wiki.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The target of `[[...]]`. `id`: the document, None if only the text of the link stays."""

    id: str | None = None
    label: str = ""
    """The text of a link without a text of its own."""
    hidden: bool = False
    """Not shown: files, categories, the sidebar's links to other languages."""


Resolve = Callable[[str], Target]
"""From the source between `[[` and `|` to the target."""
