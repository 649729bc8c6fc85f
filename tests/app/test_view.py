"""The HTML of results: whatever a text holds, it is shown and nothing else."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_index import HOSTILE_TEXT, HOSTILE_TITLE

from app.marking import matched_spans
from app.service import Answer, Hit
from app.view import (
    answer_html,
    excerpt,
    heading_html,
    hit_html,
    invitation_html,
    marked_text,
    notice_html,
    paragraph_html,
    plain_label,
    safe_text,
    safe_url,
)

OWN_TAGS = {"section", "header", "h2", "h3", "bdi", "span", "p", "ol", "li", "div", "a", "mark", "b", "h1"}
OWN_ATTRIBUTES = {"class", "aria-label", "href", "target", "rel", "dir", "role"}


class Reader(HTMLParser):
    """Tags, links and text as a browser would find them; checks that all tags are closed in order."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.hrefs, self.open, self.text = [], [], [], ""
        self.marks = []
        self.feed(html)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        assert set(self.tags) <= OWN_TAGS

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= OWN_ATTRIBUTES
        self.hrefs += [value for name, value in attrs if name == "href"]
        if tag == "mark":
            self.marks.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "mark" in self.open:
            self.marks[-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def hit(title="A title", text="A text.", url="", question="", document_id="d"):
    return Hit(1, 0.5, "d#0", document_id, title, text, url, tuple(matched_spans(question, text)))


def test_a_hostile_passage():
    html = answer_html(
        Answer("volcano", "<b>x", (hit(HOSTILE_TITLE, HOSTILE_TEXT, "javascript:x", "volcano"),), 0), "<i>"
    )
    read = Reader(html)
    assert "a" not in read.tags
    assert read.marks == ["volcano", "volcano"]
    assert HOSTILE_TITLE in read.text
    assert "onerror" in read.text and "<mark>lava</mark>" in read.text and "$\\frac{1}{2}$" in read.text
    assert "\u202e" not in html and "<script" not in html and "<img" not in html


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_any_text_is_only_text(pipeline, title, text, url, question):
    found = hit(title, text, url, question)
    read = Reader(answer_html(Answer(question, pipeline, (found,), 1), question))
    assert len(read.marks) == len(found.marks)
    assert read.tags.count("li") == read.tags.count("h3") == read.tags.count("h2") == 1
    assert all(href.startswith(("http://", "https://")) for href in read.hrefs)


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
    assert Reader(hit_html(hit(url=url))).hrefs == [url]


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
    assert "href" not in hit_html(hit(url=url))


def test_an_address_cannot_leave_its_attribute():
    read = Reader(hit_html(hit(url='https://a.example/"onclick="alert(1)')))
    assert read.hrefs == ['https://a.example/"onclick="alert(1)']


def test_a_passage_without_a_title_has_its_documents_id():
    assert "<bdi>d&lt;1&gt;</bdi>" in hit_html(hit(title="  ", document_id="d<1>"))


def test_nothing_found():
    read = Reader(answer_html(Answer("x", "bm25", (), 0.0123), "Lucene"))
    assert "ol" not in read.tags
    assert "0 passages in 12 ms" in read.text and "Nothing found" in read.text


def test_what_a_screen_reader_hears():
    html = answer_html(Answer("x", "bm25", (hit(),), 0.0123), "Lucene")
    assert 'aria-label="Found by bm25"' in html
    assert 'aria-label="Rank 1"' in html and 'aria-label="Score 0.5000"' in html
    assert "1 passage in 12 ms" in html


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
        heading_html(text, [(text, 3)]),
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
