"""A synthetic wiki of any size, as a MediaWiki export with the shape of Wikipedia, or as JSON lines.

    python -m benchmarks.made_up 2000000 wiki.xml.zst
    python -m benchmarks.made_up 2000000 wiki.jsonl.zst     without redirects and dangling links

Like Wikipedia: the distribution of links (in-degrees follow a power law with exponent 2.1: a few articles of
two million have hundreds of thousands of links, half have fewer than five), the share of redirects (a third
of the pages, some of them dangling), and word frequencies (Zipf's law). Smaller than Wikipedia: 60 to 200
words and 10 to 15 links an article unless asked otherwise, where Wikipedia has about 500 and 25. The same
numbers always give the same bytes; a smaller wiki is not a prefix of a larger one.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from benchmarks.support.harness import made_up_words

EXPONENT = 2.1
_VOCABULARY = 50_000
_BLOCK = 2_000  # articles
_DANGLING = 0.05  # share of the links that lead to nothing
_THROUGH_REDIRECT = 0.1

_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
<siteinfo><sitename>Made up</sitename><base>https://example.org/wiki/Main_Page</base>\
<case>first-letter</case><namespaces><namespace key="0" case="first-letter"/>\
<namespace key="14" case="first-letter">Category</namespace></namespaces></siteinfo>
"""
_ARTICLE = """<page><title>{title}</title><ns>0</ns><id>{page}</id><revision><id>{page}</id>\
<timestamp>2026-01-01T00:00:00Z</timestamp><model>wikitext</model><text xml:space="preserve">\
{{{{Short description|{summary}}}}}
'''{title}''' {lead}.&lt;ref&gt;{{{{cite web|title={summary}|year=2020}}}}&lt;/ref&gt;

== History ==
{body}.

[[Category:{category}]]</text></revision></page>
"""
_REDIRECT = """<page><title>{title}</title><ns>0</ns><id>{page}</id><redirect title="{target}" /><revision>\
<id>{page}</id><timestamp>2026-01-01T00:00:00Z</timestamp><model>wikitext</model>\
<text xml:space="preserve">#REDIRECT [[{target}]]</text></revision></page>
"""


class ArticleSize(NamedTuple):
    """How many words and links an article has: the fewest and the most."""

    words: tuple[int, int] = (60, 200)
    links: tuple[int, int] = (10, 15)


SHORT = ArticleSize()


def write_wiki(path: Path, articles: int, shape: ArticleSize = SHORT) -> None:
    """Write `articles` articles; a file whose name ends in .zst is compressed.

    A MediaWiki export has half as many redirects, in mixed order; .jsonl and .jsonl.zst have articles alone.
    """
    starts = range(0, articles, _BLOCK)
    compressed = path.suffix == ".zst"
    lines = ".jsonl" in path.suffixes
    block = partial(_block_of_lines if lines else _block, articles=articles, shape=shape)
    with (
        multiprocessing.get_context("spawn").Pool() if len(starts) > 10 else nullcontext() as pool,
        zstandard.open(path, "wb") if compressed else path.open("wb") as file,
    ):
        file.write(b"" if lines else _HEAD.encode())
        for pages in pool.imap(block, starts) if pool else map(block, starts):
            file.write(pages)
        file.write(b"" if lines else b"</mediawiki>\n")


def in_degree_ranks(draw: np.random.Generator, count: int, articles: int) -> NDArray[np.int64]:
    """Ranks of link targets, int64 [count] in [0, articles): rank r is drawn about r^(-1/(EXPONENT - 1))."""
    power = 1 - 1 / (EXPONENT - 1)
    low, high = 1.0, float(articles + 1) ** power
    return (draw.uniform(low, high, count) ** (1 / power)).astype(np.int64) - 1


def _block(start: int, articles: int, shape: ArticleSize) -> bytes:
    draw = np.random.default_rng([articles, start])
    stop = min(start + _BLOCK, articles)
    return "".join(_pages(draw, _vocabulary(), start, stop, articles, shape)).encode()


def _block_of_lines(start: int, articles: int, shape: ArticleSize) -> bytes:
    draw, words = np.random.default_rng([articles, start]), _vocabulary()
    count = min(start + _BLOCK, articles) - start
    lengths, links, text, targets = _drawn(draw, count, articles, shape)
    of_articles = np.split(words[text], lengths[:-1].cumsum()), np.split(targets, links[:-1].cumsum())
    lines = []
    for row, (shown, leading) in enumerate(zip(*of_articles, strict=True), start):
        ends = np.cumsum([len(word) + 1 for word in shown]) - 1
        # a word has one link
        places = np.unique((draw.random(len(leading)) * len(shown)).astype(int)).tolist()
        spans = [
            {"start": int(ends[at]) - len(shown[at]), "end": int(ends[at]), "target": str(target)}
            for at, target in zip(places, leading, strict=False)
        ]
        record = {"id": str(row), "title": _title(words, row), "text": " ".join(shown) + ".", "links": spans}
        lines.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
    return b"".join(lines)


def _drawn(
    draw: np.random.Generator, count: int, articles: int, shape: ArticleSize
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Words and links of each article [n]; the ranks of all words; the rows of all links' targets."""
    lengths = draw.integers(shape.words[0], shape.words[1] + 1, count)
    links = draw.integers(shape.links[0], shape.links[1] + 1, count)
    text = _zipf(draw, int(lengths.sum()), _VOCABULARY)
    targets = in_degree_ranks(draw, int(links.sum()), articles) * _coprime_step(articles) % articles
    return lengths, links, text, targets


def _pages(
    draw: np.random.Generator,
    words: NDArray[np.object_],
    start: int,
    stop: int,
    articles: int,
    shape: ArticleSize,
) -> Iterator[str]:
    count = stop - start
    lengths, links, text, targets = _drawn(draw, count, articles, shape)
    kinds = draw.random(len(targets))
    places = draw.random(len(targets))
    redirects = in_degree_ranks(draw, count // 2, articles) * _coprime_step(articles) % articles
    word = link = 0
    for number in range(count):
        shown = words[text[word : word + lengths[number]]].tolist()
        word += lengths[number]
        size = len(shown)
        for at in range(link, link + links[number]):
            place = int(places[at] * size)
            target = _target(words, int(targets[at]), float(kinds[at]), articles)
            shown[place] = f"[[{target}|{shown[place].rpartition('|')[2].rstrip(']')}]]"
        link += links[number]
        row = start + number
        yield _ARTICLE.format(
            title=_title(words, row),
            page=2 * row + 1,
            summary=shown[0].rpartition("|")[2].rstrip("]"),
            lead=" ".join(shown[: size // 2]),
            body=" ".join(shown[size // 2 :]),
            category=words[row % 1000],
        )
        if number % 2 == 0 and number // 2 < len(redirects):
            target_row = int(redirects[number // 2]) if row % 50 else articles + row
            target = _title(words, target_row)
            yield _REDIRECT.format(title=f"{_title(words, row)} (alias)", page=2 * row + 2, target=target)


def _target(words: NDArray[np.object_], row: int, kind: float, articles: int) -> str:
    if kind < _DANGLING:
        return _title(words, articles + row)
    if kind < _DANGLING + _THROUGH_REDIRECT:
        return f"{_title(words, row - row % 2)} (alias)"
    return _title(words, row)


def _title(words: NDArray[np.object_], row: int) -> str:
    return f"{words[row % 997].capitalize()} {words[1000 + row % 48_989]} {row}"


def _zipf(draw: np.random.Generator, count: int, size: int) -> NDArray[np.int64]:
    """Ranks by Zipf's law, int64 [count] in [0, size): rank r is drawn about 1 / (r + 1)."""
    return (float(size + 1) ** draw.random(count)).astype(np.int64) - 1


@cache
def _vocabulary() -> NDArray[np.object_]:
    return np.array(made_up_words(_VOCABULARY), object)


def _coprime_step(articles: int) -> int:
    """A step through [0, articles) that reaches every number, so that hubs stand anywhere."""
    step = int(articles * 0.618) | 1
    while np.gcd(step, articles) != 1:
        step += 2
    return step


if __name__ == "__main__":
    write_wiki(Path(sys.argv[2]), int(sys.argv[1]))
