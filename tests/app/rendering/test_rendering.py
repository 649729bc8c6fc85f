"""Foreign text in HTML: it is shown as text, whatever it contains."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.app.answers import AnswerHit
from linkseek.app.rendering.html_templates import (
    excerpt,
    linked,
    passage_text,
    plain_label,
    plain_option,
    render,
    web_address,
)
from linkseek.retriever.search.query_words import matched_spans
from tests.support.reading import Reader


def part(call, **values):
    """What a macro of parts.html makes of some values."""
    from linkseek.app.rendering.html_templates import _ENVIRONMENT

    source = f'{{% from "parts.html" import article_link, source_link %}}{{{{ {call} }}}}'
    return _ENVIRONMENT.from_string(source).render(values).strip()


def marked(text, marks, answers=()):
    return linked(text, marks, answers, ())


def source_link(url, title):
    return part("source_link(url, title)", url=url, title=title)


def heading(pages, current, index="", counts=()):
    values = {"pages": pages, "current": current, "index": index, "counts": counts}
    return render("heading.html", with_name=True, **values)


@given(st.text(alphabet="<>&\"'abc &;#x\u202e\n", max_size=60), st.data())
def test_what_is_read_is_what_was_written(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    marks = list(zip(cuts[::2], cuts[1::2], strict=False))
    read = Reader(marked(text, marks))
    shown = text.replace("\u202e", "").replace("\n", " ")
    assert read.text == shown
    assert read.marks == [text[a:b].replace("\u202e", "").replace("\n", " ") for a, b in marks]


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_direction_overrides_are_removed(code):
    assert marked(f"a{chr(code)}b", ()) == "ab"
    assert Reader(render("paragraph.html", text=f"a{chr(code)}b")).text == "ab"


def test_controls_are_spaces_and_right_to_left_text_stays():
    assert marked("a\x00b\x1b[31m\u2028c\x9b", ()) == "a b [31m c "
    assert marked("שלום مرحبا", ()) == "שלום مرحبا"


@pytest.mark.parametrize(
    "url", ["http://a.example.org", "https://a.example.org/x?a=1&b=%22#c", "HTTPS://a.example.org/"]
)
def test_addresses_of_the_web_are_linked(url):
    assert web_address(url) == url
    assert Reader(source_link(url, "A title")).hrefs == [url]


@pytest.mark.parametrize(
    "url",
    [
        "", "javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)",
        "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//a.example.org", "/relative", "?q=x",
        "http:", "http:///x", "http://[broken", "https://a.example.org/\x00", "https://a.example.org/ b",
        "ftp://a.example.org/", "https://linkseek.example/wiki/Gold", "http://name.test",
    ],
)  # fmt: skip
def test_other_addresses_are_not(url):
    assert web_address(url) == ""
    assert source_link(url, "A title") == ""


def test_an_address_cannot_leave_its_attribute():
    read = Reader(source_link('https://a.example.org/"onclick="alert(1)', '"<b>'))
    assert read.hrefs == ['https://a.example.org/"onclick="alert(1)']
    html = linked("text", (), (), [(0, 4, 'article?id="><script>')])
    assert Reader(html).hrefs == ['article?id="><script>']


def test_an_article_without_a_title_has_its_id():
    link = Reader(part('article_link("d<1>", "  ", "i")'))
    assert link.all("a > bdi") == ["d<1>"] and link.hrefs == ["article?id=d%3C1%3E&index=i"]


# --- answers and anchors --------------------------------------------------------------------------


def test_answers_are_marked_otherwise_and_win():
    read = Reader(marked("the river Seine is a river", [(4, 9), (10, 15), (21, 26)], [(4, 15)]))
    assert read.marks == ["river Seine", "river"]
    assert read.classes == ["ls-said", ""]


def test_anchors_are_links_and_keep_their_marks():
    text = "the Seine & the <b>Loire</b>"
    html = linked(
        text, [(4, 9), (19, 24)], [(19, 24)], [(0, 9, "article?id=a&b"), (5, 12, "x"), (16, 28, "y")]
    )
    read = Reader(html)
    assert read.text == text
    assert read.hrefs == ["article?id=a&b", "y"]  # the second overlaps the first
    assert read.marks == ["Seine", "Loire"] and read.classes == ["", "ls-said"]


@given(st.text(alphabet="<>&\"'ab ;", max_size=40), st.data())
def test_anchors_and_marks_anywhere(text, data):
    def spans():
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
        return list(zip(cuts[::2], cuts[1::2], strict=False))

    anchors = [(start, end, f"article?id={start}") for start, end in spans()]
    read = Reader(linked(text, spans(), spans(), anchors))
    assert read.text == text
    assert read.hrefs == [address for _, _, address in anchors]


# --- long passages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length, marks, expected",
    [
        (10, [], (0, 10)),
        (2000, [(1990, 2000)], (0, 2000)),
        (5000, [], (0, 2000)),
        (5000, [(100, 110), (4000, 4010)], (0, 2000)),
        (5000, [(2500, 2510)], (2300, 4300)),
        (5000, [(4990, 5000)], (3000, 5000)),
    ],
)
def test_excerpts(length, marks, expected):
    assert excerpt(length, marks) == expected


def test_a_book_is_cut_around_its_first_marked_word():
    text = "x " * 500_000 + "needle " + "y " * 500_000
    marks = tuple(matched_spans("needle", text))
    shown, is_cut = passage_text(AnswerHit(1, 1.0, "a#0", "a", "A", text, "", marks), 2_000)
    read = Reader(re.sub(r'<span class="ls-folded">.*?</span>', "", shown))
    assert read.marks == ["needle"]
    assert read.text.startswith("… x ") and read.text.endswith("y …")
    assert is_cut and len(read.text) < 2_010


# --- the rest of the page -------------------------------------------------------------------------


@given(st.text())
def test_names_and_messages_are_only_text(text):
    for html in (
        render("notice.html", message=text, hint=text),
        render("invitation.html", title=text, text=text),
        heading({"search": text, text: text}, text, text, [(text, 3)]),
        render("paragraph.html", text=text),
        render("section.html", title=text),
        render("no_index.html", index=text),
    ):
        assert not {"script", "img"} & set(Reader(html).tags)  # the reader fails for any tag that is not ours


def test_a_notice_is_an_alert():
    read = Reader(render("notice.html", message="the <b>message</b>", hint="a hint"))
    assert read.all('[role="alert"] p') == ["The <b>message</b>", "a hint"]
    for message, shown in (
        ("x", "X"),
        ("a_b.toml: gone", "a_b.toml: gone"),
        ("hybrid: gone", "Hybrid: gone"),
    ):
        assert Reader(render("notice.html", message=message, hint="")).all('[role="alert"] p') == [shown]


def test_labels_are_not_markdown():
    assert plain_label(":red[x] $y$ [a](b) :smile:") == (
        "\\:\u2060red\\[x\\] \\$y\\$ \\[a\\]\\(b\\) \\:\u2060smile\\:\u2060"
    )
    assert plain_label("hybrid") == "hybrid"
    assert plain_label("a\n# b\u202e") == "a \\# b"


def test_options_stay_as_they_are():
    assert plain_option("hybrid-weighted (a)\n# b\u202e") == "hybrid-weighted (a) # b"


def test_the_heading_says_where_one_is():
    read = Reader(heading({"search": "Search", "article": "A & B"}, "article", "my index", [("links", 1234)]))
    assert read.hrefs == ["./", "./?index=my+index", "article?index=my+index"]
    assert read.all('[aria-current="page"]') == ["A & B"]
    assert read.all(".ls-index span") == ["my index", "1,234 links"]
