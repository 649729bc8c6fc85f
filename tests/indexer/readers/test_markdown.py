"""Markdown files: what is shown, where links lead, front matter, and pathological input."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.documents import Document
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.formats import all_readers
from linkseek.indexer.readers.reader import Ignored, Outcome, parse_at
from tests.support.tiny.corpus import links

MARKDOWN = all_readers()["markdown"]
FILES = [
    "README.md", "a/index.md", "a/b.md", "a/c d.md", "b/README.md", "b/Home-Page.md", "b/x.md", "x.markdown",
]  # fmt: skip


def outcomes(folder: Path, source: str | bytes, name: str = "a/page.md") -> list[Outcome]:
    """What a file becomes that lies between others and a picture."""
    for other in FILES:
        path = folder / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"")
    (folder / name).write_bytes(source if isinstance(source, bytes) else source.encode())
    reader = MARKDOWN(folder)
    return [one for record in reader.records() if record.place == name for one in parse_at(reader, record)]


def document(folder: Path, source: str | bytes, name: str = "a/page.md") -> Document:
    found = outcomes(folder, source, name)[0]
    assert isinstance(found, Document)
    return found


def test_a_file(tmp_path: Path) -> None:
    source = """---
title: "The *title*"
date: 2024-02-29
tags: [a, b c, 3]
draft: true
---
# Heading

Some **bold** `code` and a [link](b.md) with
a soft break.

## Install `it` {#install}

- one
- two

  three

```sh
pip install x   # comment

  indented
```

| a | b |
|---|---|
| 1 | [2](../x) |
"""
    found = document(tmp_path, source)
    assert (found.id, found.url, found.title) == ("a/page.md", "a/page.md", "The *title*")
    assert found.metadata == {"title": "The *title*", "date": "2024-02-29", "tags": "a, b c, 3"}
    assert found.text == (
        "Some bold code and a link with a soft break.\n\none\ntwo\nthree\n\n"
        "pip install x   # comment\n\n  indented\n\na b\n1 2"
    )
    assert links(found) == [("link", "a/b.md"), ("2", "x.markdown")]
    assert [(s.heading, s.level, found.text[s.start :][:4]) for s in found.sections] == [
        ("Heading", 1, "Some"),
        ("Install it", 2, "one\n"),
    ]


# --- text ---


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a *b* __c__ ~~d~~ `e  f`", "a b c d e f"),
        ("a\nb  \nc\\\nd", "a b\nc\nd"),
        ("a\n\nb\n***\nc", "a\n\nb\n\nc"),
        ("1. a\n2. b\n   - c\n\n\nd", "a\nb\nc\n\nd"),
        ("- a\n\n- b", "a\nb"),
        ("> a\n> b\n\nc", "a b\n\nc"),
        ("a\n\n    x = 1\n      y\n\nb", "a\n\nx = 1\n  y\n\nb"),
        ("~~~python title='x'\nx\n~~~\na", "x\n\na"),
        ("```\n<b> [x](y) &amp; **z**\n```", "<b> [x](y) &amp; **z**"),
        ("a ![alt](p.png) b", "a b"),
        ("[![alt](p.png)](b.md) a", "a"),
        ("a <b>c</b><!-- no --> d<br>e <kbd>f</kbd>", "a c d\ne f"),
        ("<div align=center>\n<p>a</p><script>no()</script>\n\n**b**\n\n</div>", "a\n\nb"),
        ("<details><summary>a</summary>\n\nb\n\n</details>", "a\n\nb"),
        ("<!-- no\n\nno -->\na", "a"),
        ("&copy; &amp;lt; \\*a\\* 1 \\[ 2", "© &lt; *a* 1 [ 2"),
        ("a[^1] b[^n]\n\n[^1]: note *one*\n[^n]: two\n", "a b\n\nnote one\n\ntwo"),
        ("- [ ] a\n- [x] b\n- [-] c\n- [>] d\n- [link](b.md)\n- [1] e", "a\nb\nc\nd\nlink\n[1] e"),
        ("> [!NOTE]\n> a", "a"),
        ("a {: .note } b {#x}", "a b"),
        ("{#x y and {% raw %}", "{#x y and {% raw %}"),
        ("a {{ .Values.x }} b", "a {{ .Values.x }} b"),
        ("a | b\n--|--\n`c|` | d \\| e", "a b\n`c ` |".replace("`c ` |", "`c `")),
        ("auto\u00admatic\u200b \u00a0 x", "automatic x"),
        ("a\r\nb\r\n\r\nc", "a b\n\nc"),
        ("第一\n行，\r\n第二行\nand\n第三行", "第一行，第二行 and 第三行"),
        ("한국어\n문장", "한국어 문장"),
        ("𝒳 😀‍🔥 a\u0308", "𝒳 😀‍🔥 a\u0308"),
        ("---\na\n---\nb", "a\n\nb"),
        ("+ a\n\n---\n\nb: c\n\n---", "a\n\nb: c"),
        ("---\nopen: front matter\n\na", "open: front matter\n\na"),
    ],
)
def test_text(source: str, expected: str, tmp_path: Path) -> None:
    assert document(tmp_path, source).text == expected


@pytest.mark.parametrize(
    ("source", "title", "headings"),
    [
        ("# A *b* `c`\nx\n# D\ny", "A b c", ["D"]),
        ("A\n===\nx\n\nB\n---\ny", "A", ["B"]),
        ("x\n## B\n# A\ny", "A", ["B"]),
        ("x\n## B\ny", "page", ["B"]),
        ("---\ntitle: A\n---\n# A\nx\n## A\ny", "A", ["A"]),
        ("---\ntitle: A\n---\n# B\nx", "A", ["B"]),
        *((f"---\ntitle: {title}\n---\nx", title, []) for title in ("2024", "010", "12:30", "Off", "1.10")),
        ("---\ntitle: [a]\n---\n# B\nx", "a", ["B"]),
        ("---\ntitle: {a: b}\n---\n# B\nx", "B", []),
        ("# [A](b.md) <b>c</b> ![d](e)\nx", "A c", []),
        ("# \nx\n# B\ny", "B", []),
        ("# [[b|A]]\nx", "A", []),
        ("# A {#a .b}\nx", "A", []),
        ("# A {-}\nx", "A", []),
        ("<h1 align=center>\n<img src=x> A <b>b</b>\n</h1>\n\nx\n# B\ny", "A b", ["B"]),
        ("---\nTitle: A\n---\nx", "A", []),
    ],
)
def test_title(source: str, title: str, headings: list[str], tmp_path: Path) -> None:
    found = document(tmp_path, source)
    assert found.title == title
    assert [section.heading for section in found.sections] == headings


def test_anchors_of_headings(tmp_path: Path) -> None:
    found = document(tmp_path, "x\n## The `tests` Directory\n## `impl<T>`: L'eau\n## <b>A</b> [b](c)\ny")
    assert [one.anchor for one in found.sections] == ["the-tests-directory", "implt-leau", "a-b"]


def test_empty_files(tmp_path: Path) -> None:
    for source in ("", "\n\n", "# Only a heading\n", "---\ntitle: x\n---\n", "<!-- x -->", "![x](y)"):
        assert outcomes(tmp_path, source) == [Ignored("empty page")]


# --- links ---


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("b.md", "a/b.md"), ("./b.md#part", "a/b.md"), ("b", "a/b.md"), ("b.html", "a/b.md"),
        ("b/", "a/b.md"), ("../a/b.md?raw=1", "a/b.md"), ("/a/b.md", "a/b.md"), ("c%20d.md", "a/c d.md"),
        ("<c d.md>", "a/c d.md"), (".", "a/index.md"), ("../a/", "a/index.md"),
        ("../a/index.html", "a/index.md"), ("../b", "b/README.md"), ("../b/", "b/README.md"),
        ("../b/index.html", "b/README.md"), ("..", "README.md"), ("../readme.md", "README.md"),
        ("../x", "x.markdown"), ("gone.md", "a/gone.md"), ("page.md", None), ("#part", None),
        ("../../README.md", None), ("../picture.png", None), ("https://example.org/a/b.md", None),
        ("mailto:a@b.c", None), ("javascript:alert(1)", None),
    ],
)  # fmt: skip
def test_links(href: str, target: str | None, tmp_path: Path) -> None:
    found = document(tmp_path, f"see [the **b**]({href}) here")
    assert found.text == "see the b here"
    assert links(found) == ([("the b", target)] if target else [])


def test_references_autolinks_and_raw_html(tmp_path: Path) -> None:
    source = """[one][r], [r], [R][], [two]( <b.md> "title"), <https://example.org>, https://b.md, [gone][q],
<a href="b.md">three</a>, <A HREF='../b/'>four</A>, `[no](b.md)`, \\[no](b.md), [a [b](b.md) c](x)

<p><a href="b.md">five</a> and <a name=x>six</a></p>

[r]: ../x "Title"
"""
    found = document(tmp_path, source)
    targets = dict.fromkeys(("one", "r", "R"), "x.markdown") | dict.fromkeys(("two", "three"), "a/b.md")
    assert links(found) == [*(targets | {"four": "b/README.md", "b": "a/b.md", "five": "a/b.md"}).items()]
    assert found.text.startswith(
        "one, r, R, two, https://example.org, https://b.md, [gone][q], three, four, [no](b.md)"
    )
    assert found.text.endswith("five and six")


@pytest.mark.parametrize(
    ("written", "shown", "target"),
    [
        ("[[b]]", "b", "a/b.md"),
        ("[[a/b]]", "a/b", "a/b.md"),
        ("[[b.md|text]]", "text", "a/b.md"),
        ("[[text|b]]", "text", "a/b.md"),  # GitHub's order
        ("[[B#Part|text]]", "text", "a/b.md"),
        ("[[Home Page]]", "Home Page", "b/Home-Page.md"),
        ("[[home page|text]]", "text", "b/Home-Page.md"),
        ("[[c d]]", "c d", "a/c d.md"),
        ("[[../b/x]]", "../b/x", "b/x.md"),
        ("[[README]]", "README", "README.md"),
        ("[[index]]", "index", "a/index.md"),
        ("[[x]]", "x", "x.markdown"),  # from the root, before the file of this name elsewhere
        ("[[Gone]]", "Gone", "Gone"),
        ("[[Gone|text]]", "text", "Gone"),
        ("[[page]]", "page", None),
        ("[[#Part]]", "#Part", None),
        ("![[b]]", "b", "a/b.md"),
        ("![[b#Part]]", "b", "a/b.md"),
        ("![[gone]]", "", None),
        ("`[[b]]`", "[[b]]", None),
        ("\\[[b]]", "[[b]]", None),
        ("[[b]", "[[b]", None),
        ("[[]]", "[[]]", None),
        ("[[1]](b.md)", "[1]", "a/b.md"),  # a link whose text is in brackets
    ],
)
def test_wiki_links(written: str, shown: str, target: str | None, tmp_path: Path) -> None:
    found = document(tmp_path, f"see {written} here")
    assert found.text == " ".join(f"see {shown} here".split())
    assert links(found) == ([(shown, target)] if target else [])


def test_wiki_links_in_tables(tmp_path: Path) -> None:
    found = document(tmp_path, "a|b\n-|-\n[[b\\|text]]|c")
    assert (found.text, links(found)) == ("a b\ntext c", [("text", "a/b.md")])


def test_a_name_of_two_files_leads_nowhere(tmp_path: Path) -> None:
    for folder in ("p", "q"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "Twice.md").write_text("x")
    found = document(tmp_path, "[[Twice]] [[p/Twice]]")
    assert links(found) == [("Twice", "Twice"), ("p/Twice", "p/Twice.md")]


# --- front matter ---


MERGED = "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 8)}]}}\n" for n in range(1, 14))


@pytest.mark.parametrize(
    ("fence", "written"),
    [
        *[
            ("---", written)
            for written in (
                "title: a: b", "title: {{ x }}", "[", "x: &a [*a", "d: 2024-13-45", "n: !!int x",
                "b: !!bool x", "o: !!python/object:os.x {}", "{[a]: b}", "t: !!timestamp x", "k: \tx\n\ty",
                "[" * 600, "a: " + "x" * 70_000, f"a0: &a0 {{x: y}}\n{MERGED}",
            )
        ],
        ("+++", "no toml"),
    ],
)  # fmt: skip
def test_front_matter_that_cannot_be_read_is_counted(fence: str, written: str, tmp_path: Path) -> None:
    page, note = outcomes(tmp_path, f"{fence}\n{written}\n{fence}\n# A\ntext")
    assert isinstance(page, Document)
    assert (page.title, page.text, page.metadata) == ("A", "text", {})
    assert note == Ignored("front matter that cannot be read (the page itself is kept)")


def test_front_matter_values(tmp_path: Path) -> None:
    def metadata(written: str) -> dict[str, str]:
        return dict(document(tmp_path, f"---\n{written}\n---\nx").metadata)

    assert metadata("date: 2024-02-29 12:30:00\ntags: a") == {"date": "2024-02-29T12:30:00", "tags": "a"}
    assert metadata("tags:\n- a\n- 1.5\n- [b]\n- {c: d}\n- null\n-  e \n  f") == {"tags": "a, 1.5, e f"}
    assert metadata('title: "a\\n b\\uD800"') == {"title": "a b?"}
    assert metadata("# nothing") == metadata("layout: x") == {}
    bomb = "a: &a [x,x]\n" + "".join(
        f"{b}: &{b} [{f'*{a},' * 9}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert metadata(f"{bomb}tags: [*i, y]") == {"tags": "y"}


def test_files_that_are_not_utf_8(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a/page\.md: line 3: not UTF-8 \(byte 0xfc\)") as caught:
        outcomes(tmp_path, b"# A\n\n\xfcber")
    assert "--on-error skip" in caught.value.hint
    assert document(tmp_path, "\ufeff---\ntitle: A\n---\nü").title == "A"
    assert document(tmp_path, "ü x".encode("utf-16")).text == "ü x"
    assert document(tmp_path, b"a\x00b").text == "a\ufffdb"


# --- pathological files ---


MANY = "[ * _ ` ![ [a]( **a < & ~~a [[ [[a| ] [^a] ^[ ![[ <b> <a/href='x'> [x ]( [[b]] | \\[ # <!--".split()


@pytest.mark.parametrize(
    "piece", [*MANY, "[a]:/b\n", "[^1]:x\n", "> x\n", "<div>\n\n", "|a|\n|-|\n", "a\n\n", "-\ta\n"]
)
def test_a_great_many_of_anything(piece: str, tmp_path: Path) -> None:
    """Time grows with the size of the file, and nothing recurses."""
    began = time.process_time()
    outcomes(tmp_path, piece * 2_500)
    assert time.process_time() - began < 6


@pytest.mark.parametrize("piece", ["> ", "- ", "> - ", "1. "])
def test_deep_nesting_is_refused(piece: str, tmp_path: Path) -> None:
    """The parser itself would leave out the rest of the file without a word."""
    assert document(tmp_path, f"{piece * 20}a\n\nb").text in ("a\n\nb", "a\nb")
    for count in (101, 20_000):
        with pytest.raises(InputError, match="nested 100 deep"):
            outcomes(tmp_path, f"{piece * count}a\n\nb")


def test_deep_html_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nested more than 1,000 deep"):
        outcomes(tmp_path, "<div>" * 100_000)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('ab[]()|!*_`~#> \n-<>/:.&1^{}\\"'), max_size=60))
def test_any_source_gives_links_within_the_text(source: str) -> None:
    from linkseek.indexer.readers.folder.page_layout import Layout
    from linkseek.indexer.readers.markdown.markdown_text import render_markdown

    class Everything:
        def address(self, href: str) -> str | None:
            return href or None

        def wiki(self, left: str, right: str) -> tuple[str | None, str]:
            return left, right or left

    layout = Layout()
    render_markdown(source, layout, Everything())
    shown = layout.text()
    assert shown == shown.strip()
    for link in layout.links:
        anchor = shown[link.start : link.end]
        assert anchor.strip() == anchor != ""
    starts = [link.start for link in layout.links]
    assert starts == sorted(starts)
    assert all(0 <= section.start <= len(shown) for section in layout.sections)
