"""Wikitext to running text, with the exact character span of every link.

Readers call `read.read_wikitext`, which shows the order of the steps. The files in
reading order, each of which imports only files above it:

    targets     the target of a link, by the rules of its wiki
    characters  characters with a special meaning while a page is processed
    edits       edits of a text, and how its spans move
    tags        comments, extension tags with their content, HTML tags and magic words
    templates   the templates whose argument is running text
    brackets    external links, templates, files, brackets without a partner
    lines       tables, apostrophes, lists, headings
    layout      lines to paragraphs and list items, without the debris of removed markup
    render      the walk over the parsed page, before it is laid out
    read        the whole way, in the order of MediaWiki's own parser

Not covered on purpose: templates are not expanded (a few show their argument, all others are dropped),
and tables, references, files with their captions, formulas and galleries are dropped. Headings are
sections and not part of the text.
"""
