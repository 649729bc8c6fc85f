"""The MediaWiki reader: one test for each rule of the titles and the XML (of the text: test_wikitext)."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from pathlib import Path

import pytest

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.mediawiki.mediawiki_pages import MediawikiReader
from linkseek.indexer.readers.mediawiki.mediawiki_titles import Site, titles_of
from linkseek.indexer.readers.reader import Ignored, Outcome, parse_at
from linkseek.indexer.wikitext import read_wikitext

SITE = Site(
    name="Wikipedia",
    base="https://en.wikipedia.org/wiki/Main_Page",
    language="en",
    namespaces=((0, "", False), (4, "Wikipedia", False), (6, "File", False), (14, "Category", False)),
)


def read(source: str, site: Site = SITE) -> tuple[str, list[tuple[str, str]]]:
    """The text, and each link as (anchor, target)."""
    text, links, _ = read_wikitext(source, titles_of(site).resolve)
    return text, [(text[link.start : link.end], link.target) for link in links]


TITLES = {
    "[[Foo_bar__baz ]]": ("Foo bar baz", [("Foo bar baz", "Foo_bar_baz")]),
    "[[Caf%C3%A9|x]]": ("x", [("x", "Café")]),
    "[[Cafe\u0301|x]]": ("x", [("x", "Café")]),
    "[[AT&amp;T|x]] [[100%|y]]": ("x y", [("x", "AT&T"), ("y", "100%")]),
    "[[:Sun|x]]": ("x", [("x", "Sun")]),
    "[[a<b]] [[]] [[ |x]]": ("a<b x", []),
    "[[Star Trek: Voyager]]": ("Star Trek: Voyager", [("Star Trek: Voyager", "Star_Trek:_Voyager")]),
    "[[2001: A Space Odyssey|x]]": ("x", [("x", "2001:_A_Space_Odyssey")]),
    "a [[image:A.jpg]] [[Media:A.ogg]] b [[Category:Cats|*]]": ("a b", []),
    "the word [[Media:A.ogg|cat]]": ("the word cat", []),
    "[[:Category:Cats|cats]] [[:File:A.jpg]]": ("cats File:A.jpg", []),
    "[[Wikipedia:Foo|x]] [[WP:Foo|y]] [[User talk:Me|z]]": ("x y z", []),
    "[[wikt:sun|x]] [[:de:Sonne|y]] [[s:en:Foo|z]]": ("x y z", []),
    "a\n[[de:Sonne]]\n[[zh-min-nan:Foo]]": ("a", []),
    f"[[{'x' * 256}|long]]": ("long", []),
}


@pytest.mark.parametrize("source", TITLES)
def test_title(source: str) -> None:
    assert read(source) == TITLES[source]


def test_case_sensitive_sites_and_local_namespaces() -> None:
    wiktionary = Site("Wiktionary", "https://de.wiktionary.org/wiki/X", "de", True, ((6, "Datei", True),))
    assert read("[[sun]] [[Sun]] [[Datei:A.jpg|mini|x]] [[Bild:A.jpg]]", wiktionary) == (
        "sun Sun",
        [("sun", "sun"), ("Sun", "Sun")],
    )
    other = Site("ArchWiki", "https://wiki.archlinux.org/title/Main_page")
    assert read("[[WP:Foo|x]]", other)[1] == [("x", "WP:Foo")]


# --- XML ---

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <base>https://en.wikipedia.org/wiki/Main_Page</base>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" case="{case}" />
      <namespace key="4" case="first-letter">Wikipedia</namespace>
      <namespace key="6" case="first-letter">File</namespace>
    </namespaces>
  </siteinfo>
"""


def revision(text: str, timestamp: str = "2020-01-01T00:00:00Z", model: str = "wikitext") -> str:
    return f"""<revision><id>77</id><timestamp>{timestamp}</timestamp>
      <contributor><username>X</username><id>5</id></contributor><comment>c</comment>
      <model>{model}</model><format>text/x-wiki</format><text xml:space="preserve">{text}</text>
      <content><role>other</role><model>json</model><text>no</text></content></revision>"""


def page(title: str, *revisions: str, ns: int = 0, id_: int = 12, redirect: str = "") -> str:
    element = f'<redirect title="{redirect}" />' if redirect else ""
    head = f"<title>{title}</title><ns>{ns}</ns><id>{id_}</id>{element}"
    return f"<page>{head}{''.join(revisions)}</page>"


PAGES = [
    page("Mercury (planet)", revision("'''Mercury''' is a [[planet]] of the [[sol|Sun]].")),
    page("Sol", revision("#REDIRECT [[Sun]]"), id_=13, redirect="Sun"),
    page("Helios", revision(" #Redirect: [[sun#Myth|x]]"), id_=14),
    page("Talk:Sun", revision("x"), ns=1, id_=15),
    page("Style.css", revision("x", model="css"), id_=16),
    page("Void", revision(""), id_=17),
    page("Law", revision("#REDIRECT [[Wikipedia:Law]]"), id_=18, redirect="Wikipedia:Law"),
    page(
        "Sun",
        revision("old", "2001-01-01T00:00:00Z"),
        revision("A star &amp; its light.", "2021-01-01T00:00:00Z"),
        revision("middle", "2011-01-01T00:00:00Z"),
        id_=19,
    ),
]


def export(*pages: str, case: str = "first-letter") -> str:
    return HEAD.format(case=case) + "\n".join(pages) + "\n</mediawiki>\n"


def write(folder: Path, content: str | bytes, name: str = "wiki.xml") -> MediawikiReader:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return MediawikiReader(path)


def outcomes(reader: MediawikiReader) -> list[Outcome]:
    return list(reader.documents())


def test_an_export(tmp_path: Path) -> None:
    first, *others, last = outcomes(write(tmp_path, export(*PAGES)))
    assert isinstance(first, Document)
    assert (first.id, first.title) == ("Mercury_(planet)", "Mercury (planet)")
    assert first.url == "https://en.wikipedia.org/wiki/Mercury_(planet)"
    assert first.text == "Mercury is a planet of the Sun."
    assert [link.target for link in first.links] == ["Planet", "Sol"]
    assert first.metadata == {"page_id": "12"}
    assert others == [
        Redirect("Sol", "Sun"),
        Redirect("Helios", "Sun"),
        Ignored("other namespace"),
        Ignored("not wikitext"),
        Ignored("empty page"),
        Ignored("redirect to another namespace"),
    ]
    assert isinstance(last, Document)
    assert last.text == "A star & its light."


@pytest.mark.parametrize(
    ("title", "url"),
    [("AT&T", "AT%26T"), ("Who's there?", "Who%27s_there%3F"), ("Café/Bar: C++", "Caf%C3%A9/Bar:_C%2B%2B")],
)
def test_addresses_are_escaped_as_mediawiki_does(title: str, url: str) -> None:
    titles = titles_of(SITE)
    assert titles.url(titles.key(title)) == f"https://en.wikipedia.org/wiki/{url}"
    plain = titles_of(Site(base="http://localhost/w/index.php?title=Main_Page"))
    assert plain.url("Sun") == "http://localhost/w/index.php?title=Sun"
    assert titles_of(Site()).url("Sun") == ""


def test_a_case_sensitive_wiki(tmp_path: Path) -> None:
    reader = write(tmp_path, export(page("sun", revision("x [[moon]]")), case="case-sensitive"))
    document = outcomes(reader)[0]
    assert isinstance(document, Document)
    assert (document.id, document.links[0].target) == ("sun", "moon")


def test_places_and_compact_picklable_records(tmp_path: Path) -> None:
    reader = pickle.loads(pickle.dumps(write(tmp_path, export(*PAGES))))
    records = list(reader.records())
    assert [record.place for record in records[:2]] == ["page 12 (Mercury (planet))", "page 13 (Sol)"]
    assert pickle.loads(pickle.dumps(records)) == records
    assert len(pickle.dumps(records[0])) < 1000
    assert records[0].payload.site is records[-1].payload.site
    assert records[1].payload.text == records[3].payload.text == ""  # nobody needs it


def failure(reader: MediawikiReader) -> tuple[int, InputError]:
    """How many pages were read, and the error that ended it."""
    read = 0
    with pytest.raises(InputError) as caught:
        for _ in reader.records():
            read += 1
    assert str(reader.path) in caught.value.message
    assert caught.value.hint
    return read, caught.value


@pytest.mark.parametrize("damage", ["<b>", "&nbsp;", "&", "\x00", "</page>"])
def test_broken_xml(tmp_path: Path, damage: str) -> None:
    read, error = failure(write(tmp_path, export(PAGES[0], page("B", revision(damage)), PAGES[1])))
    assert read == 1
    assert "after page 12 (Mercury (planet)): broken XML (" in error.message


def test_a_page_without_title_and_a_page_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = write(tmp_path, export(page("", revision("x")), page("A", revision("y"))))
    records = list(reader.records())
    with pytest.raises(InputError, match=r"wiki\.xml, page 12 \(\): the page has no title"):
        parse_at(reader, records[0])

    def overflow(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("linkseek.indexer.readers.mediawiki.mediawiki_pages.read_wikitext", overflow)
    with pytest.raises(InputError, match="nested too deep"):
        parse_at(reader, records[1])


@pytest.mark.realdata
def test_english_wikipedia(shared_data: Path) -> None:
    found = outcomes(MediawikiReader(shared_data / "enwiki-slice" / "enwiki-slice-pages-articles.xml.bz2"))
    # The hundredth redirect is Wikipedia:Adding Wikipedia articles to Nupedia.
    kinds = Counter(type(one) for one in found if not isinstance(one, Ignored))
    assert kinds == {Document: 106, Redirect: 99}
    lost = Counter(one.reason for one in found if isinstance(one, Ignored) and not one.name)
    assert lost["redirect to another namespace"] + lost["other namespace"] == 1
    documents = [outcome for outcome in found if isinstance(outcome, Document)]
    debris = ["{{", "}}", "[[", "]]", "{|", "|}", "<ref", "'''", "&nbsp;", "thumb|", "()", "( )"]
    for document in documents:
        assert not [piece for piece in debris if piece in document.text], document.id
        assert not re.search(r"\w [,;] |\([,;]|[,;]\)|\n\n\n|^\s|\s$", document.text), document.id
        assert all(0 <= s.start < e <= len(document.text) for s in document.links for e in [s.end])
    ids = {outcome.id for outcome in found if isinstance(outcome, Document | Redirect)}
    edges = {(d.id, link.target) for d in documents for link in d.links if link.target in ids}
    assert len(edges) == 87
    assert sum(len(document.links) for document in documents) > 22_000
    autism = next(document for document in documents if document.id == "Autism")
    assert autism.text.startswith("Autism is a neurodevelopmental disorder characterized by impaired")
