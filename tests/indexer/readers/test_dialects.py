"""Dialects of Markdown, addresses of sites, and what stands around the text of generated web pages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.markdown.markdown_dialects import dialect_of
from linkseek.indexer.readers.reader import Ignored
from tests.support.tiny.corpus import links

PAGES = {"guide.md": "# The guide\n\nx\n", "install.md": "# Install\n\nx\n", "sub/page.md": "# Page\n\nx\n"}


class Corpus:
    """A folder of files, read."""

    def __init__(self, folder: Path, files: dict[str, str | bytes], choices: Choices = DEFAULT) -> None:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        self.reader = open_reader(folder, None, choices)
        outcomes = list(self.reader.documents())
        self.documents = {one.id: one for one in outcomes if isinstance(one, Document)}
        self.dropped: Counter[str] = Counter()
        for one in outcomes:
            if isinstance(one, Ignored):
                self.dropped[one.reason] += one.count

    def links(self, name: str) -> list[tuple[str, str]]:
        return links(self.documents[name])


def page(tmp_path: Path, source: str, dialect: str = "") -> tuple[str, list[str]]:
    """Text and targets of the page home.md, next to others."""
    corpus = Corpus(tmp_path / "docs", {**PAGES, "home.md": source}, Choices(markdown=dialect))
    return corpus.documents["home.md"].text, [target for _, target in corpus.links("home.md")]


DIALECTS = {
    # MkDocs
    '!!! note "Before"\n    Get the [guide](guide.md).\n\n    - [[install]]\n\nEnd.': (
        "Before\n\nGet the guide.\n\ninstall\n\nEnd.", ["guide.md", "install.md"]),
    '??? tip\n    Run *[it](install.md)*.\n': ("Run it.", ["install.md"]),
    '=== "Linux"\n\n    See [a](guide.md).\n\n    ```sh\n    !!! x\n    ```\n\n=== "Windows"\n\n    See b.': (
        "Linux\n\nSee a.\n\n!!! x\n\nWindows\n\nSee b.", ["guide.md"]),
    "- item\n\n    !!! warning\n        [x](guide.md)\n": ("item\nx", ["guide.md"]),
    "/// note | Title\nSee [a](guide.md).\n///\n\n::: package.module\n    options: x\n\nEnd.": (
        "Title\n\nSee a.\n\nEnd.", ["guide.md"]),
    # Hugo
    'See [the guide]({{< ref "guide.md" >}}), [i]({{< relref "/install#x" >}}).\n\n{{% notice '
    'note %}}\nCare.\n{{% /notice %}}': (
        "See the guide, i.\n\nCare.", ["guide.md", "install.md"]),
    'A {{< glossary_tooltip text="pod" term_id="pod" >}}. `{{< kept >}}` {{</* shown */>}} {{< '
    'comment >}}no{{< /comment >}}': (
        "A pod. {{< kept >}} {{< shown >}}", []),
    '{{< highlight go "linenos=true" >}}\nx := [y](guide.md)\n{{< /highlight >}}': ("x := [y](guide.md)", []),
    # Jekyll
    "[a]({% link guide.md %}) [b]({{ site.baseurl }}/install) [c]({{ '/sub/page' | relative_url "
    "}})\n\n{% include n.html x=1 %}{% raw %}{{ y }}{% endraw %} {{ page.z }}": (
        "a b c\n\n{{ y }}", ["guide.md", "install.md", "sub/page.md"]),
    "{% comment %}no{% endcomment %}a\n\n* TOC\n{:toc}\n": ("a", []),
    # MDX, Docusaurus
    "import Tabs from '@theme/Tabs';\nimport {\n  A,\n  B\n} from 'x'\n\nexport const X = () => "
    "<b>x</b>;\n\n:::note Careful\n\nSee [guide](./guide.md).\n\n:::\n\n{/* no */}\n\n<Tabs>\n\n"
    "Text A.\n\n</Tabs>": (
        "Careful\n\nSee guide.\n\nText A.", ["guide.md"]),
    '<Note>\nSee [guide](guide.md).\n</Note>\n\n<Card\n  title="Install it"\n  href="/install"\n'
    '>\nNow.\n</Card>': (
        "See guide.\n\nInstall it\n\nNow.", ["guide.md", "install.md"]),
    "::: tip\nA [b](guide.md)\n:::\n\n::: {.note}\nC\n:::": ("A b\n\nC", ["guide.md"]),
    # MyST
    "(home)=\n# Home\n\n```{note}\n:class: x\nRead the [guide](guide.md).\n```\n\nSee "
    "{doc}`guide`, {doc}`it <install>`, [](guide.md), {term}`x`.": (
        "Read the guide.\n\nSee The guide, it, The guide, x.", ["guide.md", "guide.md", "install.md",
        "guide.md"]),
    "```{toctree}\nguide\n```\n\n````{admonition} T\n```python\nx = {y}\n```\n````\n\n"
    "```{code-block} py\n:linenos:\nz\n```": (
        "T\n\nx = {y}\n\nz", []),
    ":::{tip}\n:class: y\nA [b](guide.md)\n:::": ("A b", ["guide.md"]),
    "::::{code} py\n:::\n# [a](guide.md)\n::::\n:::{toctree}\nguide\n:::\n:::{figure} x.png\nb\n:::": (
        ":::\n# [a](guide.md)\n\nb", []),
    "::: {.callout-note}\n\n## Mind\na\n:::\n::: {#thm-a}\n# B\n:::": ("Mind\n\na\n\nB", []),
    # Obsidian, GitHub
    "Public %%my [[guide]] salary%%\n\n%%\nsecret [[guide]]\n%%\n\nEnd `100%% %%`.": ("Public\n\n"
    "End 100%% %%.", []),
    "> [!note]- Folded\n> a [[guide]]\n\n> [!custom-kind]+\n> b": ("Folded a guide\n\nb", ["guide.md"]),
    "[TOC]\n\na\n\n[[_TOC_]]\n\n[[toc]]": ("a", []),
    # Notes of other vaults, Logseq
    "See the [[guide|dendron://main/sub.page]], [[docs|guide]], [[dendron://main/install]].": (
        "See the guide, docs, install.", ["sub.page", "guide.md", "install.md"]),
    "A [label]([[guide]]).": ("A label.", ["guide.md"]),
    # MDN, VitePress
    '{{APIRef("DOM")}}\n\nThe {{cssxref("color")}} of {{Glossary("DOM", "the DOM")}}, {{ '
    '$frontmatter.title }}x': (
        "The color of the DOM, x", []),
    'a\n\n--8<-- "x.md"\n\n{{#include y.rs}} b\n\n```rust,ignore\n{{#rustdoc_include ../y.rs:here}}\n```': (
        "a\n\nb", []),
    '{{< card title="T" link="guide.md" >}}\n\n'
    '<TabItem value="w" label="W">See <Link to="/guide">g</Link></TabItem>': (
        "T\n\nW\n\nSee g", ["guide.md", "guide.md"]),
    '[a](guide.md "T"){target=_blank} [b](install.md){:target="_blank"} ![i](x.png){:height 2, :width 3}c': (
        "a b c", ["guide.md", "install.md"]),
    "a\n\n--8<--\nx.md\n; y.md\n\nz.md\n--8<--\n\nb": ("a\n\nb", []),
    "```{list-table} T\n:header-rows: 1\n* - a\n  - [b](guide.md)\n```": ("T\n\na\nb", ["guide.md"]),
    "[[guide\\|g]] ![[install#x]] ![[x.png|3]] [[sub]]": ("g install sub", ["guide.md", "install.md", "sub"]),
    "!!!note\n    [a](guide.md)\n\n???+tip\n    b\n\n!!!wow\n\n???": (
        "a\n\nb\n\n!!!wow\n\n???", ["guide.md"]),
    "{% post_link guide 'the post' %} {% post_link install %}": (
        "the post Install", ["guide.md", "install.md"]),
    "a\n\n<<< @/x.js\n\n@[code](y.js)\n\n[[_TOSP_]]\n\n{{optional_inline}}b": ("a\n\nb", []),
    # GitBook, Markdoc
    '{% tabs %}\n{% tab title="First" %}\nSee [g](guide.md).\n{% endtab %}\n{% endtabs %}\n\n'
    '{% quick-link title="Install" href="/install" description="Now." /%}\n\n'
    '{% set title="no" %}\na {% x title="no" %}': (
        "First\n\nSee g.\n\nInstall\n\nNow.\n\na", ["guide.md", "install.md"]),
    # DocFX
    '> [!div class="nextstepaction"]\n> [Next](~/guide.md)\n\n[!INCLUDE [x](y.md)] Use [!UICONTROL F].\n\n'
    ':::image type="content" source="x.png" alt-text="no":::\n\n::: zone pivot="a"\n\nb :::image type="icon" '
    'source="x":::\n\n::: zone-end\n\n[!code-cs[Main](x.cs?highlight=1)]': (
        "Next\n\nUse F.\n\nb", ["guide.md"]),
    # Docsify; names of the site's root
    "!> Mind [g](guide.md#x)\n\n## H :id=own\n\n[i]({filename}/install.md) [g](|filename|guide.md) "
    "[p](@/sub/page.md)": (
        "Mind g\n\ni g p", ["guide.md", "install.md", "guide.md", "sub/page.md"]),
    '<details markdown="1">\n<summary>S</summary>\n**a** [g](guide.md)\n</details>\n\n<div x markdown>\n'
    '[i](install.md)\n</div>\n\n<aside>\n*b*\n\n</aside>': (
        "S\n\na g\n\ni\n\nb", ["guide.md", "install.md"]),
    # Quarto, Pandoc, kramdown
    '::: {.callout-note title="Mind"}\nA [b c]{.smallcaps} [d]{lang=fr}, [g](guide.md){.x}\n:::\n\n'
    '{::comment}no{:/comment}{::options x="y" /}\n\n:::tip[Title]{icon="heart"}\ne\n:::': (
        "Mind\n\nA b c d, g\n\nTitle\n\ne", ["guide.md"]),
    "[](project:guide.md#x) [a](@site/install.md)": ("The guide a", ["guide.md", "install.md"]),
}  # fmt: skip


@pytest.mark.parametrize("source", DIALECTS)
def test_dialects(tmp_path: Path, source: str) -> None:
    assert page(tmp_path, source) == DIALECTS[source]


def test_days_and_pages_within_pages_of_logseq(tmp_path: Path) -> None:
    corpus = Corpus(
        tmp_path,
        {
            "logseq/config.edn": "{}",
            "pages/a.md": "- [[Jan 2nd, 2024]] [[Dec 11th, 2023]] [[2024-01-02]] [[Person/Anna]]",
            "pages/Person___Anna.md": "- x",
            "pages/Person%2FBen%3F.md": "- x",
            "journals/2024_01_02.md": "- x",
            "journals/2023_12_11.md": "- x",
        },
    )
    first, second = "journals/2024_01_02.md", "journals/2023_12_11.md"
    targets = [target for _, target in corpus.links("pages/a.md")]
    assert targets == [first, second, first, "pages/Person___Anna.md"]
    titles = {each.title for name, each in corpus.documents.items() if "Person" in name}
    assert titles == {"Person/Anna", "Person/Ben?"}


def test_a_dialect_can_be_named_and_is_known_by_its_config(tmp_path: Path) -> None:
    logseq = "title:: x\n- tags:: y\n- TODO a [[guide]] ((6536c2c4-1111-2222-3333-444455556666)) {{query z}}"
    assert page(tmp_path / "a", logseq, "logseq") == ("TODO a guide", ["guide.md"])
    assert page(tmp_path / "b", "!!! note\n    x {{ y }}", "plain")[0] == "!!! note x {{ y }}"
    assert page(tmp_path / "c", "a {{ y }} b")[0] == "a {{ y }} b"
    (tmp_path / ".eleventy.js").touch()
    assert dialect_of(tmp_path, []) == dialect_of(tmp_path / "posts", []) == "jekyll"
    for name, dialect in (("_config.yml", "jekyll"), ("mkdocs.yml", "mkdocs"), ("logseq/config.edn",
    "logseq"),
                          ("eleventy.config.js", "jekyll"), ("quartz.config.ts", "obsidian"),
                          ("docusaurus.config.js", "docusaurus")):  # fmt: skip
        corpus = Corpus(tmp_path / name.replace("/", "-"), {"a.md": "a {{ y }} b", name: "x"})
        assert corpus.reader.targets().facts.dialect == dialect
        assert corpus.documents["a.md"].text == ("a b" if dialect in ("jekyll", "mkdocs") else "a {{ y }} b")


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    source = (
        "[a](https://other.example/x) [b](#part) [c](../../up.md) [d](picture.png) "
        "[](guide.md)[]( home.md) %%no%%\n\n"
        "{{< figure >}} {% include x %}\n\nimport A from 'a'\n\n[e](nothing.md)"
    )
    corpus = Corpus(tmp_path / "docs", {**PAGES, "home.md": source, "picture.png": ""})
    assert corpus.dropped == {
        "links to other sites": 1, "links within a page": 2, "links out of the folder": 1,
        "links to files that are not pages": 1, "comments of authors": 1, "tags of site generators": 2,
        "imports and exports of MDX": 1, ".png": 1,
    }  # fmt: skip
    assert ("e", "nothing.md") in corpus.links("home.md")


@pytest.mark.parametrize(
    ("files", "written", "targets"),
    [
        ({"hugo.toml": "", "c/p/index.md": "x", "c/a.md": "x"},
         '[1]({{< ref "p" >}}) [2]({{< ref "c/a" >}}) [3]({{< relref "../c/a.md#x" >}})',
         ["c/p/index.md", "c/a.md", "c/a.md"]),
        ({"docusaurus.config.js": "", "src/pages/p.md": "x", "docs/a.md": "x"},
         "[1](/p) [2](/a) [3](@site/docs/a.md)", ["src/pages/p.md", "docs/a.md", "docs/a.md"]),
        ({"202001011200 Idea.md": "x"}, "[[202001011200]] [[202001011200 Idea]]",
         ["202001011200 Idea.md"] * 2),
        ({"Topic/index.md": "x"}, "[[Topic]]", ["Topic/index.md"]),
        ({"How\u2010to-guide.md": "x"}, "[[How-to guide]]", ["How\u2010to-guide.md"]),  # of GitHub
        ({"1.md": "# Of pumps\nx", "2.md": "# Two\nx", "two.md": "y", "3.md": "# O\nx", "4.md": "# O\nx"},
         "[[of pumps]] [[Two]] [[O]]", ["1.md", "two.md", "O"]),
        ({"r/V/m.md": "x", "r/W/m.md": "x", "r/W/n/index.md": "x"}, "[[V/m]] [[r/W/M.md|it]] [[W/n]] [[m]]",
         ["r/V/m.md", "r/W/m.md", "r/W/n/index.md", "m"]),
        ({".obsidian/app.json": "{}", "n/B C.md": "x"}, "[1](B%20C.md) [2](n/B%20C)", ["n/B C.md"] * 2),
        ({"files/en-us/web/css/a/index.md": "---\nslug: Web/CSS/a\n---\nx"}, "[1](/en-US/docs/Web/CSS/a)",
         ["files/en-us/web/css/a/index.md"]),
        ({"docusaurus.config.js": "", "docs/how/how.md": "x"}, "[1](/docs/how) [2](../docs/how/)",
         ["docs/how/how.md"] * 2),
        ({"hugo.toml": "", "blog/p/index.md": "---\nslug: first\n---\nx"}, "[1](../first/) [2](/blog/first)",
         ["blog/p/index.md"] * 2),
        ({"Pre%2Drequisites.md": "x", "CI%2DCD/A.md": "x"}, "[1](/Pre%2Drequisites) [2](/CI%2DCD/A.md)",
         ["Pre%2Drequisites.md", "CI%2DCD/A.md"]),
        ({"blog/a.md": "x", "b.mdx": "x", "c/index.md": "x"},
         "[1](../a/) [2](../../b#x) [3](../../c/) [4](../a.md) [5](../none/)",
         ["blog/a.md", "b.mdx", "c/index.md", "a.md", "none/"]),
        ({"blog/a.en.md": "x", "blog/a.fr.md": "x", "blog/p/index.fr.md": "x", "blog/_index.en.md": "x"},
         "[1](a) [2](../a/) [3](/fr/blog/a/) [4](p/) [5](/blog/) [6](a.fr.md)",
         ["blog/a.en.md"] * 2 + ["blog/a.fr.md", "blog/p/index.fr.md", "blog/_index.en.md", "blog/a.fr.md"]),
    ],
)  # fmt: skip
def test_pages_by_the_names_of_generators(
    tmp_path: Path, files: dict[str, str | bytes], written: str, targets: list[str]
) -> None:
    corpus = Corpus(tmp_path / "docs", {**files, "blog/z.md": written})
    assert [target for _, target in corpus.links("blog/z.md")] == targets


@pytest.mark.parametrize(
    ("config", "target"), [("hugo.toml", "a.fr.md"), ("mkdocs.yml", "a.fr.md"), ("none.toml", "a.md")]
)
def test_translations_by_the_names_of_files(tmp_path: Path, config: str, target: str) -> None:
    pages = dict.fromkeys(["a.md", "a.fr.md", "c.md", "p/index.md", "p/index.fr.md", "z.md"], "x")
    files = {**pages, config: "", "z.fr.md": "[1](a.md) [2](c.md) [3](p/) [English](z.md)"}
    found = Corpus(tmp_path / "docs", files).links("z.fr.md")
    assert [target for _, target in found] == [target, "c.md", "p/index.fr.md", "z.md"]


@pytest.mark.parametrize("depth", [50, 3000])
def test_nested_blocks_end(tmp_path: Path, depth: int) -> None:
    source = (
        "".join(f"{'    ' * n}!!! note\n" for n in range(depth))
        + f"{'    ' * depth}x\n\n"
        + ":::note\n" * depth
    )
    text, _ = page(tmp_path, source[: 1 << 20])
    assert text


@pytest.mark.parametrize(
    "mark",
    ["{% a ", "{{ a ", "{/* ", "import a,\n", "~~~a `\n", "{{< comment >}}", "{% raw %}", "{::comment}"],
)
def test_marks_without_ends_take_no_long_time(tmp_path: Path, mark: str) -> None:
    corpus = Corpus(tmp_path / "docs", {"a.md": "x\n\n" + mark * 30_000})
    assert corpus.dropped == {"pages read as plain CommonMark: too many tags": 1}


# --- front matter and addresses ---


@pytest.mark.parametrize(
    "front",
    ['+++\ntitle = "A page"\ndate = 2024-01-02\ntags = ["x","y"]\nlang = "fr"\n+++\n',
     "---\ntitle: A page\ndate: 2024-01-02\ntags: [x, y]\nlang: fr\n---\n"],
)  # fmt: skip
def test_front_matter(tmp_path: Path, front: str) -> None:
    document = Corpus(tmp_path / "v", {"a.md": f"{front}\nBody."}).documents["a.md"]
    assert (document.title, document.text) == ("A page", "Body.")
    assert document.metadata == {"title": "A page", "date": "2024-01-02", "tags": "x, y", "language": "fr"}


def test_braces_and_rulers_at_the_start_are_text(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "v", {"a.md": '{"a": 1} is JSON.', "b.md": "{ x }", "c.md": "+++\nx"})
    assert [one.text for one in corpus.documents.values()] == ['{"a": 1} is JSON.', "{ x }", "+++ x"]


def test_pages_under_the_addresses_that_they_give_themselves(tmp_path: Path) -> None:
    files = {
        "guide.md": "---\nslug: /how-to/guide\naliases:\n  - /old-guide\n  - The Manual\n"
        "permalink: /perma/guide/\n"
        "redirect_from: /older/\nid: own\n---\nGuide.",
        "01-intro/02-start.md": "Start.",
        "_posts/2024-03-01-news.md": "News.",
        "index.md": "[1](/how-to/guide) [2](/old-guide) [3](/perma/guide/) [4](/older/) [5](own) "
        "[6](intro/start)"
        " [7](/2024/03/01/news.html) [[The Manual]] [8]({% post_url 2024-03-01-news %})",
    }
    targets = [target for _, target in Corpus(tmp_path / "v", files).links("index.md")]
    guide, start, news = "guide.md", "01-intro/02-start.md", "_posts/2024-03-01-news.md"
    assert targets == [guide] * 5 + [start, news, guide, news]


def test_the_root_of_a_site_need_not_be_the_folder_s(tmp_path: Path) -> None:
    files = {
        "guide.md": "x", "en/_index.md": "[guide](/docs/a/) [g](/docs/guide)", "en/docs/a.md": "x",
        "fr/docs/a.md": "[a](/docs/a/) [b](/docs/b)", "en/docs/b.md": "x",
        "index.md": "[a](/docs/guide) [b](https://docs.acme.example/docs/guide) "
        "<https://docs.acme.example/docs/en/docs/a> "
        "[c](https://x.example/guide) [d](../docs/guide.md)",
    }  # fmt: skip
    corpus = Corpus(tmp_path / "docs", files)
    targets = [target for _, target in corpus.links("index.md")]
    assert targets == ["guide.md", "guide.md", "en/docs/a.md", "guide.md"]
    assert [target for _, target in corpus.links("en/_index.md")] == ["en/docs/a.md", "guide.md"]
    assert [target for _, target in corpus.links("fr/docs/a.md")] == ["en/docs/b.md"]  # the other is itself
    assert corpus.dropped == {"links to other sites": 1, "links within a page": 1}


@pytest.mark.parametrize(
    ("site", "targets"),
    [("https://acme.example/manual/", ["a.md", "a.md"]), ("/manual/", ["a.md"]), ("", ["manual/a"])],
)
def test_the_address_of_a_site_by_option(tmp_path: Path, site: str, targets: list[str]) -> None:
    files = {
        "a.md": "x",
        "b.md": "[1](/manual/a) [2](https://acme.example/manual/a) [3](https://acme.example2/manual/a)",
    }
    corpus = Corpus(tmp_path / "v", files, Choices(site=site))
    assert [target for _, target in corpus.links("b.md")] == targets


def test_the_address_of_a_site_by_its_config(tmp_path: Path) -> None:
    files = {
        "a.md": "x",
        "b.md": "[2](https://acme.example/x/a)",
        "mkdocs.yml": "site_url: https://acme.example/x/\n",
    }
    assert Corpus(tmp_path / "v", files).links("b.md") == [("2", "a.md")]


def test_mdx_and_excluded_files(tmp_path: Path) -> None:
    files = {"a.mdx": "import X from 'x'\n\n# A\n\nText {props.x} of [b](b.md).",
    "b.md": "[a](a.mdx) [c](drafts/c.md)",
             "drafts/c.md": "x", "sub/_part.md": "x"}  # fmt: skip
    corpus = Corpus(tmp_path / "v", files, Choices(exclude=("drafts", "_*.md")))
    assert list(corpus.documents) == ["a.mdx", "b.md"]
    assert (corpus.documents["a.mdx"].text, corpus.links("b.md")[0]) == ("Text of b.", ("a", "a.mdx"))
    assert corpus.dropped["excluded by --exclude"] == 2


def test_markdown_and_web_pages_in_one_folder(tmp_path: Path) -> None:
    files = {"a.md": "[b](b.html) [c](c)", "b.html": "<title>B</title><p><a "
    "href='a.md'>a</a>", "c.html": "<p>c",
             "_layout.html": "<p>{{ content }}"}  # fmt: skip
    corpus = Corpus(tmp_path / "v", files)
    assert (corpus.reader.name, list(corpus.documents)) == ("pages", ["a.md", "b.html", "c.html"])
    assert corpus.links("a.md") == [("b", "b.html"), ("c", "c.html")]
    assert corpus.links("b.html") == [("a", "a.md")]
    assert corpus.dropped == {"template of web pages": 1}


LAYOUT = "<html><title>{{ page.title }} | S</title><body>{{ content }}"
PROSE = "The tag is replaced by its value when the page is made, and errors are shown in red. " * 2


@pytest.mark.parametrize(
    ("content", "template"),
    [
        (LAYOUT, True),
        ("{% extends 'b.html' %}<h1>About</h1>text", True),
        ("<!-- x -->{{ define }}<p>a", True),
        ("<a href='{{ u }}'>{{ n }}</a>", True),
        ("<% @x.each do %><p>a", True),
        ("<title>Clock</title><p>{{Year, Month, Day}, {Hour, Minute}}", False),
        ("<title>Sets</title><p>{{a,b}} {% x %}", False),
        ("<h1>Mustache</h1><p>Write {{name}}", False),
        (f"<title>{{{{ x }}}} - Jinja</title><p>{PROSE}", False),
        ("<p>x<pre>{{ a }}</pre>", False),
    ],
)
def test_templates_are_no_pages(tmp_path: Path, content: str, template: bool) -> None:
    for more in ({}, {"a.md": "x"}):
        corpus = Corpus(tmp_path / f"v{len(more)}", {"z.html": "<p>z", "t.html": content, **more})
        assert ("t.html" not in corpus.documents) is template
        assert corpus.dropped["template of web pages"] == template


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("https://a.example/#abc https://a.example/#/x/guide", 0),
        ("https://a.example/?v=1 https://a.example/ https://a.example//?u", 0),
        ("https://a.example/v/z https://a.example/v/guide", 0),
        ("https://a.example/v/guide https://a.example/v/b", 2),
        ("https://a.example/guide https://a.example/guide/ https://a.example/guide.html "
         "https://a.example/guide.md https://a.example/guide?x https://a.example/guide#y", 0),
    ],
)  # fmt: skip
def test_one_address_makes_no_site(tmp_path: Path, written: str, count: int) -> None:
    files = {"index.md": "x", "guide.md": "x", "b.md": "x", "z.md": f"<{written.replace(' ', '> <')}>"}
    assert len(Corpus(tmp_path / "v", files).links("z.md")) == count


# --- web pages ---


def html(body: str, head: str = "") -> str:
    return f"<html lang=de><head><title>T</title>{head}</head><body>{body}</body></html>"


def web(tmp_path: Path, content: str | bytes, name: str = "sub/page.html") -> Corpus:
    return Corpus(tmp_path / "site", {"a.html": html("<p>a"), "sub/b.html": html("<p>b"), name: content})


@pytest.mark.parametrize(
    ("head", "href", "target"),
    [
        ("<base href='https://x.example/water/'>", "a.html", "a.html"),
        ("<base href='https://x.example/water/'>", "https://x.example/water/sub/b.html", "sub/b.html"),
        ("<base href='https://x.example/water/sub/'>", "b.html", "sub/b.html"),
        ("<base href='https://x.example/water/sub/page.html'>", "../a.html", "a.html"),
        ("<base href='../../'>", "site/a.html", "a.html"), ("<base href='../'>", "sub/b.html", "sub/b.html"),
        ("<base href='/'>", "sub/b", "sub/b.html"), ("<base href='/sub/index.html'>", "b.html", "sub/b.html"),
        ("<base href='https://x.example/'>", "gone.html", "gone.html"),  # dangling
        ("<base href='https://x.example/'>", "/sub/b.html", "sub/b.html"), ("<base href='../'>", "#x", None),
        ("", "b\t.ht\nml", "sub/b.html"),
        ("", "..\\a.html", "a.html"), ("", ".\\b.html?x=\\y", "sub/b.html"), ("", "../../site/a.html",
        "a.html"),
    ],
)  # fmt: skip
def test_bases_and_backslashes(tmp_path: Path, head: str, href: str, target: str | None) -> None:
    corpus = web(tmp_path, html(f"<p>x <a href='{href}'>y</a>", head))
    assert corpus.links("sub/page.html") == ([("y", target)] if target else [])


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("gb2312", "gbk", "朱镕基与囍字"), ("GBK", "gb18030", "镕€"), ("x-sjis", "cp932", "日本語①～髙㈱"),
        ("ks_c_5601-1987", "cp949", "뷁"), ("iso-8859-9", "cp1254", "“Işık”"), ("koi8", "koi8-r", "Привет"),
        ("iso-8859-8-i", "iso8859-8", "שלום"), ("tis-620", "cp874", "น้ำ"), ("big5", "big5hkscs", "水泵啫"),
        ("ascii", "cp1252", "é “€”"), ("utf-16", "utf-8", "ü"), ("utf-8", "utf-8", "Übel €"),
        ("iso-8859-1", "cp1252", "Übel €"), ("no-such", "utf-8", "Übel €"), ("rot13", "utf-8", "Übel €"),
        ("iso-8859-99", "cp1252", "Übel €"), ("latin-1", "utf-8-sig", "Übel €"),
    ],
)  # fmt: skip
def test_encodings_by_the_web_s_own_table(tmp_path: Path, label: str, codec: str, text: str) -> None:
    source = html(f"<p>{text}", f"<meta http-equiv=Content-Type content='text/html; charset={label}'>")
    document = web(tmp_path, source.encode(codec)).documents["sub/page.html"]
    assert (document.text, document.metadata) == (text, {"language": "de"})


@pytest.mark.parametrize(
    ("start", "codec"), [("", "utf-8"), ("", "cp1252"), ('<?xml encoding="ISO-8859-15"?>', "iso8859-15")]
)
def test_encodings_that_no_element_declares(tmp_path: Path, start: str, codec: str) -> None:
    page = web(tmp_path, f"{start}<p>Übel €".encode(codec)).documents["sub/page.html"]
    assert page.text == "Übel €"


def test_characters_that_an_encoding_lacks_are_counted(tmp_path: Path) -> None:
    corpus = web(tmp_path, html("<p>Привет", "<meta charset=utf-8>").encode("cp1251"))
    assert corpus.dropped == {"characters that the encoding of a page does not have": 6}


NAVIGATION = {
    "DocBook": "<div class=navheader><a accesskey=p href=b.html>Prev</a></div>TEXT"
    "<div class=navfooter><a accesskey=h href=../a.html>Home</a></div>",
    "Texinfo": "<div class=header><p>Next: <a href=b.html accesskey=n rel=next>B</a></p></div>TEXT<hr>"
    "<div class=nav-panel>Up: <a href=../a.html rel=up>A</a></div>",
    "AsciiDoc, HTML 5": "<header id=header><h1>T</h1><h2>Name</h2><div class=sectionbody>TEXT</div></header>",
    "AsciiDoc": "<div id=header><h1>T</h1><h2>Name</h2><div class=sectionbody>TEXT</div></div>",
    "Doxygen": "<div id=top><div id=titlearea>Lib</div><div id=MSearchResultsWindow>Searching...</div>"
    "<div id=nav-path class=navpath><a href=b.html>b</a></div></div><div class=header><div class=summary>"
    "<a href=b.html>List</a></div><div class=title>T</div></div><div class=contents>TEXT</div>"
    "<address class=footer>Generated by x</address>",
    "LaTeX2HTML": "<!--Navigation Panel--><A HREF='b.html'><IMG ALT='next'></A><BR><B> Nächste:</B> <A "
    "HREF='b.html'>About this document ...</A><BR><!--End of Navigation Panel-->TEXT<BR><HR>"
    "<!--Navigation Panel--><B> Next:</B> <A HREF='b.html'>B</A><!--End of Navigation Panel-->"
    "<ADDRESS>Joe 2001-02-03</ADDRESS>",
    "LaTeX2HTML without comments": "<B> Next:</B> <A HREF=b.html>B</A> <B> Up:</B> <A HREF=b.html>C</A> "
    "&nbsp; <B> <A HREF=b.html>Contents</A></B><BR>TEXT<HR><B> Previous:</B> <A HREF=b.html>B</A><BR>",
    "makeinfo 4.0": "<p>Node:<a name=Foo>Foo</a>,\nNext:<a rel=next href=b.html>B</a>,\n"
    "Up:<a rel=up href=../a.html>Top</a>\n<hr><br>TEXT",
    "makeinfo 4.8": "<div class=node><p><a name=Foo></a>Next:&nbsp;<a rel=next accesskey=n href=b.html>B</a>,"
    "<hr></div>TEXT",
    "makeinfo 5": "<div class=header><p>Next: <a href=b.html rel=next>B</a> &nbsp; [<a href=b.html "
    "rel=contents>Contents</a>][<a href=b.html rel=index>Index</a>]</p></div><hr>TEXT<hr><p>Next: "
    "<a href=b.html>B</a>, Up: <a href=b.html>C</a> [<a href=b.html>Contents</a>]</p>",
    "texi2html": "<table><tr><td>[<a href=b.html> &lt;&lt; </a>]</td><td>[<a href=b.html> Up </a>]</td>"
    "<td>[<a href=b.html> ? </a>]</td></tr></table>TEXT",
    "a page of Drupal": "<div class=node><div class=content>TEXT</div></div>",
    "Material": "<main><div class='md-sidebar'><a href=b.html>B</a></div><article>"
    "<a class='md-content__button' href=b.html>edit</a>TEXT</article></main>",
    "rustdoc": "<main><section><span class=rightside>1.0 · <a class=src>Source</a></span>"
    "<details open><summary class=hideme>Expand"
    "</summary>TEXT</details><a href=b.html class=anchor>§</a></section></main>",
    "pdoc": "<main>TEXT<input class=view-source-toggle-state><label class=view-source-button>View</label>"
    "<div class=pdoc-code><pre>x</pre></div></main>",
    "TypeDoc": "<div class=col-content>TEXT</div><div class=col-sidebar>This Page<a href=b.html>B</a></div>",
    "YARD": "<div id=header><a href=b.html>Index</a></div><div id=content>TEXT<pre class=lines>1</pre></div>",
    "Honkit": "<div role=main>TEXT<div class=search-results><h1>No results</h1></div></div>",
    "kramdown": "<main><details><summary>Contents</summary><ol id=markdown-toc><li><a href=#x>X</a></ol>"
    "</details>TEXT</main>",
    "R Markdown": "<div id=TOC><ul><li><a href=#x>X</a></ul></div>TEXT",
    "DokuWiki": "<main><div class=pageId>n:page</div><div id=dw__toc><h3>Contents</h3><a href=#x>x</a></div>"
    "TEXT</main>",
    "GTK-Doc": "<table class=navigation><tr><td><a accesskey=u href=b.html>Up</a></table>TEXT"
    "<div class=footer><hr>Generated by GTK-Doc</div>",
    "Javadoc": "<div class=topNav><ul class=navList><li><a href=b.html>Package</a></ul></div>"
    "<div class=contentContainer>TEXT</div><div class=bottomNav>x</div><p class=legalCopy>Copyright",
}


@pytest.mark.parametrize("generator", NAVIGATION)
def test_navigation_of_generators(tmp_path: Path, generator: str) -> None:
    body = NAVIGATION[generator].replace("TEXT", "<h1>T</h1><p>Pumps move <a href=../a.html>water</a>.</p>")
    corpus = web(tmp_path, html(body))
    assert corpus.documents["sub/page.html"].text == "Pumps move water."
    assert corpus.links("sub/page.html") == [("water", "a.html")]


@pytest.mark.parametrize(
    "line",
    ["Next: <a href=b.html>B</a> moves water.", "<a href=b.html>B</a>: up", "Index: <a href=b.html>B</a>x",
     "<a href=b.html>Home</a> is <a href=../a.html>A</a>"],
)  # fmt: skip
def test_lines_that_only_begin_like_navigation_are_text(tmp_path: Path, line: str) -> None:
    corpus = web(tmp_path, html(f"<h1>T</h1><p>x</p><p>{line}</p><p>y</p>"))
    assert corpus.links("sub/page.html") and not corpus.dropped


@pytest.mark.parametrize(
    ("root", "files"),
    [
        ("https://github.com/acme/Pump/wiki", ["Home.md"]),
        ("https://GitHub.com/ACME/pump/wiki", ["_Sidebar.md"]),
        ("https://gitlab.com/acme/sub/pump/-/wikis", ["home.md"]),
    ],
)
def test_full_addresses_within_a_wiki_of_a_repository(tmp_path: Path, root: str, files: list[str]) -> None:
    page = (
        f"[1]({root}/Getting-Started#x) <{root}/FAQ> [3]({root}) [4](https://github.com/acme/other/wiki/FAQ) "
        "[5](https://github.com/acme/pump/issues)"
    )
    wiki = {**dict.fromkeys(files, "x"), "Getting-Started.md": "x", "FAQ.md": "x", "z.md": page}
    targets = [target for _, target in Corpus(tmp_path / "clone", wiki).links("z.md")]
    home = [name for name in files if name.lower() == "home.md"]
    assert targets == ["Getting-Started.md", "FAQ.md", *home]
    docs = {"FAQ.md": "x", "z.md": page}
    assert Corpus(tmp_path / "docs", docs).dropped == {"links to other sites": 5}
    assert len(Corpus(tmp_path / "pump.wiki", docs).links("z.md")) == 2
    assert Corpus(tmp_path / "named", docs, Choices(site=root)).links("z.md")[:1] != []


def test_lines_that_stand_on_most_pages(tmp_path: Path) -> None:
    def content(n: int) -> str:
        around = ("<p><a href=0.html>Pumps</a> | Index</p>", "<p>Made by a program.</p>")
        return html(
            f"{around[0]}<p>Text {n}, see <a href={n + 1}.html>next</a>.</p><p>Index</p><p>End "
            f"{n}.</p>{around[1]}"
        )

    few = Corpus(tmp_path / "few", {f"{n}.html": content(n) for n in range(5)})
    assert few.documents["1.html"].text.startswith("Pumps | Index")
    many = Corpus(
        tmp_path / "many", {f"{n}.html": content(n) for n in range(12)} | {"z.html": html("<p>Index")}
    )
    assert many.documents["1.html"].text == "Text 1, see next.\n\nIndex\n\nEnd 1."
    assert many.links("1.html") == [("next", "2.html")]
    assert many.documents["z.html"].text == "Index"  # a page of nothing else stays
    assert many.dropped["lines that stand on most pages"] == 24


def test_names_of_notes_and_ends_of_front_matter(tmp_path: Path) -> None:
    files = {
        "n/One.md": "---\naliases: [First, N1]\n---\nx",
        "p.md": "---\ntitle: P\npermalink: /perm/c.html\n...\nbody",
        "w.md": "# W\n\nbody".encode("utf-16-le"),
        "home.md": "[[First]] [c](/perm/c) {% raw %}{{ kept }}{% endraw %}",
        "_config.yml": "",
    }
    corpus = Corpus(tmp_path / "docs", files)
    assert corpus.links("home.md") == [("First", "n/One.md"), ("c", "p.md")]
    assert corpus.documents["home.md"].text.endswith("{{ kept }}")
    assert {corpus.documents[name].text for name in ("p.md", "w.md")} == {"body"}


@pytest.mark.parametrize(
    ("config", "heading", "anchor"),
    [("mkdocs.yml", "Què és – això", "que-es-aixo"), ("x.yml", "Café & thé", "café--thé"),
     (".vitepress/config.mts", "1. Où est-ce ?", "_1-ou-est-ce")],
)  # fmt: skip
def test_anchors_are_those_of_the_generator(config: str, heading: str, anchor: str, tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / "docs", {config: "", "a.md": f"# A\n\nx\n\n## {heading}\n\ny"})
    assert [section.anchor for section in corpus.documents["a.md"].sections] == [anchor]


def test_links_to_neighbours_are_navigation_in_any_language(tmp_path: Path) -> None:
    body = "<p>Следующее: <a href={}.html>T {}</a></p><p>Body {}"
    corpus = Corpus(tmp_path / "docs", {f"{n}.html": html(body.format(n + 1, n, n)) for n in range(5)})
    assert [page.text for page in corpus.documents.values()] == [f"Body {n}" for n in range(5)]
