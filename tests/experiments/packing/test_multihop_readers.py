"""The Wikipedia of HotpotQA and of 2WikiMultihopQA, as they are published."""

import bz2
import json

import pytest

from linkseek.indexer.documents import Document, Link
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.formats import open_reader
from tests.support.tiny.corpus import write_jsonl

FOLDER = "enwiki-20171001-pages-meta-current-withlinks-abstracts"
ARTICLES = [
    {
        "id": 12,
        "url": "https://en.wikipedia.org/wiki?curid=12",
        "title": "Anarchism",
        "text": ["Anarchism is a political philosophy.", " It has friends."],
        "text_with_links": [
            'Anarchism is a <a href="political%20philosophy">political philosophy</a>.',
            ' It has <a href="Friend%20%28law%29#Old">friends</a>.',
        ],
        "charoffset": [],
    },
    {
        "id": 13,
        "url": "",
        "title": "Political philosophy",
        "text": [["Political philosophy"], ['It is <a href="">old</a>, 1 < 2.']],
        "charoffset": [],
    },
]


def folder(path):
    """Two files of one article each, as the archive of abstracts has them."""
    for number, row in enumerate(ARTICLES):
        (path / FOLDER / f"A{number}").mkdir(parents=True)
        (path / FOLDER / f"A{number}" / "wiki_00.bz2").write_bytes(
            bz2.compress(json.dumps(row).encode() + b"\n")
        )
    return path / FOLDER


def documents_of(path):
    return [one for one in open_reader(path).documents() if isinstance(one, Document)]


def test_articles_of_a_folder_are_those_of_its_lines(tmp_path):
    lines = tmp_path / "wiki_00"
    write_jsonl(lines, ARTICLES)
    first, second = documents = documents_of(folder(tmp_path))
    assert documents == documents_of(lines)
    assert first.id == first.title == "Anarchism"
    assert first.text == "".join(ARTICLES[0]["text"])
    assert [(first.text[x.start : x.end], x.target) for x in first.links] == [
        ("political philosophy", "Political philosophy"),
        ("friends", "Friend (law)"),
    ]
    assert (second.text, second.links) == ("Political philosophy\n\nIt is old, 1 < 2.", ())


def test_a_damaged_line_of_a_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(ARTICLES[1], "text", [1])
    with pytest.raises(InputError, match=r"A1/wiki_00.bz2, line 1: .*a sentence is int, expected text"):
        documents_of(folder(tmp_path))


def test_mentions_are_links(tmp_path):
    path = tmp_path / "para_with_hyperlink.jsonl"
    mentions = [
        {"sent_idx": 1, "start": 3, "end": 6, "ref_url": "Ann_%28name%29"},
        {"sent_idx": 0, "start": 0, "end": 3, "ref_url": "bob"},
        {"sent_idx": 0, "start": 0, "end": 3, "ref_url": None},
    ]
    path.write_text(json.dumps({"title": "T", "sentences": ["Bob saw.", "It Ann."], "mentions": mentions}))
    [document] = open_reader(path).documents()
    assert (document.id, document.text) == ("T", "Bob saw. It Ann.")
    assert document.links == (Link(0, 3, "Bob"), Link(12, 15, "Ann (name)"))
