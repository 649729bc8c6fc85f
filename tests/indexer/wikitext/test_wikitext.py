"""Wikitext to text, links and sections: one test for each rule, and what no input may break."""

from __future__ import annotations

import html
import random
import re
import time

import mwparserfromhell
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mwparserfromhell import nodes
from mwparserfromhell.wikicode import Wikicode

from linkseek.indexer.documents import Section
from linkseek.indexer.readers.mediawiki.mediawiki_titles import Site, titles_of
from linkseek.indexer.wikitext import read_wikitext
from linkseek.indexer.wikitext.edits import apply_edits
from linkseek.indexer.wikitext.render import render

resolve = titles_of(Site("Wikipedia", "https://en.wikipedia.org/wiki/Main_Page", "en")).resolve


def read(source: str) -> tuple[str, list[tuple[str, str]]]:
    """The text, and each link as (anchor, target)."""
    text, links, sections = read_wikitext(source, resolve)
    assert all(0 <= link.start < link.end <= len(text) for link in links)
    assert [link.start for link in links] == sorted(link.start for link in links)
    assert all(text[link.start : link.end].strip() == text[link.start : link.end] for link in links)
    assert [s.start for s in sections] == sorted(s.start for s in sections)
    assert all(0 <= section.start <= len(text) for section in sections)
    return text, [(text[link.start : link.end], link.target) for link in links]


LINKS = {
    "[[Sun]]": ("Sun", [("Sun", "Sun")]),
    "a [[sun]]": ("a sun", [("sun", "Sun")]),
    "[[Sun|our star]]": ("our star", [("our star", "Sun")]),
    "[[ Sun | our star ]] x": ("our star x", [("our star", "Sun")]),
    "[[Sun|''our'' '''star''']]": ("our star", [("our star", "Sun")]),
    "[[Sun|{{nowrap|our star}}]]": ("our star", [("our star", "Sun")]),
    "[[planet]]s": ("planets", [("planets", "Planet")]),
    "[[Berlin]]er [[Foo|bar]]éx": ("Berliner baréx", [("Berliner", "Berlin"), ("baréx", "Foo")]),
    "[[planet]]S [[a]]2": ("planetS a2", [("planet", "Planet"), ("a", "A")]),
    "''[[Argo]]''s": ("Argos", [("Argo", "Argo")]),
    "[[a]]<ref>x</ref>s": ("as", [("a", "A")]),
    "[[北京]]市": ("北京市", [("北京", "北京")]),
    "[[Mercury (planet)|]]": ("Mercury", [("Mercury", "Mercury_(planet)")]),
    "[[Boston, Massachusetts|]]": ("Boston", [("Boston", "Boston,_Massachusetts")]),
    "[[Foo|]]s": ("Foos", [("Foos", "Foo")]),
    "[[A]] foo [[B|&shy;]]s x": ("A foo s x", [("A", "A")]),
    "[[Foo#Bar|x]]": ("x", [("x", "Foo")]),
    "[[Foo#Bar]]": ("Foo#Bar", [("Foo#Bar", "Foo")]),
    "see [[#Orbit|below]]": ("see below", []),
    "[[#Orbit]]": ("Orbit", []),
    "[[Foo|a|b]]": ("a|b", [("a|b", "Foo")]),
    "[[Foo|a[1]]]": ("a[1]", [("a[1]", "Foo")]),
    "[[A|b [[C]] d]]": ("b C d", [("b C d", "A")]),
    "a[[File:A.jpg|thumb|A [[cat]] {{x}} [http://a b]]]b": ("ab", []),
}


def test_a_heading_shows_what_is_no_markup() -> None:
    assert read_wikitext("== <nowiki>[[x]]</nowiki> ==\ny", resolve)[2] == (Section(0, "[[x]]", 2, "[[x]]"),)


@pytest.mark.parametrize("source", LINKS)
def test_link(source: str) -> None:
    assert read(source) == LINKS[source]


TEXTS = {
    "paragraphs": ("a\nb\n\nc\n\n\n\nd", "a b\n\nc\n\nd"),
    "bold and italics": ("'''a''' ''b'' '''''c'''''", "a b c"),
    "an apostrophe beside italics": ("l'''Avare'' de '''M'''", "l'Avare de M"),
    "four apostrophes": ("''''a'''", "'a"),
    "lists": ("x:\n* a\n** b\n# c\ny", "x:\na\nb\nc\n\ny"),
    "list items that become empty go": ("* a\n* {{cite}}.\n* b", "a\nb"),
    "definitions": ("; term : meaning\n;a\n:b", "term\nmeaning\na\nb"),
    "a definition that is an address": ("; http://a.b", "http://a.b"),
    "indented code keeps its lines": (" a = 1\n b = 2", "a = 1\nb = 2"),
    "templates": ("a {{x|{{y|z}}}} b {{z\n|c=d\n}}", "a b"),
    "parameters": ("a {{{x|{{y}}}}} b", "a b"),
    "comments": ("a<!-- [[ -->b<!-- never closed", "ab"),
    "a comment on its own line": ("a\n<!-- x -->\nb <!-- y -->\n\nc", "a b\n\nc"),
    "references": ("a<ref name='x'>{{cite|[[b]]}}</ref>.<ref name=x /> c<REF>d</REF>", "a. c"),
    "a badly closed reference": ("a<ref>b</ref name=c> d</ref> e", "a e"),
    "a reference that is never closed": ("a<ref>b [[C]]", "ab C"),
    "tables": ("a\n{| class=x\n|-\n| b || c\n{|\n| d\n|}\n|}\ne", "a\n\ne"),
    "a table that is never closed": ("a\n{| class=x\n| b\n\nc", "a\n\nc"),
    "an indented table": ("a\n:{|\n|b\n|}c", "a\n\nc"),
    "html tables": ("a <table><tr><td><table></table>b</table> c", "a c"),
    "nowiki": ("<nowiki>[[a]] ''b'' {{c}} &lt;</nowiki><nowiki/> d", "[[a]] ''b'' {{c}} < d"),
    "pre": ("a\n<pre>\n b\n  {{c}}\n</pre>\nd", "a\n\n b\n  {{c}}\n\nd"),
    "code":
        ("<code>main()</code> <source lang=c>f(x)</source>", "main() f(x)"),
    "formulas": ("where <math>x^2</math> is", "where is"),
    "galleries": ("a <gallery>\nA.jpg|b\n</gallery> c", "a c"),
    "timelines, scores, image maps":
        ("<timeline>x</timeline><score>y</score><imagemap>z</imagemap>a", "a"),
    "line breaks": ("a<br>b<br/>c<br />d", "a b c d"),
    "inline tags": ('H<sub>2</sub>O <span style="x">a</span> <small>b', "H2O a b"),
    "block tags": ("a<p>b</p>c<blockquote>d</blockquote>", "a\n\nb\n\nc\n\nd"),
    "html lists": ("<ul><li>a</li><li>b</li></ul>", "a\nb"),
    "powers": ("10<sup>6</sup> m<sup>-2</sup> 4<sup>th</sup>", "10⁶ m⁻² 4th"),
    "unknown tags are text": ("a <foo> b < c", "a <foo> b < c"),
    "magic words": ("__NOTOC__a __init__ __FORCETOC__", "a __init__"),
    "magic words of several words":
        ("__KEIN_INHALTSVERZEICHNIS__\n__बिना_अनुक्रम__ \n__بی\u200cفهرست__\na __MAX_LEN__", "a __MAX_LEN__"),
    "tags of other wikis": ("a<quiz x=y>\n+ b</quiz>c <ac_metadata title=d></ac_metadata>f", "ac f"),
    "language variants": ("-{zh-hans:甲; zh-hant:乙}- -{丙}-", "甲 丙"),
    "external links":
        ("[http://a.b c ''d''] [https://a.b] [//x y] [mailto:a@b c] http://a.b", "c d y c http://a.b"),
    "addresses without slashes":
        ("[tel:+49-30 call], [news:x] [xmpp:a@b chat] [Tel: y]", "call, chat [Tel: y]"),
    "a link in a label": ("[http://a.b c [[D]] e]", "c D e"),
    "brackets that are text": ("[sic] a[1] [[[b]]]", "[sic] a[1] [b]"),
    "entities":
        ("a&nbsp;b &lt;ref&gt; &#233; &ndash; &amp;amp; &bogus;", "a b <ref> é – &amp; &bogus;"),
    "invisible characters": ("a\u200bb\u00adc\u00a0d\u200e", "abc d"),
    "controls": ("a\x01b\x02\x03c\r\nd", "abc d"),
    "a ruler": ("a\n----\nb", "a\n\nb"),
    "empty brackets":
        ("A ({{x}}; born 1950) b () ({{c}}, {{d}}) [ ] e ( ( ) ).", "A (born 1950) b e."),
    "a date of birth that was a template": ("(Ann; {{x}} – 1982)", "(Ann – 1982)"),
    "commas around nothing": ("a {{x}}, b ({{x}}, c, {{x}}) , d, , e; , f", "a, b (c), d, e; f"),
    "debris in other scripts":
        ("北京（{{x}}，B，{{y}}）、{{x}}、c（{{z}}） 서울({{x}})은 (:d، {{x}}، {{y}}) f()",
         "北京（B）、c 서울은 (d) f()"),
    "semicolons around nothing": ("(A; {{nowrap}}; {{nowrap}}; B)", "(A; B)"),
    "a full stop after nothing": ("a. {{x}}.\n\n{{x}}, b . c .NET", "a.\n\nb. c .NET"),
    "an ellipsis": ("a ... b . . . c", "a ... b . . . c"),
    "spaces": ("a  b\t c   ", "a b c"),
    "an unclosed link": ("a [[b c. [[D]] e\n\nf", "a b c. D e\n\nf"),
    "an unclosed template": ("a {{b c. {{d}} e\n\nf", "a b c. e\n\nf"),
    "an unclosed box": ("{{Infobox x\n| a = b\n| c = [[d]]\n\ntext", "text"),
    "closed and never opened": ("a ]] b }} c |} d", "a b c d"),
    "rows without a table": ("a\n| b\n|-\nc", "a\n\nc"),
    "a heading sign in text": ("a == b\n=c", "a == b =c"),
    "nothing": ("{{x}}\n\n<!-- y -->", ""),
}  # fmt: skip


TEMPLATES = {
    "{{lang|el|ἀρχή}} ({{lang-fr|''chat''}}, {{transl|ar|ALA|Allāh}})": "ἀρχή (chat, Allāh)",
    "{{nowrap|a [[b]]}} {{small|c}} {{abbr|d|long}} {{math|''x''}} {{mvar|y}}": "a b c d x y",
    "{{convert|5|km|mi|abbr=on}} {{Convert|13.5|in|cm}} {{cvt|20|C|F}}": "5 km 13.5 in 20 °C",
    "{{convert|5|to|10|km2|sqmi}} {{convert|1|-|2|sqmi}} {{convert|6|ft|4|in}}":
        "5 to 10 km² 1–2 sq mi 6 ft 4 in",
    "{{convert|5|km|mi|1}} {{convert|3|by|4|by|5|m}} {{convert|5}}": "5 km 3 by 4 by 5 m 5",
    "a{{nbsp}}b{{ndash}}c{{mdash}}d{{snd}}e{{'s}}{{' \"}}": "a b–c—d – e's'\"",
    "{{circa|1900}} {{c.|1900|1910}}": "c. 1900 c. 1900 – 1910",
    "{{frac|3|1|2}} {{frac|1|2}} {{fraction|4}} {{sfrac|a|b}}": "3 1/2 1/2 1/4 a/b",
    "{{As of|2012|3}}, {{as of|2012|March|5|lc=y}}, {{as of|2012|alt=in 2012}}":
        "As of March 2012, as of 5 March 2012, in 2012",
    "{{val|6.24|e=18|u=m}} {{val|5}} 3{{e|-7}} {{chem|C|''n''|H|2''n''+2}} m{{sup|2}}":
        "6.24×10¹⁸ m 5 3×10⁻⁷ CnH2n+2 m²",
    "a\n{{quote|b [[c]]|author}}\nd {{cquote|text=e}}": "a\n\nb c\n\nd\n\ne",
    "{{columns-list|2|\n* a\n* b\n}}": "a\nb",
    "{{sic}} {{sic|teh}} {{nihongo|Aikido|合気道|aikidō}} {{color|red|x}} {{gaps|1|234}}":
        "teh Aikido x 1234",
    "{{NOWRAP|a}} {{Not_a_typo|b}} {{lang\n|de\n|c\n}}": "a b c",
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), [*TEXTS.values(), *TEMPLATES.items()])
def test_text(source: str, expected: str) -> None:
    assert read(source)[0] == expected


def test_sections_are_apart_from_the_text() -> None:
    source = (
        "Lead.\n== ''One'' [[A]]<ref>x</ref> ==\nFirst\n\n=== Two = 2 ===\n==Three==\n* [[item]]\n"
        "{{anchor|x}}== Four ==\n==Five== \n"
    )
    text, links, sections = read_wikitext(source, resolve)
    assert text == "Lead.\n\nOne A\n\nFirst\n\nitem"  # a heading with a link is text, too
    assert [text[link.start : link.end] for link in links] == ["A", "item"]
    assert sections == (
        Section(7, "One A", 2, "One_A"),
        Section(21, "Two = 2", 3, "Two_=_2"),
        Section(21, "Three", 2, "Three"),
        Section(25, "Four", 2, "Four"),
        Section(25, "Five", 2, "Five"),
    )


def test_spans_stay_exact_where_the_text_around_them_is_cleaned() -> None:
    source = "a ({{x}}; [[b  c]]  {{y}})  , [[ d ]]\n[[e]]&nbsp;&nbsp;[[f|( )]] [[g|<nowiki>[g]</nowiki>]]"
    assert read(source) == ("a (b c), d e [g]", [("b c", "B_c"), ("d", "D"), ("e", "E"), ("[g]", "G")])


@given(
    st.text("abc ", max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.text("XY", max_size=3))),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))),
)
def test_apply_edits_agrees_with_labelled_characters(
    text: str, raw: list[tuple[int, int, str]], spans: list[tuple[int, int]]
) -> None:
    edits: list[tuple[int, int, str]] = []
    for start, end, new in sorted(raw):
        if start < end <= len(text) and (not edits or edits[-1][1] <= start):
            edits.append((start, end, new))
    spans = [(start, end) for start, end in spans if start < end <= len(text)]
    result, mapped = apply_edits(text, edits, spans)

    # Slowly: (character, where it comes from); a replacement comes from all of its edit.
    labelled: list[tuple[str, int, int]] = []
    position = 0
    for start, end, new in [*edits, (len(text), len(text), "")]:
        labelled += [(text[at], at, at + 1) for at in range(position, start)]
        labelled += [(character, start, end) for character in new]
        position = end
    assert result == "".join(character for character, _, _ in labelled)
    for (start, end), (first, last) in zip(spans, mapped, strict=True):
        inside = [at for at, (_, low, high) in enumerate(labelled) if start <= low and high <= end]
        assert list(range(first, last)) == inside


def test_apply_edits_moves_points_behind_what_replaces_their_surroundings() -> None:
    text, points = apply_edits("ab  cd", [(2, 4, "\n\n\n")], [(p, p) for p in range(7)])
    assert text == "ab\n\n\ncd"
    assert [start for start, _ in points] == [0, 1, 2, 5, 5, 6, 7]


PATHOLOGICAL = [
    "[[", "{{", "[[a|", "{{a|", "[", "[http://a ", "<b ", "<x>", "<ref>", "= a ", "== a\n", "{|\n",
    "&", "''", "( ", " ", "<!--", "-{", "{{nowrap|", "[[a|[[b", "__a", "{{a\n|x", ";a : ", "]]",
]  # fmt: skip


@pytest.mark.parametrize("piece", PATHOLOGICAL)
def test_pathological_input_takes_seconds(piece: str) -> None:
    start = time.thread_time()
    read(piece * (200_000 // len(piece)))
    assert time.thread_time() - start < 10


_MARKUP = [
    "[[a]]", "[[b|c]]", "s ", "a=b ", "\n== h ==\n", "\n", "&amp;", "&", "http://a.b ", " d ", "[[p|q|r]]",
    "[[e|{{nowrap|f}}]]", "{{nowrap|[[g]]|}}", "{{lang|de|[[i|j]] k}}", "{{nowrap|1=m [[n]]}}",
    "{{nowrap|{{lang|de|o}}}}",
]  # fmt: skip


def of_tree(code: Wikicode, targets: list[str]) -> str:
    """The text of a parsed piece, and its links."""
    text = ""
    for node in code.nodes:
        if isinstance(node, nodes.Wikilink):
            targets.append(str(node.title).capitalize())
            text += of_tree(node.text or node.title, [])
        elif isinstance(node, nodes.Template):
            text += of_tree(node.params[1 if node.name == "lang" else 0].value, targets)
        else:
            text += "\n\x03\n" if isinstance(node, nodes.Heading) else html.unescape(str(node))
    return text


def test_the_walk_shows_the_same_as_the_tree_of_another_parser() -> None:
    draw = random.Random(2)
    links = 0
    for _ in range(1500):
        source = "".join(draw.choices(_MARKUP, k=draw.randint(1, 25)))
        targets: list[str] = []
        twin = of_tree(mwparserfromhell.parse(source, skip_style_tags=True), targets)
        text, found, _ = render(source, resolve, ())
        assert (text, [link.target for link in found]) == (twin, targets), source
        links += len(found)
    assert links > 1000


def test_deep_nesting_is_dropped_and_the_rest_is_kept() -> None:
    for opening, closing in [("{{nowrap|", "}}"), ("[[b|", "]]"), ("<table>", "</table>")]:
        text, _ = read(f"a\n\n{opening * 50_000}{closing * 50_000}\n\nc")
        assert text.split() in (["a", "c"], ["a", "b", "c"])


def test_random_markup_never_fails() -> None:
    marks = [
        "[[", "]]", "{{", "}}", "{", "}", "[", "]", "|", ":", ";", "*", "#", "=", "==", "''", "'''",
        "{|", "|}", "<ref>", "</ref>", "<br>", "&nbsp;", "(", ")", ",", "[[File:", "-{", "}-",
        "{{nowrap|", "<nowiki>", "</nowiki>", "http://a", "<!--", "-->",
    ]  # fmt: skip
    pieces = [*marks, "a", "b", "é", " ", "\n", "\n\n"]
    draw = random.Random(0)
    for _ in range(1500):
        text, _ = read("".join(draw.choices(pieces, k=draw.randrange(1, 40))))
        assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)
