"""Packings of questions of several steps, from miniature originals, and links by mention."""

from __future__ import annotations

import orjson
import pytest

from experiments.packing.collections import MAKERS
from experiments.packing.mentions import place_mentions
from experiments.packing.originals import Originals
from experiments.packing.pack import all_packings, write_files
from linkseek.app.testsets.definition import Places
from linkseek.app.testsets.files import Packed, read_groups
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.formats import open_reader

CONTEXT = [
    ["Ed Wood (film)", ["Ed Wood is a film.", " Tim Burton made it."]],
    ["Tim Burton", ["Tim Burton is from Burbank."]],
    ["Burbank", ["Burbank is a city.", " It is in California."]],
]
HOTPOT = [
    {
        "_id": "a1",
        "question": "Where is the maker of Ed Wood from?",
        "answer": "Burbank",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Ed Wood (film)", 1], ["Tim Burton", 0], ["Tim Burton", 0]],
        "context": CONTEXT,
    }
]
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "Where is it?",
    "answer": "Burbank",
    "answer_aliases": ["the city", "Burbank"],
    "answerable": True,
    "paragraphs": [
        {"idx": n, "title": title, "paragraph_text": "".join(texts), "is_supporting": n != 2}
        for n, (title, texts) in enumerate([*CONTEXT, ["Burbank", ["Another paragraph."]]])
    ],
}


def pack(name, file, content, tmp_path):
    (tmp_path / file).write_bytes(content)
    files = MAKERS[name](Originals([tmp_path], all_packings()[name].originals))
    write_files(files, tmp_path / "data")
    source = Packed(folder=name, split="dev", group=("type", "steps"))
    documents = list(open_reader(tmp_path / "data" / name / "docs.jsonl.zst", "jsonl").documents())
    return documents, source.read(Places(tmp_path / "data", tmp_path))


@pytest.mark.parametrize(
    ("name", "file"), [("hotpotqa-distractor", "hotpot_dev_distractor_v1.json"), ("2wiki", "dev.json")]
)
def test_paragraphs_by_title(tmp_path, name, file):
    documents, read = pack(name, file, orjson.dumps(HOTPOT), tmp_path)
    assert [document.id for document in documents] == ["Ed_Wood_(film)", "Tim_Burton", "Burbank"]
    assert documents[0].text == "Ed Wood is a film. Tim Burton made it."
    linked = [[(d.text[x.start : x.end], x.target) for x in d.links] for d in documents]
    assert linked == [[("Tim Burton", "Tim_Burton")], [("Burbank", "Burbank")], []]
    assert [(query.id, query.answers) for query in read.queries] == [("a1", ("Burbank",))]
    assert read.qrels == {"a1": {"Ed_Wood_(film)": 1, "Tim_Burton": 1}}
    assert read.groups == {"bridge": ("a1",), "2 steps": ("a1",)}


def test_musique(tmp_path):
    documents, read = pack("musique", "musique_ans_v1.0_dev.jsonl", orjson.dumps(MUSIQUE) + b"\n", tmp_path)
    assert [document.title for document in documents] == [
        "Ed Wood (film)",
        "Tim Burton",
        "Burbank",
        "Burbank",
    ]
    assert [x.target for x in documents[1].links] == ["musique-2", "musique-3"]  # both of the title
    assert read.qrels == {"3hop1__1_2_3": {"musique-0": 1, "musique-1": 1, "musique-3": 1}}
    assert read.groups == {"3hop1": ("3hop1__1_2_3",), "3 steps": ("3hop1__1_2_3",)}
    assert read.queries[0].answers == ("Burbank", "the city")


def test_a_supporting_paragraph_must_be_there(tmp_path):
    row = HOTPOT[0] | {"supporting_facts": [["Elsewhere", 0]]}
    with pytest.raises(InputError, match="'Elsewhere' is not among its paragraphs"):
        pack("2wiki", "dev.json", orjson.dumps([row]), tmp_path)


def mentions(*texts, titles):
    rows = [
        {"id": str(n), "title": title, "text": text, "links": []}
        for n, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]
    place_mentions(rows)
    return [[(row["text"][x["start"] : x["end"]], x["target"]) for x in row["links"]] for row in rows]


def test_mentions():
    titles = ["New York", "New York City", "May (month)", "May (band)", "Rome", "Oslo (ship)"]
    texts = ["New York City, New York and new york city", "", "May", "rome and Rome", "Rome itself", "Oslo"]
    assert mentions(*texts, titles=titles) == [
        [("New York City", "1")],  # not itself, and once each
        [],
        [],  # two have this name
        [("Rome", "4")],  # not in lower case
        [],
        [],  # itself
    ]


def test_groups_of_questions_need_json_lines(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": "1", "text": "a", "hops": 2}\n{"id": "2", "text": "b", "hops": 3}\n')
    assert read_groups(path, ["hops"]) == {"hops 2": ("1",), "hops 3": ("2",)}
    with pytest.raises(InputError, match='line 1: the field "hop" is missing\\n  Did you mean hops'):
        read_groups(path, ["hop"])
    path.write_text("1\ta question\n")
    with pytest.raises(InputError, match="not JSON lines"):
        read_groups(path, ["type"])
