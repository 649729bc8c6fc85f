"""The target of a link, and the page that it is on.

Whether `[[Foo:Bar]]` is a page, a picture or a link to another language depends on the wiki. The reader of a
format supplies one function with the rules of its wiki.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """The target of `[[...]]`. `id`: the document, None if only the text of the link stays."""

    id: str | None = None
    label: str = ""
    """The text of a link without a text of its own."""
    hidden: bool = False
    """Not shown: files, categories, the sidebar's links to other languages."""
    aside: bool = False
    """Not shown if it has a line of its own: perhaps a category, or a link to another language."""
    reason: str = ""
    """Why there is no document, for the count of links that are dropped."""


Resolve = Callable[[str], Target]
"""From the source between `[[` and `|` to the target."""

OTHER_SITES = "links to other sites"
OTHER_WIKIS = "links to other wikis"
OTHER_NAMESPACES = "links to other namespaces"
SAME_PAGE = "links within a page"
WITHOUT_TEXT = "links without text"
NO_TITLE = "links whose target is no title"
TEMPLATES = "templates in running text"
IN_DROPPED = "links in tables, templates, notes and pictures"
"""Reasons under which dropped parts of a page are counted; templates with their names."""


@dataclass(frozen=True, slots=True)
class LinkingPage:
    """The names that the markup of a page can use, the rules for its templates, and its dropped parts.

    rules: see `templates.shape_by_rule`. dropped: the number of dropped parts by (reason, name). links: how
    many the source has ("written"), how many are files, categories or no links ("hidden"), or text ("shown").
    """

    title: str = ""
    site: str = ""
    rules: Mapping[str, str] = field(default_factory=dict)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    links: Counter[str] = field(default_factory=Counter)
