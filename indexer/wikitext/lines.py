"""The markup that MediaWiki reads line by line: tables, apostrophes, lists, rulers, headings.

Tables, `{| ... |}`, are dropped with their content: their cells are not sentences. Of a table without an end
only the first line is dropped here; `layout` drops every line that begins as a row. Italics and bold
disappear, and of a list only the fact that an item begins stays (not its kind or depth). Lines are only
marked here; `layout` joins them to paragraphs.

Source: https://www.mediawiki.org/wiki/Help:Formatting and .../Markup_spec.
"""

import re

from linkseek.indexer.wikitext.characters import GAP, ITEM
from linkseek.indexer.wikitext.edits import Span, cut

_TABLE_EDGE = re.compile(rf"^[ \t:*#{GAP}]*(?:(\{{\|)|\|\}}(?!\}}))[^\n]*", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^.*''.*$", re.MULTILINE)
_QUOTES = re.compile(r"'{2,}")
_INDENTED = re.compile(rf"^ +(?=[^\s|}}{GAP}])", re.MULTILINE)
_GAPS = re.compile(rf"{GAP}[ \t{GAP}]*+(?P<end>$)?", re.MULTILINE)  # a run at once: each is visited once
_LINES = (
    (r"(?m)^-{4,}", "\n"),
    # "; term : explanation"
    (r"(?m)^([*#:]*;(?:[^\n:\[\]{}]*|[^\n]*? )):(?!//)[ \t]*(?=\S)", rf"\1\n{ITEM}"),
    (r"(?m)^[*#:;]+[ \t]*", ITEM),
)
_VARIANTS = re.compile(r"-\{(?!\{)((?:[^{}]++|\{\{[^{}]*+\}\})*+)\}-")
_FLAGS = re.compile(
    r"\s*(?:[ATRDHN+-]|[a-z]{2,3}(?:-[a-z]+)*)?(?:\s*;\s*(?:[ATRDHN+-]|[a-z]{2,3}(?:-[a-z]+)*))*\s*\Z"
)
_CODE = r"(?:zh|sr|sh|kk|ku|gan|wuu|iu|shi|tg|uz|crh|ban|tly|mni|zgh|en)(?:-[a-z]+)*"
_PAIR = re.compile(rf"(?:\A|;)\s*(?:[^;:=]*=>\s*)?({_CODE})\s*:")
_FIRST_VARIANTS = ("zh-hans", "zh-cn", "sr-ec", "kk-cyrl", "ku-latn")


def drop_tables(source: str) -> str:
    """The source with a blank line for each table."""
    cuts: list[Span] = []
    stack: list[re.Match[str]] = []
    for match in _TABLE_EDGE.finditer(source):
        if match[1]:
            stack.append(match)
        elif stack:
            # The rest of the line after the end of a table belongs to the page.
            end = source.index("|}", match.start()) + 2
            cuts.append((stack.pop().start(), end))
    cuts += [(match.start(), match.end()) for match in stack]
    return cut(source, cuts, "\n\n") if cuts else source


def mark_lines(source: str) -> str:
    """The source without bold and italics, with marked items."""
    source = _QUOTED_LINE.sub(_drop_quotes, source)
    source = _INDENTED.sub(ITEM, source)  # MediaWiki, too, shows such a line as a line
    source = _GAPS.sub(_drop_gaps, source)
    for pattern, replacement in _LINES:
        source = re.sub(pattern, replacement, source)
    for _ in range(3):  # one inside another
        source = _VARIANTS.sub(_variant, source)
    return source


def _variant(markup: re.Match[str]) -> str:
    """The text of -{flags|text}-: rules (H, T, D, N, -) show nothing, -{zh-hans:A; zh-hant:B}- one
    variant."""
    flags, bar, text = markup[1].partition("|")
    if not bar or not _FLAGS.match(flags):
        flags, text = "", markup[1]
    wanted = {flag.strip() for flag in flags.split(";")}
    if "R" in wanted:
        return text
    if wanted & {"H", "D", "N", "-"} or wanted == {"T"}:
        return ""
    pairs = list(_PAIR.finditer(text))
    if not pairs or text[: pairs[0].start()].strip():
        return text
    ends = [pair.start() for pair in pairs[1:]] + [len(text)]
    variants = {pair[1]: text[pair.end() : end].strip(" ;\n") for pair, end in zip(pairs, ends, strict=True)}
    return variants[next(filter(variants.__contains__, _FIRST_VARIANTS), pairs[0][1])]


def _drop_gaps(run: re.Match[str]) -> str:
    """Drop gaps at the ends of a line: "{{anchor|x}}== Heading ==" is a heading."""
    if run["end"] is not None:
        return ""
    begins_line = run.start() == 0 or run.string[run.start() - 1] == "\n"
    return run[0].lstrip(GAP) if begins_line else run[0]


def _drop_quotes(line: re.Match[str]) -> str:
    """Drop the marks of italics (2), bold (3) and both (5), and keep real apostrophes.

    If bold and italics both occur an odd number of times on a line, one ''' is an apostrophe and italics, as
    in l'''Avare'': after a single letter if there is such a place, else after a word, else anywhere.
    """
    text = line[0]
    runs = {run.start(): {2: 2, 3: 3, 4: 3}.get(len(run[0]), 5) for run in _QUOTES.finditer(text)}
    bold = [start for start, size in runs.items() if size == 3]
    odd_bold = sum(size != 2 for size in runs.values()) % 2
    odd_italics = sum(size != 3 for size in runs.values()) % 2
    apostrophe = -1
    if bold and odd_bold and odd_italics:
        apostrophe = min(bold, key=lambda at: (_rank(text[max(at - 2, 0) : at]), at))

    def shown(run: re.Match[str]) -> str:
        return "'" * (len(run[0]) - runs[run.start()] + (run.start() == apostrophe)) + GAP

    return _QUOTES.sub(shown, text)


def _rank(before: str) -> int:
    if before.endswith(" ") or not before:
        return 2
    return 0 if len(before) == 1 or before[0] == " " else 1
