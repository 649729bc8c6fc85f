"""What all HTML is made of: whatever a text holds, it is shown and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import Reader

from app.around.query_words import matched_spans
from app.web.view import (
    excerpt,
    heading_html,
    invitation_html,
    linked_text,
    marked_text,
    notice_html,
    paragraph_html,
    plain_label,
    safe_text,
    safe_url,
    source_html,
    title_html,
)


@given(st.text(alphabet="<>&\"'abc &;#x\u202e\n", max_size=60), st.data())
def test_what_is_read_is_what_was_written(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    marks = list(zip(cuts[::2], cuts[1::2], strict=False))
    read = Reader(marked_text(text, marks))
    shown = text.replace("\u202e", "").replace("\n", " ")
    assert read.text == shown
    assert read.marks == [text[a:b].replace("\u202e", "").replace("\n", " ") for a, b in marks]


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_direction_overrides_are_removed(code):
    assert safe_text(f"a{chr(code)}b") == "ab"


def test_controls_are_spaces_and_right_to_left_text_stays():
    assert safe_text("a\x00b\x1b[31m\u2028c\x9b") == "a b [31m c "
    assert safe_text("שלום مرحبا") == "שלום مرحبا"


@pytest.mark.parametrize("url", ["http://a.example", "https://a.example/x?a=1&b=%22#c", "HTTPS://a.example/"])
def test_addresses_of_the_web_are_linked(url):
    assert safe_url(url) == url
    assert Reader(source_html(url, "A title")).hrefs == [url]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//a.example",
        "/relative",
        "?q=x",
        "http:",
        "http:///x",
        "http://[broken",
        "https://a.example/\x00",
        "https://a.example/ b",
        "ftp://a.example/",
    ],
)
def test_other_addresses_are_not(url):
    assert safe_url(url) == ""
    assert source_html(url, "A title") == ""


def test_an_address_cannot_leave_its_attribute():
    read = Reader(source_html('https://a.example/"onclick="alert(1)', '"<b>'))
    assert read.hrefs == ['https://a.example/"onclick="alert(1)']
    assert Reader(title_html('"<b>', "d", 'article?id="><script>')).hrefs == ['article?id="><script>']


def test_an_article_without_a_title_has_its_id():
    assert "<bdi>d&lt;1&gt;</bdi>" in title_html("  ", "d<1>", "article")


# --- answers and anchors --------------------------------------------------------------------------


def test_answers_are_marked_otherwise_and_win():
    read = Reader(marked_text("the river Seine is a river", [(4, 9), (10, 15), (21, 26)], [(4, 15)]))
    assert read.marks == ["river Seine", "river"]
    assert read.classes == ["ls-said", ""]


def test_anchors_are_links_and_keep_their_marks():
    text = "the Seine & the <b>Loire</b>"
    html = linked_text(
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
    read = Reader(linked_text(text, spans(), spans(), anchors))
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
    read = Reader(marked_text(text, matched_spans("needle", text)))
    assert read.marks == ["needle"]
    assert read.text.startswith("… x ") and read.text.endswith("y …")
    assert len(read.text) < 2_010


# --- the rest of the page -------------------------------------------------------------------------


@given(st.text())
def test_names_and_messages_are_only_text(text):
    for html in (
        notice_html(text, text),
        invitation_html(text, text),
        heading_html({"search": text, text: text}, text, text, [(text, 3)]),
        paragraph_html(text),
    ):
        Reader(html)


def test_a_notice_is_an_alert():
    assert Reader(notice_html("the <b>message</b>", "a hint")).text == "The <b>message</b>a hint"
    assert 'role="alert"' in notice_html("x")


def test_labels_are_not_markdown():
    assert plain_label(":red[x] $y$ [a](b) :smile:") == (
        "\\:\u2060red\\[x\\] \\$y\\$ \\[a\\]\\(b\\) \\:\u2060smile\\:\u2060"
    )
    assert plain_label("hybrid") == "hybrid"
    assert plain_label("a\n# b\u202e") == "a \\# b"


def test_the_heading_says_where_one_is():
    html = heading_html({"search": "Search", "article": "Articles"}, "article", "my index", [("links", 1234)])
    read = Reader(html)
    assert read.hrefs == ["./", "./?index=my+index", "article?index=my+index"]
    assert '<a href="article?index=my+index" aria-current="page">Articles</a>' in html
    assert html.count("aria-current") == 1
    assert "<b>1,234</b> links" in html
