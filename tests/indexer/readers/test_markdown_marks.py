"""Marks of dialects of Markdown within lines, front matter of other programs, names of pages and labels."""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.markdown.markdown_dialects import to_commonmark
from tests.indexer.files.test_bounds import assert_linear
from tests.indexer.readers.test_dialects import PAGES, Corpus, page

MARKS = {
    # MkDocs: pymdown's keys, emoji, caret, tilde, mark, critic, and snippets; Python-Markdown's extensions
    ("mkdocs", "Press ++ctrl+alt+del++, ++page-up++ or ++\"Any key\"++; C++ and D++."): (
        "Press Ctrl+Alt+Del, Page Up or Any key; C++ and D++.", []),
    ("mkdocs", "- :material-clock:{ .lg } __Set up__ :octicons-heart-16: [:simple-x: Start](guide.md)"): (
        "Set up Start", ["guide.md"]),
    ("mkdocs", "H~2~O, 2^10^, ^^new^^, ==*marked*==, a == b == c"): (
        "H2O, 210, new, marked, a == b == c", []),
    ("mkdocs", "*[HTML]: Hyper Text\n\nThe HTML.\n\n;--8<-- \"shown\""): (
        'The HTML.\n\n--8<-- "shown"', []),
    ("mkdocs", "Term\n:   See [guide](guide.md).\n\n    More.\n\nOther\n\n:   x"): (
        "Term\n\nSee guide.\n\nMore.\n\nOther\n\nx", ["guide.md"]),
    ("mkdocs", "[The class][pkg.Cls], [guide][], [b][it].\n\n[it]: guide.md"): (
        "The class, guide, b.", ["guide.md"]),
    ("mkdocs", "> !!! note\n>     See [a](guide.md).\n>\n> End."): ("See a.\n\nEnd.", ["guide.md"]),
    ("mkdocs", "`++a++ ==b== :material-x:` and\n\n    ==c== {++d++}"): (
        "++a++ ==b== :material-x: and\n\nc d", []),
    # CriticMarkup
    ("", "a{++ new++}{-- old--} {~~was~>is~~} {==b==}{>>why<<} c"): ("a new is b c", []),
    # Obsidian
    ("obsidian", "A ==light== text. ^b-1\n\n- item ^b2\n\n2 ^ 3\n\n^alone"): (
        "A light text.\n\nitem\n\n2 ^ 3", []),
    ("", "See [[guide#^b-1|it]] x ^b-1"): ("See it x", ["guide.md"]),
    ("", "It grows with n ^2"): ("It grows with n ^2", []),
    # GitHub's wikis
    ("", "[[Docs|https://x.example/y]] [[https://x.example|z]] [[the one|guide]] [[images/x.png|alt=X]]"): (
        "Docs z the one", ["guide.md"]),
    # Logseq
    ("logseq", "- #guide and #[[install]], [[guide]], #1 `#no` ^^hi^^"): (
        "#guide and #install, guide, #1 #no hi", ["guide.md", "install.md", "guide.md"]),
    ("logseq", "- #+BEGIN_QUOTE\n  a [[guide]]\n  #+END_QUOTE\n- [#A] b\n"
     "#+begin_query\n{:q [[x]]}\n#+end_query"): (
        "a guide\nb", ["guide.md"]),
    ("jekyll", "[g]({{ '/guide/' | url }})"): ("g", ["guide.md"]),
    # MDX
    ("mdx", "a {`text`} {1 + 2}b\n\n{[1].map(x => (\n  <li>{x}</li>\n))}\n\n"
     '<Link to="/guide">g</Link> c'): (
        "a text b\n\ng c", ["guide.md"]),
    ("mdx", "<Tabs>\n  <Tab\n    title='A'\n  >\n    ```sh\n    <b>\n      c\n    </b>\n    ```\n\n"
     "    1. [g](guide.md)\n\n       d\n    2. e\n  </Tab>\n</Tabs>\n\n<Card>\n\tf [i](install.md)\n"
     "</Card>"): (
        "A\n\n<b>\n  c\n</b>\n\ng\nd\ne\n\nf i", ["guide.md", "install.md"]),
    ("mdx", "<Tabs>\n  <Tab title='A'>\n\n- a\n  - b\n\n```\nc:\n  d\n```\n\n  </Tab>\n</Tabs>"): (
        "A\n\na\nb\n\nc:\n  d", []),
    ("docusaurus", "- a\n\n  <Note>\n\n      b [g](guide.md)\n\n  </Note>\n\n    c"): (
        "a\nb g\nc", ["guide.md"]),
    ("mdx", "# T [#own]\n\na{' '}\n<A.B>b {\"c\"} {'{'}</A.B> <>d</> `{' '}`"): ("a b c { d {' '}", []),
    ("mdx", '<div id="own">\n  ## H\n</div>\n\n<details>\n<summary>S</summary>\n**T:** [g](guide.md)\n'
     "</details>"): ("S\n\nT: g", ["guide.md"]),
    ("docusaurus", "<img src={require('./x.png').default} /> a <Link to={'/guide'}>b</Link> <T x={{y: 1}} "
     "z={1}>c</T>\n\n<a href={useBaseUrl('/install')}>d</a>"): ("a b c\n\nd", ["guide.md", "install.md"]),
    ("mdx", '<LinkCard title="G" href="/guide/" description="How to" />'): ("G\n\nHow to", ["guide.md"]),
    # MyST
    ("myst", "::::{grid}\n:::{grid-item-card} Card\n:link: guide\n:link-type: doc\n\nx\n:::\n::::"): (
        "Card\n\nx", ["guide.md"]),
    ("myst", "```{csv-table} T\n:header: a\n\n1, 2\n```\n\n```{math}\n:label: e\n```\n\n{eq}`e` b\n\n^^^"): (
        "T\n\n1, 2\n\nb", []),
    ("myst", "```{grid-item-card} Card\n:link: guide\nx\n```\n\n{ref}`t <none>`"): (
        "Card\n\nx\n\nt", ["guide.md", "none"]),
    # Hugo, Jekyll
    ("hugo", '{{< button relref="guide" >}}Go{{< /button >}} now'): ("Go now", ["guide.md"]),
    ("hugo", '{{% tab name="A" %}}\na\n{{% /tab %}}\n{{< tab "B" >}} b {{< /tab >}}'): (
        "A\n\na\n\nB b", []),
    ("jekyll", '{% include note.html content="See the manual" %}'): ("See the manual", []),
}  # fmt: skip


@pytest.mark.parametrize(("dialect", "source"), MARKS)
def test_marks(tmp_path: Path, dialect: str, source: str) -> None:
    assert page(tmp_path, source, dialect) == MARKS[dialect, source]


def test_edits_and_references_are_counted(tmp_path: Path) -> None:
    files = {**PAGES, "home.md": "a {--b--}{>>c<<} [d][e.f]", "mkdocs.yml": ""}
    dropped = Corpus(tmp_path / "docs", files).dropped
    assert dropped["deletions and comments in CriticMarkup"] == 2
    assert dropped["tags of site generators"] == 1


@pytest.mark.parametrize(
    "mark",
    ["{--", "{~~a~>", "{~~", "<A\n", "</>", "{==", "==a ", "^^a ", "[a][", "{a {b {", "++a+", "> > a\n"],
)
def test_marks_without_ends_take_linear_time(tmp_path: Path, mark: str) -> None:
    """A page of a few; of many more, the step that reads the marks."""
    for dialect in ("mkdocs", "mdx"):
        assert page(tmp_path / dialect, "x\n\n" + mark * 500, dialect)[0]

        def work(count: int, dialect: str = dialect) -> Callable[[], object]:
            return lambda: to_commonmark(mark * count, dialect, Counter())

        assert_linear(work, 3_000)


@pytest.mark.parametrize(
    ("dialect", "source"),
    [("", ';;;\n{"title": "Tä"}\n;;;\nbody'), ("", '---toml\ntitle = "Tä"\n---\nbody'),
     ("", '---json\n{"title": "Tä"}\n---\nbody'), ("", "% Tä\n% Author\n% 2020\n\nbody"),
     ("mkdocs", "Title: Tä\nAuthor: x\n    y\n\nbody"), ("logseq", "title:: Tä\ntype:: x\n\n- body")],
)  # fmt: skip
def test_front_matter_of_other_programs(tmp_path: Path, dialect: str, source: str) -> None:
    corpus = Corpus(tmp_path / "v", {"a.md": source, "b.md": "x"}, Choices(markdown=dialect))
    assert (corpus.documents["a.md"].title, corpus.documents["a.md"].text) == ("Tä", "body")


@pytest.mark.parametrize(
    ("dialect", "source"),
    [("mkdocs", "Note: this\n\nbody"), ("myst", "% comment\n\nbody"), ("", "a:: b\n\nbody")],
)
def test_lines_that_are_no_front_matter(tmp_path: Path, dialect: str, source: str) -> None:
    document = Corpus(tmp_path / "v", {"a.md": source}, Choices(markdown=dialect)).documents["a.md"]
    assert (document.title, document.text[-4:]) == ("a", "body")


NAMES = {
    "Logseq": ({"pages/Water.md": "alias:: H2O, [[Aqua]]\n\n- x", "journals/a.md": "[[H2O]] #aqua"},
               "journals/a.md", [("H2O", "pages/Water.md"), ("#aqua", "pages/Water.md")]),
    "Docusaurus' blog": ({"blog/2021-03-04-hello.md": "x", "blog/2021-03-05-yo/index.md": "y",
                          "docusaurus.config.js": "",
                          "a.md": "[a](/blog/2021/03/04/hello) [b](blog/2021/03/05/yo)"},
                         "a.md", [("a", "blog/2021-03-04-hello.md"), ("b", "blog/2021-03-05-yo/index.md")]),
    "MyST's labels": (
        {"conf.py": "", "install.md": "(inst)=\n# Install\n\nx\n\n(sec-b)=\n## B\n\ny\n\n"
         "```{figure} x.png\n:name: fig\n```",
         "a.md": "[](#sec-b) {ref}`inst` <project:#sec-b> <project:install.md> [f](#fig)"},
        "a.md", [("B", "install.md"), ("Install", "install.md"), ("B", "install.md"),
                 ("Install", "install.md"), ("f", "install.md")]),
    "chapters of a book": (
        {"_quarto.yml": "", "m.qmd": "# The way {.x #sec-way}\n\nx\n\n## B {#b}\n\ny",
         "a.qmd": "See @sec-way, [it](#sec-way), [b](#b), a@sec-way.org"},
        "a.qmd", [("The way", "m.qmd"), ("it", "m.qmd")]),
    "addresses of folders": (
        {"hugo.toml": "", "content/en/a.md": "[a](/docs/b/index.html)", "content/en/docs/b.md": "x"},
        "content/en/a.md", [("a", "content/en/docs/b.md")]),
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_names_of_pages(tmp_path: Path, kind: str) -> None:
    files, name, links = NAMES[kind]
    assert Corpus(tmp_path / "docs", files).links(name) == links


def test_lzma(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl.lzma"
    path.write_bytes(lzma.compress(b'{"id": "a", "text": "x", "links": []}\n', format=lzma.FORMAT_ALONE))
    assert [document.text for document in open_reader(path).documents()] == ["x"]
