"""HTML pages: what of a page is its text, where its links lead, and what is no document."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.readers.folder.page_layout import Layout
from linkseek.indexer.readers.folder.page_targets import Targets
from linkseek.indexer.readers.formats import all_readers
from linkseek.indexer.readers.html.html_pages import HtmlReader
from linkseek.indexer.readers.html.html_text import render, without
from linkseek.indexer.readers.reader import Ignored, Outcome
from tests.support.tiny.corpus import links

HTML = all_readers()["html"]
SITE = ["index.html", "a/index.html", "a/b.html", "a/c d.html", "a/100%.html", "d.htm", "Ü.html"]


def site(folder: Path, page: str | bytes, name: str = "a/page.html", others: list[str] = SITE) -> Path:
    """A folder with a page, other pages and a picture."""
    for other in others:
        path = folder / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("<p>x", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page if isinstance(page, bytes) else page.encode())
    return folder


def outcome(folder: Path, page: str | bytes, name: str = "a/page.html") -> Outcome:
    """What a page of the site becomes."""
    reader = HTML(site(folder, page, name))
    found, *dropped = [
        one for record in reader.records() if record.place == name for one in reader.parse(record)
    ]
    assert all(isinstance(one, Ignored) for one in dropped)
    return found


def document(folder: Path, page: str | bytes, name: str = "a/page.html") -> Document:
    found = outcome(folder, page, name)
    assert isinstance(found, Document)
    return found


def text(folder: Path, body: str) -> str:
    return document(folder, f"<!DOCTYPE html><title>t</title><body>{body}").text


def test_a_page_of_sphinx(tmp_path: Path) -> None:
    """The structure of Python's documentation."""
    page = """<!DOCTYPE html><html><head><meta charset="utf-8" />
    <title>json &#8212; JSON encoder &#8212; Python 3.11.2 documentation</title>
    <link rel="canonical" href="https://docs.python.org/3/a/page.html" />
    <style>p { color: red }</style></head><body>
    <div class="related" role="navigation"><h3>Navigation</h3><a href="../index.html">index</a></div>
    <div class="document"><div class="documentwrapper"><div class="bodywrapper">
    <div class="body" role="main">
    <section id="module-json"><h1><a class="reference" href="#json"><code><span>json</span></code></a>
    — JSON encoder<a class="headerlink" href="#json" title="Permalink">¶</a></h1>
    <p><strong>Source code:</strong> <a href="https://github.com/x">Lib/json</a></p>
    <p>See <a class="reference internal" href="b.html#x"><code>b</code></a>, and
    <a href="../d.htm">d</a>.</p>
    <section id="basic"><h2>Basic Usage<a class="headerlink" href="#basic">¶</a></h2>
    <dl class="py function"><dt class="sig" id="json.dump"><span>json.</span><span>dump</span>(<em>obj</em>)<a
     class="headerlink" href="#json.dump">¶</a></dt><dd><p>First.</p><p>Second.</p></dd></dl>
    <div class="highlight"><pre><span></span><span>&gt;&gt;&gt; </span><span>x</span> <span>=</span>
    {
        <span>1</span>: 2,


    }
</pre></div></section></section></div></div></div>
    <div class="sphinxsidebar" role="navigation"><h4>Previous topic</h4></div></div>
    <div class="footer">Copyright</div></body></html>"""
    found = document(tmp_path, page)
    assert found.id == "a/page.html"
    assert found.title == "json — JSON encoder"
    assert found.url == "https://docs.python.org/3/a/page.html"
    assert found.text == (
        "Source code: Lib/json\n\nSee b, and d.\n\njson.dump(obj)\n\nFirst.\n\nSecond.\n\n"
        ">>> x =\n    {\n        1: 2,\n\n\n    }"
    )
    assert links(found) == [("b", "a/b.html"), ("d", "d.htm")]
    (section,) = found.sections
    assert (section.heading, section.level) == ("Basic Usage", 2)
    assert found.text[section.start :].startswith("json.dump")


# --- text ---


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p>a  b\n c</p>", "a b c"),
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("<p>a</p> <div><div>b</div></div>c", "a\n\nb\n\nc"),
        ("a<b>b</b> <i> c</i>d", "ab cd"),
        ("a <b> b </b> c", "a b c"),
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        ("<p>a<br></p><p>b", "a\n\nb"),
        ("<ul><li>a<li><p>b</p><p>c</p><ul><li>d</ul></ul>e", "a\nb\nc\nd\n\ne"),
        ("<ol><li><p>a</p></li>\n<li><p>b</p></li></ol>", "a\nb"),
        ("<dl><dt>a<dd>b<dt>c<dd><p>d</p><p>e</dl>", "a\n\nb\n\nc\n\nd\n\ne"),
        ("<table><tr><th>a<th>b<tr><td><p>c</p><td>d <br> e</table>f", "a b\nc d e\n\nf"),
        ("<table><tr><td><h2>a</h2>b<td><p>c</p><p>d</p></table>", "b\n\nc\n\nd"),
        ("<table><tr><td>a<td><table><tr><td>b<td>c</table></table>", "a\n\nb c"),
        ("<table role=presentation><tr><td>a<td>b</table>", "a\n\nb"),
        ("<pre>\n  a\n    b</pre>c", "a\n    b\n\nc"),
        ("x<pre>  a <b>b</b>\n\n\n <i>c</i> </pre>", "x\n\na b\n\n c".replace("x\n\na", "x\n\n  a")),
        ("<pre>a\tb</pre>", "a\tb"),
        ("a &amp; b &lt;i&gt; &#8212; &eacute;", "a & b <i> — é"),
        ("a&nbsp;b &nbsp; c", "a b c"),
        ("auto\u00admatic zero\u200bwidth a<wbr>b \x07", "automatic zerowidth ab"),
        ("10<sup>6</sup> and x<sup>th</sup>, H<sub>2</sub>O", "10⁶ and xth, H2O"),
        ("10<sup>-6</sup>, Ca<sup>2+</sup>, in\ufb02uence di\ufb00ers", "10⁻⁶, Ca²⁺, influence differs"),
        ("<math><msup>\n<mrow><mn>10</mn></mrow>\n<mrow><mo>-</mo><mn>6</mn></mrow>\n</msup></math> "
         "<math><mfrac><mn>1</mn><mn>2</mn></mfrac><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup></math>",
         "10⁻⁶ 1/2x1²"),
        ("<div class='note note-tip'><div><div class=title><h2>a</h2></div>b</div></div>", "a\n\nb"),
        ("<div class=alert><h4>a</h4>b</div><section class=callout-note><h4>c</h4>d", "a\nb\n\nc\nd"),
        ("<pre><a data-nosnippet>1</a>a</pre><p><a class=permalink>no</a>", "a"),
        ("b<i class=ltx_note_content><u class=ltx_tag_note>1</u>c", "b\nc"),
        ("<div><header class=admonition-header>a</header>b</div>", "a\n\nb"),
        ("a<img alt='no' src=x>b", "ab"),
        ("a<!-- no --><script>no()</script><style>no</style><noscript>no</noscript>b", "ab"),
        ("<template>no</template><svg><text>no</text></svg>b", "b"),
        ("a <span hidden>no</span><i aria-hidden=true>no</i><i style='display: none'>no</i> b", "a b"),
        ("<form>no</form><button>no</button><select><option>no</select>b", "b"),
        ("<details><summary>a</summary>b</details>", "a\nb"),
        ("<figure><img><figcaption>a</figcaption></figure>b", "a\n\nb"),
        ("<blockquote>a</blockquote>b<hr>c", "a\n\nb\n\nc"),
        ("<p>a<div>b</p>c</span>", "a\n\nb\n\nc"),
        ("<h2>H</h2>a", "a"),
        ("a <a href=#n>¶</a> b <a href='#n'> # </a>", "a b"),
        ("C# and #x and § 5", "C# and #x and § 5"),
        ("𝒳 😀‍🔥 a\u0308", "𝒳 😀‍🔥 a\u0308"),
        ("a\u2028b\u0085c", "a b c"),
        ("<p>这是一\n  段文字，\n第二 行\nand <i>日\n本</i>", "这是一段文字，第二 行 and 日本"),
    ],
)  # fmt: skip
def test_text(body: str, expected: str, tmp_path: Path) -> None:
    assert text(tmp_path, body) == expected


@pytest.mark.parametrize(
    "around",
    [
        "<nav>no</nav><main>{}</main><footer>no</footer>",
        "<div role=main>{}</div><p>no",
        "<main><div role=main>{}</div></main>no",
        "no<article>{}</article>",
        "<header>no</header><article>{}</article><aside>no</aside>",
        "no<div class='x body y'>{}</div>",
        "no<div id=mw-content-text>{}</div>",
        "no<div id=content>{}</div>no",
        "<div id=header>no</div>{}<div id=footer>no</div>",
        "<article>{}<article>y</article></article>no",
        "<form action=/>no<main>{}</main></form>",
        "<div id=header>no</div><div id=content></div><div id=footnotes>{}</div><div id=footer>no</div>",
        "<main></main><article>{}</article>no",
        "{}<ul class=breadcrumbs><li>no</ul><div class='contents topic'>no</div><p role=navigation>no",
        "{}<div class='toc x'>no</div><div class=sidebar>no</div><table class=navbox><tr><td>no</table>",
    ],
)
def test_the_main_part(around: str, tmp_path: Path) -> None:
    body = around.format("<p>yes")
    assert text(tmp_path, body).replace("\n\ny", "") == "yes"


@pytest.mark.parametrize(
    "body",
    [*(f"<main><p>a<aside {note}>b</aside><aside class=toc>no</aside></main>" for note in
       ("class='starlight-aside x'", "class=callout-note", "role=doc-footnote", "epub:type=footnote")),
     "<article>a</article><article>b</article><nav>no</nav>",
     "<p>a</p><aside>b</aside><aside>no</aside>", "<div id=content><p>a</p><article>b</article></div>",
     "<aside class='footnote brackets'>a</aside><aside class=topic>b</aside><aside>no</aside>",
     "<div class=sidebar><p class=sidebar-title>a</p>b</div><div class=sidebar><a href=x>no</a></div>",
     "<div class=sidebar><p class=title>a</p>b</div>",
     "<aside class=sidebar><p class=sidebar-title>a</p>b</aside><aside class=sidebar>no</aside>",
     "<p>a<aside data-type=sidebar>b</aside>",
     "<div><button class=accordion>a</button></div>b<button aria-expanded=true>no</button>",
     "<dt><button aria-expanded=false>a</button></dt><dd hidden=until-found>b</dd><p hidden>no",
     "<div>a</div><form><h1>T</h1>b</form><form>no</form>",
     "<div id=main><section><header><h2>H</h2><p>a</header><article>b</article></section>",
     "<main><header>no</header><header id=title-block-header><p>a</header><aside class=column-margin>b",
     "<blockquote>a<footer>b</footer></blockquote><footer>no</footer>",
     "<header><h1>no</h1><p>no</header><main><header><h1>T</h1><p>a</header><header>no</header>b",
     "<article><article><header>a</header>b</article></article>"],
)  # fmt: skip
def test_asides_buttons_forms_headers_and_footers_that_hold_text(body: str, tmp_path: Path) -> None:
    assert text(tmp_path, body) == "a\n\nb"


def test_panels_of_tabs_that_are_not_open_are_text(tmp_path: Path) -> None:
    body = (
        "<div class=tabbed-labels><label>C</label><label>D</label></div><div role=tabpanel>a</div>"
        "<div role=tabpanel hidden>b</div><div role=tabpanel style='display:none'>c</div>"
        "<div role=tabpanel aria-hidden=true>d</div><div hidden>no</div>"
    )
    assert text(tmp_path, body) == "C\nD\n\na\n\nb\n\nc\n\nd"


@pytest.mark.parametrize(("name", "start"), [("p.xhtml", ""), ("p.html", '<?xml version="1.0"?>\n')])
def test_empty_elements_of_xhtml_end_at_once(name: str, start: str, tmp_path: Path) -> None:
    page = (
        f"{start}<html xmlns='x'><head><title>T</title><script src='x.js'/></head><body><p>a"
        f"{'<span id=n />' * 2000}<a id='m' />, "
        "<a href='a/b.html'>b</a><br/>c</p><iframe/><p>d</p></body></html>"
    )
    found = document(tmp_path, page, name)
    assert (found.title, found.text, links(found)) == ("T", "a, b\nc\n\nd", [("b", "a/b.html")])


def test_a_page_of_nothing_but_navigation_keeps_it(tmp_path: Path) -> None:
    found = document(tmp_path, "<title>t</title><nav><a href=b.html>b</a></nav><script>no</script>")
    assert (found.text, links(found)) == ("b", [("b", "a/b.html")])


@pytest.mark.parametrize(
    "body", ["", "<p> </p>", "<script>x</script>", "<img alt=a>", "<main><h1>t</h1></main>no"]
)
def test_pages_without_text(body: str, tmp_path: Path) -> None:
    assert outcome(tmp_path, f"<title>t</title>{body}") == Ignored("empty page")


def test_the_index_of_terms_of_sphinx_is_left_out(tmp_path: Path) -> None:
    terms = "<p><a href=y>pump</a>, <a href=y>valve</a>"
    assert outcome(tmp_path, terms, "x/genindex-A.html") == Ignored("list or copy of other pages")
    assert isinstance(outcome(tmp_path, terms, "x/my-genindex.html"), Document)
    assert isinstance(outcome(tmp_path, "<p>What a genindex is.", "x/genindex.html"), Document)


# --- titles and sections ---


@pytest.mark.parametrize(
    ("page", "title", "headings"),
    [
        ("<title>A b - Site</title><h1>a  <i>B</i></h1>x", "a B", []),
        ("<title>A | Site</title><header><h1>Site</h1></header><h1>A</h1>x", "A", []),
        ("<title>A — Site</title><h1>Site</h1><main><h2>A</h2>x<h2>B</h2>y</main>", "A", ["B"]),
        ("<title>A</title><main><h1>B</h1>x</main>", "B", []),
        ("<title>A – B</title><main><h1>C</h1>x<h1>D</h1>y</main>", "A – B", ["C", "D"]),
        ("<title>Android</title><h2>And</h2>x", "Android", ["And"]),
        ("<h1>A<a class=headerlink href=#a>¶</a></h1>x<h1>B</h1>y", "A", ["B"]),
        ("<title>A</title><h1>A</h1>x<h3>A</h3>y", "A", ["A"]),
        ("<title>A</title><h1>A</h1>x<div class=tip><h3>Tip</h3>y</div>", "A", []),
        ("<title>A</title><main><h1>A</h1><section id=header><h2>Header</h2>x</section>", "A", ["Header"]),
        ("<title>A</title><h1>A</h1>x<h2 id=toc-1>1 TOC</h2>y<h2 id=content>Content</h2>z<section id=nav>no",
         "A", ["1 TOC", "Content"]),
        ("<title>A</title><h2><a class=permalink href='#B'>B</a></h2>x<h2>C<a class=permalink>no</a></h2>y",
         "A", ["B", "C"]),
        ("<title>A</title><div class=titlepage><h2>B</h2><h3 class=author>x</h3></div>", "A", ["B"]),
        ("<title> A\n b </title>x", "A b", []),
        ("<p>x", "page", []),
        ("<title>A</title><h2></h2><h2>¶</h2>x", "A", ["¶"]),
        ("<svg><title>no</title></svg><p>x", "page", []),
    ],
)  # fmt: skip
def test_title(page: str, title: str, headings: list[str], tmp_path: Path) -> None:
    found = document(tmp_path, page)
    assert found.title == title
    assert [section.heading for section in found.sections] == headings


def test_sections_begin_where_their_text_does(tmp_path: Path) -> None:
    found = document(
        tmp_path, "<p>0</p><h2>A <b>a</b></h2><h3>B</h3><ul><li>1</ul><h4><a href=b.html>C</a></h4>"
    )
    assert found.text == "0\n\n1\n\nC"  # a heading with a link is text, too
    assert [(s.start, s.heading, s.level) for s in found.sections] == [
        (3, "A a", 2),
        (3, "B", 3),
        (6, "C", 4),
    ]
    assert links(found) == [("C", "a/b.html")]


@pytest.mark.parametrize(
    ("page", "anchors"),
    [
        ("<h2 id=a>A</h2>x<h2><a id=b></a>B</h2>y<h2><a name=c>C</a></h2>z", ["a", "b", "c"]),
        ("<section id=s><h2>A</h2>x<h3>B</h3>y</section><div><h2>C</h2>z</div>", ["s", "", ""]),
        ("<section id=s>\n<h2 id=own>A</h2>x</section>", ["own"]),
        ("<a name=c></a>\n<h2>H</h2><p id=k>x</p><h3>I</h3>x", ["c", ""]),
        ("<section id=e><a class=src href=x>S</a><a href='#e' class=anchor>§</a><h4>H</h4>x", ["e"]),
        ("<div id=g><div class=titlepage><div><h2 class=title>H</h2></div></div></div>x", ["g"]),
        ("<div id=l>text<h2>H</h2>x</div><a id=p class=anchor aria-hidden=true></a><h2>I", ["", "p"]),
    ],
)
def test_sections_have_the_anchors_of_their_addresses(page: str, anchors: list[str], tmp_path: Path) -> None:
    assert [section.anchor for section in document(tmp_path, page).sections] == anchors


# --- links ---


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("b.html", "a/b.html"), ("./b.html#part", "a/b.html"), ("b.html?version=2", "a/b.html"),
        ("b", "a/b.html"), ("b/", "a/b.html"), ("../a/b.html", "a/b.html"), ("/a/b.html", "a/b.html"),
        (" b.html\n", "a/b.html"), ("../", "index.html"), ("..", "index.html"), ("/", "index.html"),
        ("../index.html", "index.html"), ("./", "a/index.html"), (".", "a/index.html"),
        ("../a", "a/index.html"), ("c%20d.html", "a/c d.html"), ("c d", "a/c d.html"),
        ("100%.html", "a/100%.html"), ("100%25.html", "a/100%.html"), ("../d.htm", "d.htm"),
        ("../d.html", "d.htm"), ("../d", "d.htm"), ("../%C3%9C.html", "Ü.html"),
        ("../U\u0308.html", "Ü.html"), ("B.HTML", "a/b.html"), ("gone.html", "a/gone.html"),
        ("../gone/", "gone/"), ("page.html", None), ("#part", None), ("", None), ("?q=1", None),
        ("../../index.html", None), ("../picture.png", None), ("https://example.org/a/b.html", None),
        ("//example.org/a/b.html", None), ("mailto:a@b.c", None), ("javascript:b.html", None),
        ("data:text/plain,b.html", None),
    ],
)  # fmt: skip
def test_links(href: str, target: str | None, tmp_path: Path) -> None:
    found = document(tmp_path, f'<p>see <a href="{href}"> the <b>b</b> </a> here')
    assert links(found) == ([("the b", target)] if target else [])
    assert found.text == "see the b here"


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("https://example.org/docs/a/b.html", "a/b.html"), ("http://example.org/docs/", "index.html"),
        ("//example.org/docs/d", "d.htm"), ("/docs/a/b", "a/b.html"), ("/a/b.html", None),
        ("https://example.org/a/b.html", None), ("https://example.org/docs2/a/b.html", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("canonical", ["page.html", "page", "page/"])
def test_the_canonical_link_tells_the_address_of_the_folder(
    canonical: str, href: str, target: str | None, tmp_path: Path
) -> None:
    head = f'<link rel="canonical" href="https://example.org/docs/a/{canonical}">'
    found = document(tmp_path, f'{head}<a href="{href}">x</a>')
    assert found.url == f"https://example.org/docs/a/{canonical}"
    assert [link.target for link in found.links] == ([target] if target else [])


def test_anchors_are_exact_and_end_where_the_page_ends_them(tmp_path: Path) -> None:
    found = document(
        tmp_path,
        "a<a href=b.html>b<a href=../d.htm> c</a>, <div><a href=b.html><p>d</p><p>e</p></a> <a href=b.html>"
        "</a><a href=b.html> <img alt=x></a><pre>x <a href=b.html> y</a></pre><a name=z>z</a>"
        "<a href=b.html><h2>H</h2>f</a>",
    )
    b = "a/b.html"
    assert links(found) == [("b", b), ("c", "d.htm"), ("d\n\ne", b), ("y", b), ("H", b)]


# --- redirects ---


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('<meta http-equiv="refresh" content="0; url=b.html">', Redirect("a/page.html", "a/b.html")),
        ("<META HTTP-EQUIV=Refresh CONTENT=\"0;URL='../'\">", Redirect("a/page.html", "index.html")),
        ('<meta http-equiv="refresh" content="5,b">', Redirect("a/page.html", "a/b.html")),
        (
            '<meta http-equiv="refresh" content="0; url=https://example.org/">',
            Ignored("page that leads out of the folder at once"),
        ),
        (
            '<meta http-equiv="refresh" content="0; url=../../x.html">',
            Ignored("page that leads out of the folder at once"),
        ),
        ('<meta http-equiv="refresh" content="30">', None),
        ('<noscript><meta http-equiv="refresh" content="0; url=../../no.html"></noscript>', None),
        ('<meta http-equiv="refresh" content="0; url=page.html">', None),
        ('<meta http-equiv="refresh" content="0; url=#top">', None),
        ('<meta http-equiv="refresh" content="60; url=b.html">', None),
        ('<link rel="canonical" href="b.html">', Redirect("a/page.html", "a/b.html")),
        ('<link rel="canonical" href="https://example.org/x/a/b.html">', Redirect("a/page.html", "a/b.html")),
        ('<link rel="canonical" href="https://example.org/x/a/b">', Redirect("a/page.html", "a/b.html")),
        ('<link rel="canonical" href="https://example.org/">', None),  # of every page, by mistake
        ('<link rel="canonical" href="https://example.org/index.html">', None),
        ('<link rel="canonical" href="page.html">', None),
        ('<link rel="canonical" href="gone.html">', None),
        ('<link rel="alternate" href="b.html">', None),
    ],
)
def test_redirects(head: str, expected: Outcome | None, tmp_path: Path) -> None:
    found = outcome(tmp_path, f"<html><head>{head}</head><body><p>x</body></html>")
    assert found == expected or (expected is None and isinstance(found, Document))


# --- pathological pages ---


@pytest.mark.parametrize(
    "piece",
    """<b> <p>x <li>x <a/href=b.html>x <sup> <h1>x</h1> <article>x</article> <br> <!--x--> </p> &amp; <x-y>
    <table><tr><td>x</table> <td><p>x<p>y <div>x</div> <base/href=x>""".split(),
)
def test_a_great_many_of_anything(piece: str, tmp_path: Path) -> None:
    """Time grows with the size of the page, and nothing recurses."""
    began = time.process_time()
    outcome(tmp_path, piece * 20_000)
    assert time.process_time() - began < 5


def test_blocks_may_be_as_deep_as_browsers_allow(tmp_path: Path) -> None:
    assert text(tmp_path, "<div>" * 900 + "x" + "</div>" * 900) == "x"


# --- against a foreign parser, and whatever comes ---


class _Words(HTMLParser):
    """The words between tags, by Python's own parser."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()


WORDS = st.lists(st.sampled_from(["a", "bc", "&amp;", "é", "x"]), min_size=1, max_size=4).map(" ".join)
TREES = st.recursive(
    WORDS,
    lambda inner: st.tuples(
        st.sampled_from("p div ul li b table pre section blockquote dl dt dd span h2 td".split()),
        st.lists(inner, min_size=1, max_size=3),
    ).map(lambda made: f" <{made[0]}> {' '.join(made[1])} </{made[0]}> "),
    max_leaves=12,
)


def laid_out(page: str, resolve: Callable[[str], str | None]) -> Layout:
    layout = Layout()
    root = LexborHTMLParser(page).body
    assert root is not None
    render(root, layout, without(root, everything=False), resolve)
    return layout


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_no_word_is_lost_glued_or_invented(body: str) -> None:
    """Every word of a page is in its text or its headings, in order within each."""
    layout = laid_out(f"<body>{body}", lambda href: None)
    parser = _Words()
    parser.feed(body)
    parser.close()
    shown = layout.text()
    found = shown.split() + [word for section in layout.sections for word in section.heading.split()]
    assert sorted(found) == sorted(parser.words)
    assert "\n\n\n" not in shown
    assert shown == shown.strip() or "<pre>" in body


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("<>/ab'\"=&#;! \n-ptdhrefl2"), max_size=80))
def test_any_source_gives_links_within_the_text(source: str) -> None:
    layout = laid_out(f"<body><a href=b.html>{source}", lambda href: href)
    shown = layout.text()
    for link in layout.links:
        anchor = shown[link.start : link.end]
        assert anchor.strip() == anchor != ""
    starts = [link.start for link in layout.links]
    assert starts == sorted(starts)


# --- addresses ---


def test_targets_prefer_what_is_written() -> None:
    targets = Targets(
        ["a.html", "A.html", "a/index.html", "b/index.html"], ["c.png"], (".html",), ("index.html",)
    )
    assert targets.find("a.html") == "a.html"
    assert targets.find("A") == "A.html"
    assert targets.find("a/") == "a/index.html"
    assert targets.find("a") == "a.html"
    assert targets.find("b") == targets.find("b.html") == targets.find("B/") == "b/index.html"
    assert targets.find("c.png") is None


# --- every link is counted --------------------------------------------------------------------------


def counted(folder: Path, page: str) -> tuple[int, dict[str, int]]:
    """The kept links of a page, and the number of those dropped for each reason."""
    reader = HTML(site(folder, page))
    [found, *ignored] = [
        one for record in reader.records() if record.place == "a/page.html" for one in reader.parse(record)
    ]
    dropped = {one.reason: one.count for one in ignored if "link" in one.reason}
    return len(found.links) if isinstance(found, Document) else 0, dropped


B = '<a href="b.html">b</a> '


@pytest.mark.parametrize(
    ("body", "kept", "dropped"),
    [
        (f"<p>x {B}<nav>{B}{B}</nav><footer>{B}</footer>", 1, {"navigation": 3}),
        (f"<main><p>x {B}</main><nav>{B}</nav><div>{B}</div>", 1, {"outside": 2}),
        (f'<p>x {B}<div hidden>{B}</div><div style="display:none">{B}</div>', 1, {"navigation": 2}),
        (f"<p>x {B}<map name=m><area href=b.html><area href=d></map>", 1, {"navigation": 2}),
        (f"<p>x {B}<svg><a href=b.html>s</a></svg><template>{B}</template>", 1, {"navigation": 1}),
        (f'<p>x {B}<a href="">same</a><a href>same</a><a name=n>no link</a>', 1, {"within": 2}),
        (f"<p>x {B}<h2>Part {B}</h2><p>y<h2>{B}</h2><p>z", 3, {}),
        (f"<p>x {B}</p><a href=b.html><h2>Part</h2></a>y<a href=b.html><h2> </h2></a>z", 2, {"without": 1}),
        ("<p>x<a href=b.html><img alt=i></a><h2>Part<a href=b.html><i> </i></a></h2>y", 0, {"without": 2}),
    ],
)
def test_no_link_vanishes_uncounted(tmp_path, body, kept, dropped):
    found, counts = counted(tmp_path, f"<title>t</title><body>{body}")
    assert found == kept
    words = ("navigation", "outside", "within", "without")
    assert {next(word for word in words if word in reason): n for reason, n in counts.items()} == dropped


def test_links_of_any_page_are_kept_or_counted(tmp_path):
    draw = random.Random(3)
    around = ["nav", "p", "div", "h2", "footer", "main", "ul", "form", "section", "table", "aside", "b"]
    hrefs = [
        "b.html",
        "../d.htm",
        "https://x.org/",
        "#n",
        "",
        "../picture.png",
        "../../out.html",
        "none.html",
    ]

    def piece(depth: int) -> str:
        if depth == 0:
            return f'<a href="{draw.choice(hrefs)}">{draw.choice(["w", "", " ", "¶"])}</a> word '
        tag = draw.choice(around)
        more = draw.choice(["", "", " hidden", " class=toc", ' role="navigation"'])
        return f"<{tag}{more}>{''.join(piece(depth - 1) for _ in range(draw.randrange(1, 4)))}</{tag}>\n"

    seen: set[str] = set()
    for _ in range(150):
        page = "<title>t</title><p>start</p>" + "".join(piece(draw.randrange(4)) for _ in range(5))
        kept, dropped = counted(tmp_path, page)
        assert kept + sum(dropped.values()) == page.count("<a href"), page
        seen |= set(dropped)
    assert len(seen) >= 7


def test_links_in_lines_of_most_pages_are_counted_and_anchors_stay(tmp_path):
    for n in range(12):
        body = f"<p>Menu {B}</p><p>Own text {n}</p><h2 id=part{n}>Part</h2><p>Own {n} {B}</p><p>End {B}</p>"
        (tmp_path / f"p{n}.html").write_text(f"<title>Page {n}</title>{body}", "utf-8")
    (tmp_path / "b.html").write_text("<p>b", "utf-8")
    reader = HTML(tmp_path)
    record = next(record for record in reader.records() if record.place == "p3.html")
    found, *ignored = reader.parse(record)
    assert found.text == "Own text 3\n\nOwn 3 b" and len(found.links) == 1
    assert [section.anchor for section in found.sections] == ["part3"]
    assert {one.reason: one.count for one in ignored} == {
        "lines that stand on most pages": 2,
        "links in lines that stand on most pages": 2,
    }


def test_saved_pages_link_to_each_other_by_the_addresses_that_they_name(tmp_path):
    heads = {
        "Pump.html": "<!-- saved from url=(0030)https://x.example/docs/pump/ -->",
        "Water works.html": "<link href='https://x.example/docs/w?id=1' rel=canonical>",
        "Home 1.html": "<link rel='canonical' href='https://x.example/'>",
        "Home 2.html": "<link rel='canonical' href='https://x.example/'>",
    }
    hrefs = ("pump/#part", "w?id=1", "other/", "../")
    body = "".join(f"<p><a href='https://X.example/docs/{href}'>{href}</a>" for href in hrefs)
    for name, head in heads.items():
        (tmp_path / name).write_text(f"{head}<title>t</title>{body}")
    reader = HtmlReader(tmp_path)
    found = {one.id: links(one) for one in reader.documents() if isinstance(one, Document)}
    assert found["Home 1.html"] == [("pump/#part", "Pump.html"), ("w?id=1", "Water works.html")]


def test_files_named_by_path_and_query(tmp_path):
    for name in ("page.php?id=3.html", "page.php@id=4.html", "page.php.html"):
        (tmp_path / name).write_text(
            "<a href='page.php?id=3#x'>3</a> <a href=page.php?id=4>4</a> <a href=page.php?id=5>5</a>"
        )
    found = {one.id: links(one) for one in HtmlReader(tmp_path).documents() if isinstance(one, Document)}
    three, four = ("3", "page.php?id=3.html"), ("4", "page.php@id=4.html")
    assert found["page.php.html"] == [three, four]
    assert found["page.php?id=3.html"] == [four, ("5", "page.php.html")]


def test_a_heading_of_most_pages_is_no_title(tmp_path):
    for number in range(12):
        (tmp_path / f"{number}.html").write_text(f"<title>M{number}</title><p>a<h1>Documentation</h1>b")
    titles = [one.title for one in HtmlReader(tmp_path).documents() if isinstance(one, Document)]
    assert sorted(titles) == sorted(f"M{number}" for number in range(12))
