"""Wikitext to running text, with the exact character span of every link.

The steps are in the order of MediaWiki's own parser. Comments and extension tags are taken out first (the
content of `<ref>` or `<nowiki>` is not markup), then come tags, templates and files by their brackets,
tables, and lines. The rest is walked once, and the rendered text is laid out. Titles and namespaces belong to
the wiki (see `targets`).

Not covered on purpose: templates are not expanded (a few show their argument, all others are dropped),
and tables, references, files with their captions, formulas and galleries are dropped. Headings are
sections and not part of the text.

Source: https://www.mediawiki.org/wiki/Help:Formatting and .../Markup_spec.
"""

from linkseek.indexer.wikitext.render import read_wikitext

__all__ = ["read_wikitext"]
