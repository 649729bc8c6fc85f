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

from __future__ import annotations

from linkseek.indexer.wikitext.brackets import balance_brackets
from linkseek.indexer.wikitext.characters import without_controls
from linkseek.indexer.wikitext.edits import PageText
from linkseek.indexer.wikitext.lines import drop_tables, mark_lines
from linkseek.indexer.wikitext.link_targets import IN_DROPPED, WITHOUT_TEXT, LinkingPage, Resolve
from linkseek.indexer.wikitext.magic import replace_variables
from linkseek.indexer.wikitext.plain_text import lay_out
from linkseek.indexer.wikitext.render import render
from linkseek.indexer.wikitext.tags import replace_tags, take_out_extensions


def read_wikitext(source: str, resolve: Resolve, page: LinkingPage | None = None) -> PageText:
    """Text, links and sections of a page; what is dropped is counted in `page`."""
    page = page or LinkingPage()
    source, kept, noted = take_out_extensions(without_controls(source))
    page.links["written"] += noted + source.count("[[")
    source = balance_brackets(replace_variables(replace_tags(source), page), resolve, page)
    source = mark_lines(drop_tables(source))
    rendered = render(source, resolve, kept, page)
    shown = lay_out(rendered, kept)
    page.dropped[WITHOUT_TEXT, ""] += len(rendered.links) - len(shown.links)
    page.dropped[IN_DROPPED, ""] += max(0, page.links["written"] - page.links["hidden"] - page.links["shown"])
    return shown
