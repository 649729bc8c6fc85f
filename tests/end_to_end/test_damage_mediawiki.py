"""Bad MediaWiki exports, through the command that builds: titles, links, XML, pathological wikitext."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from tests.support.damage import (
    EXPORT,
    SKIP,
    WITHOUT_SEARCH,
    build,
    documents,
    kept,
    measured,
    page,
    told,
    wiki,
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return tmp_path / "corpus"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_titles_that_differ_in_case_or_normalisation(corpus, index):
    nfc, nfd = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
    assert nfc != nfd
    corpus.write_text(
        wiki(page("Ab", "t"), page("AB", "t"), page("aB", "t"))
    )  # the first letter is a capital
    told(build("--corpus", corpus, "--index", index), InputError, "page 1 (aB): duplicate id 'AB'")
    corpus.write_text(wiki(page(nfc, "t"), page(nfd, "t")))  # one title for MediaWiki
    told(build("--corpus", corpus, "--index", index), InputError, "duplicate id 'Café'")
    rows = [{"id": id_, "title": id_, "text": f"[{id_}]", "links": []} for id_ in ("ab", "AB", nfc, nfd)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept(build("--corpus", corpus, "--index", index))
    assert documents(index) == ["ab", "AB", nfc, nfd]


def test_links_to_nowhere_and_redirects_in_a_circle_are_counted(corpus, index):
    def redirect(title: str, target: str) -> str:
        return page(title, "", f'<redirect title="{target}" />')

    corpus.write_text(
        wiki(
            page("A", "[[R1]] [[Self]] [[Chain]] [[Nowhere]] [[A]]"),
            redirect("R1", "R2"), redirect("R2", "R1"), redirect("Self", "Self"), redirect("Lost", "Nowhere"),
            redirect("Chain", "Chain 2"), redirect("Chain 2", "A"),
        )
    )  # fmt: skip
    out = kept(build("--corpus", corpus, "--index", index))
    assert "redirects 6 to nothing 4" in out
    assert "links in passages 2 between documents 0 links to nothing, dropped 3" in out


# --- XML -----------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("format_name", ["mediawiki", None])
def test_entities_are_neither_expanded_nor_opened(corpus, index, tmp_path, format_name):
    """A billion laughs; and a pipe, which would never end if it were opened."""
    os.mkfifo(tmp_path / "pipe")
    laughs = '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    )
    named = ["--format", format_name] if format_name else []
    for declared in (laughs, f'<!ENTITY j SYSTEM "file://{tmp_path}/pipe">'):
        for doctype in (f"<!DOCTYPE mediawiki [{declared}]>", f'<!DOCTYPE m SYSTEM "{tmp_path}/pipe">'):
            corpus.write_text(doctype + wiki(page("A", "x")).replace("x</text>", "&j;</text>"))
            done = build("--corpus", corpus, "--index", index, *named)
            told(done, InputError, str(corpus), "a document type is declared", "Remove the <!DOCTYPE")
    corpus.write_text(wiki(page("A", "x")).replace("x</text>", "&j;</text>"))
    told(build("--corpus", corpus, "--index", index), InputError, "broken XML (undefined entity, line 2")


def test_tags_without_end(corpus, index):
    corpus.write_text(EXPORT + "<page>" * 100_000)
    told(build("--corpus", corpus, "--index", index), InputError, "nested more than 100 deep")
    corpus.write_text(wiki(page("A", "t")).replace("</mediawiki>", "<!--" + "x" * (30 << 20)))
    told(
        build("--corpus", corpus, "--index", index), InputError, "after page 1 (A): a tag or comment of more"
    )
    assert "skipped: 1 rest" in kept(build("--corpus", corpus, "--index", index, *SKIP))


# --- wikitext ------------------------------------------------------------------------------------


def test_a_page_of_50_megabytes(corpus, index):
    corpus.write_text(wiki(page("A", "t"), page("Huge", "word [[A]] " * 4_500_000), page("B", "t")))
    options = ["--corpus", corpus, "--index", index]
    found = measured("indexer/build.py", *WITHOUT_SEARCH, *options)
    told(found.done, InputError, "page 1 (Huge): the page has more than 10,000,000 characters", "Split it")
    assert found.megabytes < 400 and found.seconds < 30
    assert "skipped: 1 malformed" in kept(build(*options, *SKIP))
    assert documents(index) == ["A", "B"]


PATHOLOGICAL = [
    "{{", "[[", "'''", "<ref>", "{|\n", "{{lang|en|", "[[a|", "<nowiki>", "<!--", "==", "== a ",
    "}}", "]]", "|}\n", "[http://", "-{", "<table>", "*", ";a:", "( ", "&", "<div>", "{{{", "''", "<sup>",
    "__", "[[File:a|", "\u0301\u0323", "[[\u0301\u0323",
]  # fmt: skip


@pytest.mark.slow
def test_pathological_wikitext_takes_linear_time(corpus, index):
    """100,000 of each, unclosed and closed."""
    closed = {"{{lang|en|": "}}", "[[a|": "]]", "{|\n": "|}\n", "<table>": "</table>", "<ref>": "</ref>"}
    pages = [page(f"P{n}", f"start {sign * 100_000} end") for n, sign in enumerate(PATHOLOGICAL)]
    pages += [
        page(f"Q{n}", f"start {sign * 100_000}{end * 100_000} end")
        for n, (sign, end) in enumerate(closed.items())
    ]
    corpus.write_text(wiki(*pages))
    found = measured("indexer/build.py", *WITHOUT_SEARCH, "--corpus", corpus, "--index", index)
    assert f"documents {len(pages)} " in kept(found.done)
    assert found.seconds < 90 and found.megabytes < 1000
    texts = [document.text for document in OpenIndex.open(index).documents]
    assert all(text.startswith("start") for text in texts)
