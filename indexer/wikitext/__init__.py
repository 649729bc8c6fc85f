"""Wikitext to running text, with the exact character span of every link.

A reader of a format calls `read.read_wikitext`, which shows the order of the steps. The files in
reading order, each of which imports only files above it:

    targets     what a link points to: the wiki's rules come from outside
    characters  the characters with a meaning of their own while a page is worked on
    edits       edits of a text, and where its spans went
    extensions  comments, and extension tags with what is between them
    tags        HTML tags and magic words
    templates   the templates whose argument is running text
    brackets    external links, templates, files, brackets without a partner
    tables      tables
    lines       apostrophes, lists, headings
    debris      what is left around something that was taken out
    layout      lines to paragraphs and list items, without debris
    render      the walk over the parsed page, before it is laid out
    read        the whole way, in the order of MediaWiki's own parser

Left out on purpose: templates are not expanded (a few show their argument, all others are dropped),
and tables, references, files with their captions, formulas and galleries are dropped. Headings are
sections and not part of the text.
"""
