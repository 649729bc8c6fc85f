"""What is special to the formats of MS MARCO, Pyserini, HLP and HARP, some of it against foreign readers.

What every reader promises is in `test_readers.py`.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.documents import Document, DocumentStore
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.formats import all_readers, open_reader
from linkseek.indexer.readers.reader import Ignored
from tests.support.tiny.corpus import links


def documents(path: Path, name: str | None = None) -> list[Document]:
    """The documents of a corpus; its format has to be recognised."""
    reader = open_reader(path)
    assert name in (None, reader.name)
    return [outcome for outcome in reader.documents() if isinstance(outcome, Document)]


def reasons(path: Path) -> Counter[str]:
    return Counter(o.reason for o in open_reader(path).documents() if isinstance(o, Ignored))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_json(path: Path, value: Any, indent: int | None = None) -> Path:
    return write(path, json.dumps(value, ensure_ascii=False, indent=indent))


def write_lines(path: Path, *rows: Any) -> Path:
    return write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def problem(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        list(open_reader(path).documents())
    assert caught.value.hint
    return caught.value


# --- MS MARCO ---

LONG = "A passage of more than two hundred characters, which questions do not have. " * 3


class Download:
    """What ir_datasets reads from: a file that is there already."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def path(self, force: bool = True) -> Path:
        return self._path

    @contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        with self._path.open("rb") as file:
            yield file


def test_msmarco_as_ir_datasets_reads_it(tmp_path: Path) -> None:
    from ir_datasets.datasets.msmarco_document import MsMarcoDocument
    from ir_datasets.formats import TsvDocs

    texts = [LONG, f'"{LONG}', f'{LONG} "" \u2028 \u0085 \x0b ', "", f" {LONG}ünï 🦊"]
    path = write(tmp_path / "a", "".join(f"{n}\t{text}\n" for n, text in enumerate(texts)))
    theirs = [(row.doc_id, "", row.text, "") for row in TsvDocs(Download(path)).docs_iter()]
    ours = [(d.id, d.title, d.text, d.url) for d in documents(path, "msmarco-passages")]
    assert ours == theirs
    assert len(ours) == 5

    rows = [("https://a.b/?q=1", "Title", "Body"), ("http://ü.com", '"T" | b', ""), ("https://c", "", '"')]
    path = write(tmp_path / "b", "".join("\t".join((f"D{n}", *row)) + "\n" for n, row in enumerate(rows)))
    theirs = [
        (row.doc_id, row.title, row.body, row.url)
        for row in TsvDocs(Download(path), doc_cls=MsMarcoDocument).docs_iter()
    ]
    ours = [(d.id, d.title, d.text, d.url) for d in documents(path, "msmarco-documents")]
    assert ours == theirs
    assert len(ours) == 3


def test_msmarco_title_of_a_full_stop_is_none(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "D1\thttp://a\t.\tx\nD2\thttp://a\t...\tx\nD3\thttp://a\t\tx\n")
    assert [document.title for document in documents(path)] == ["", "...", ""]


@pytest.mark.parametrize(
    "content",
    [
        "1048585\twhat is paula deen's brother\n2\twho sings monk theme song\n",  # questions
        f"id\ttext\ttitle\n1\t{LONG}\tT\n",  # DPR's passages
        f"1\t{LONG}\tT\n",
        f"who wrote it\t['{LONG}']\n",  # DPR's questions
        f"a1\t{LONG}\n",
        "1\t0\t7187158\t3\n",  # judgements
        f"D1\tno address\tt\t{LONG}\n",
        "D1\n",
        "D301595\t2\n",
    ],
)
def test_other_tables_are_not_taken_for_msmarco(content: str, tmp_path: Path) -> None:
    claims = {r.name for r in all_readers().values() if r.recognises(tmp_path / "a", content.encode())}
    assert claims <= {"dpr"}


def test_a_head_that_ends_within_a_row_is_recognised() -> None:
    readers = all_readers()
    row = f"12345\t{LONG}ü\n".encode()
    for length in range(len(row), 3 * len(row)):
        assert readers["msmarco-passages"].recognises(Path("a"), (row * 3)[:length])
    head = b"D1\thttps://a.b\tT\t" + b"x" * 65_000
    assert readers["msmarco-documents"].recognises(Path("a"), head)


@pytest.mark.realdata
def test_real_passages_are_recognised_and_real_questions_are_not(shared_data: Path, tmp_path: Path) -> None:
    _, stream = open_source(shared_data / "msmarco-dl19" / "docs.jsonl.zst")
    with stream:
        rows = [json.loads(line) for _, line in read_lines(stream)]
    path = write(tmp_path / "collection.tsv", "".join(f"{row['id']}\t{row['text']}\n" for row in rows))
    found = documents(path, "msmarco-passages")
    assert len(found) == 30_005
    assert [(d.id, d.text) for d in found] == [(row["id"], row["text"]) for row in rows]
    questions = sorted(shared_data.glob("**/*.jsonl.gz"))
    assert questions
    for file in questions:
        lines = [json.loads(line)["text"] for line in gzip.decompress(file.read_bytes()).splitlines()]
        head = "".join(f"{n}\t{text}\n" for n, text in enumerate(lines)).encode()[: 1 << 16]
        assert [r.name for r in all_readers().values() if r.recognises(file, head)] == [], file


# --- Pyserini ---

OBJECTS = [
    {"id": "a", "contents": '"Title"\nText "quoted"\nline'},
    {"id": 7, "contents": "No title\nTwo lines"},
    {"id": "c#1 ü", "contents": 'x, [y] {z} "\\" \u2028', "vector": [[1.5], {"a": "b"}], "url": "https://c"},
]
READ = [
    ("a", "Title", 'Text "quoted"\nline', ""),
    ("7", "", "No title\nTwo lines", ""),
    ("c#1 ü", "", 'x, [y] {z} "\\" \u2028', "https://c"),
]


def read_rows(path: Path) -> list[tuple[str, str, str, str]]:
    return [(d.id, d.title, d.text, d.url) for d in documents(path, "pyserini")]


@pytest.mark.parametrize("indent", [None, 2])
def test_pyserini_lines_arrays_and_single_objects(indent: int | None, tmp_path: Path) -> None:
    assert read_rows(write_lines(tmp_path / "lines", *OBJECTS)) == READ
    assert read_rows(write_json(tmp_path / "array", OBJECTS, indent)) == READ
    for object_, row in zip(OBJECTS, READ, strict=True):
        assert read_rows(write_json(tmp_path / "one", object_, indent)) == [row]
    assert read_rows(write(tmp_path / "bom", b"\xef\xbb\xbf\n" + (tmp_path / "array").read_bytes())) == READ


def test_pyserini_folder_as_anserini_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    write_lines(folder / "a.jsonl", *OBJECTS)
    write_json(folder / "b" / "array.json", [{"id": f"b{n}", "contents": f"text {n}"} for n in range(30)])
    write_json(folder / "c.json", {"id": "c", "contents": "one object"}, indent=2)
    packed = gzip.compress(write_lines(tmp_path / "d", {"id": "d", "contents": "packed"}).read_bytes())
    write(folder / "d.jsonl.gz", packed)
    write(folder / "README.txt", "not read")
    found = documents(folder, "pyserini")
    ours = {(d.id, f'"{d.title}"\n{d.text}' if d.title else d.text) for d in found}
    assert ours == set(anserini_documents(folder))
    assert len(found) == len(ours) == 35
    assert reasons(folder) == {".txt": 1}


def anserini_documents(folder: Path) -> Iterator[tuple[str, str]]:
    from linkseek.indexer.search.jvm import java_threads

    java_threads()
    from jnius import autoclass

    paths = autoclass("java.nio.file.Paths")
    files = autoclass("io.anserini.collection.JsonCollection")(paths.get(str(folder))).iterator()
    while files.hasNext():
        file = files.next()
        rows = file.iterator()
        while rows.hasNext():
            row = rows.next()
            yield row.id(), row.contents()
        file.close()


@pytest.mark.parametrize(
    ("fields", "title", "text"),
    [
        ({"contents": '"A "b" c"\nx'}, 'A "b" c', "x"),
        ({"contents": '"He said so."'}, "", '"He said so."'),
        ({"contents": '"\nx'}, "", '"\nx'),
        ({"contents": '""\nx'}, "", "x"),
        ({"contents": "T\nx", "title": "T"}, "T", "x"),
        ({"contents": '"T"\nx', "title": "T"}, "T", "x"),
        ({"contents": '"Other"\nx', "title": "T"}, "T", '"Other"\nx'),
        ({"contents": "T x", "title": "T"}, "T", "T x"),
        ({"contents": "T\nx", "title": "T", "text": "x"}, "T", "x"),
        ({"contents": ""}, "", ""),
    ],
)
def test_pyserini_titles(fields: dict[str, str], title: str, text: str, tmp_path: Path) -> None:
    [document] = documents(write_lines(tmp_path / "a", {"id": "1", **fields}))
    assert (document.title, document.text) == (title, text)


def test_pyserini_broken_entries_are_named_and_cost_only_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "a", '[{"id": 1, "contents": "x"}, {"id": 2 "contents": "x"}, {"id": 3}]')
    assert f"{path}, entry 2: not JSON" in problem(path).message
    (tmp_path / "out").mkdir()
    told = write_documents(open_reader(path, choices=Choices(on_error="skip")), tmp_path / "out")
    assert told["documents"] == 1
    assert told["skipped"]["malformed"]["count"] == 2
    assert 'entry 3: the field "contents" is missing' in told["skipped"]["malformed"]["examples"][1]

    path = write(tmp_path / "b", '[{"id": 1, "contents": "x"}, {"id": 2')
    assert problem(path).message == f"{path}, after entry 1: the JSON ends early"
    path = write(tmp_path / "c", '{\n"id": 1,\n"contents": "x"\n}\n{\n"id": 2}')
    assert f"{path}, its object: not JSON" in problem(path).message
    path = write(tmp_path / "d", '{"id": 1, "contents": "x"},\n{"id": 2, "contents": "x"},\n')
    assert f"{path}, line 1: not JSON" in problem(path).message
    path = tmp_path / "c"
    folder = tmp_path / "folder"
    write(folder / "sub" / "c.json", path.read_bytes())
    write_lines(folder / "a.json", {"id": 1, "contents": "x"}, {"id": 2})
    assert "folder, a.json, line 2: the field" in problem(folder).message


# --- documents without links ---


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"id": 1, "text": "x"}, "jsonl"), ({"id": "1", "text": "x", "title": "T"}, "jsonl"),
        ({"id": "1", "text": "x", "url": "https://a"}, "jsonl"), ({"id": "1", "contents": "x"}, "pyserini"),
        ({"id": "1", "contents": "T\nx", "title": "T", "text": "x"}, "pyserini"),
        ({"_id": "1", "text": "x"}, "beir"), ({"docid": "1", "title": "T", "text": "x"}, "beir"),
        ({"doc_id": 1, "text": "x"}, "beir"),
        ({"id": "1", "url": "u", "title": "T", "text": "x"}, "wikiextractor"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["lines", "array", "folder"])
def test_objects_of_an_id_and_a_text(row: dict[str, Any], name: str, form: str, tmp_path: Path) -> None:
    rows = [row | {key: "2" for key in ("id", "_id", "docid", "doc_id") if key in row and n} for n in (0, 1)]
    if form == "array":
        path = write_json(tmp_path / "a", rows)
        name = name.replace("wikiextractor", "jsonl")  # which writes lines
    elif form == "folder":
        path = tmp_path / "parts"
        for n, part in enumerate(rows):
            write_lines(path / f"docs-{n}.jsonl", part)
        write(path / "docs-2.jsonl.gz", gzip.compress(b""))
        if name != "pyserini":
            write_lines(path / "queries.jsonl", {"_id": "q", "id": "q", "text": "what"})
    else:
        path = write_lines(tmp_path / "a", *rows)
    assert [(one.id, one.text) for one in documents(path, name)][:2] == [("1", "x"), ("2", "x")]


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("a.jsonl", '{"title": "T", "body": "x"}\n', "have the fields body, title"),
        ("a.html", "<!DOCTYPE html><p>x", "--format html"), ("a.md", "# x\n", "--format markdown"),
        ("a.csv", "id,title,text\n1,T,x\n", "Write JSON lines"), ("a.bin", "\x7fELF\0", "Write JSON lines"),
    ],
)  # fmt: skip
def test_files_of_no_format_get_advice(name: str, content: str, advice: str, tmp_path: Path) -> None:
    found = problem(write(tmp_path / name, content))
    assert "unknown format" in found.message and advice in found.hint and "--format" in found.hint


def test_questions_are_no_corpus(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", {"id": "1", "text": "who", "answers": ["She"]})
    assert not [r.name for r in all_readers().values() if r.recognises(path, path.read_bytes())]


# --- HLP ---

ANARCHISM = {
    "Anarchism_0": {
        "text": "Anarchism is a <SOE> political philosophy <EOE> and <SOE> movement <EOE> sceptical of "
        "<SOE> hierarchy <EOE> . It is a wing ( <SOE> libertarian socialism <EOE> ) of the",
        "mentions": ["political philosophy", "movement", "hierarchy", "libertarian socialism"],
        "linkouts": ["Political philosophy", "Political movement", "Hierarchy", "Libertarian_socialism"],
    },
    "Anarchism_1": {
        "text": "<SOE> state <EOE> 's end",
        "mentions": ["state"],
        "linkouts": ["State (polity)"],
    },
}


def passage(text: str, *mentions: tuple[str, Any]) -> dict[str, Any]:
    return {
        "text": text,
        "mentions": [m for m, _ in mentions],
        "linkouts": [target for _, target in mentions],
    }


def hlp_text(tmp_path: Path, text: str, *mentions: tuple[str, Any]) -> tuple[str, list[tuple[str, str]], int]:
    """Text, links and count of mentions without target of a page of one passage."""
    path = write_json(tmp_path / "wiki_00.json", {"P_0": passage(text, *mentions)})
    [document] = documents(path, "hlp")
    return document.text, links(document), reasons(path)["mention without a target"]


def test_hlp_page_is_a_document(tmp_path: Path) -> None:
    [document] = documents(write_json(tmp_path / "wiki_00.json", ANARCHISM), "hlp")
    assert (document.id, document.title) == ("Anarchism", "Anarchism")
    assert document.text == (
        "Anarchism is a political philosophy and movement sceptical of hierarchy. It is a wing "
        "(libertarian socialism) of the state's end"
    )
    assert links(document) == [
        ("political philosophy", "Political philosophy"),
        ("movement", "Political movement"),
        ("hierarchy", "Hierarchy"),
        ("libertarian socialism", "Libertarian socialism"),
        ("state", "State (polity)"),
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<SOE> a <EOE> , <SOE> b <EOE> ; c", "a, b; c"),
        ("[ <SOE> a <EOE> ] “ <SOE> b <EOE> ”", "[a] “b”"),
        ("a <SOE> a <EOE> -based <SOE> b <EOE> - x", "a a-based b - x"),
        ("( a <SOE> a <EOE> b <SOE> b <EOE>", "( a a b b"),
        ("<SOE> a <EOE> <SOE> b <EOE>", "a b"),
        (" <SOE>a<EOE>. 5 < 6 <SOE>  b\u00a0<EOE>\n", "a. 5 < 6 b"),
    ],
)
def test_hlp_spacing_around_marks(text: str, plain: str, tmp_path: Path) -> None:
    links = [("a", "A"), ("b", "B")]
    assert hlp_text(tmp_path, text, *links) == (plain, links, 0)


@pytest.mark.parametrize(
    ("text", "mentions", "links", "lost"),
    [
        ("<SOE> a <EOE> <SOE> b <EOE>", [("b", "B")], [("b", "B")], 1),
        ("<SOE> b <EOE>", [("a", "A"), ("b", "B")], [("b", "B")], 0),
        ("<SOE> a <EOE> <SOE> a <EOE>", [("a", "A"), ("a", "B")], [("a", "A"), ("a", "B")], 0),
        ("<SOE> b <EOE> <SOE> a <EOE>", [("a", "A"), ("b", "B")], [("b", "B")], 1),
        ("<SOE> a <EOE>", [("a", None)], [], 1),
        ("<SOE> a <EOE>", [("a", " _")], [], 1),
        ("<SOE>  <EOE> x", [("", "A")], [], 1),
        ("x <SOE> a", [("a", "A")], [], 1),
        ("x <SOE> y <SOE> a <EOE> <EOE>", [("a", "A")], [("a", "A")], 2),
    ],
)
def test_hlp_mentions_that_do_not_agree(
    text: str, mentions: list[tuple[str, Any]], links: list[tuple[str, str]], lost: int, tmp_path: Path
) -> None:
    plain, found, without = hlp_text(tmp_path, text, *mentions)
    assert (found, without) == (links, lost)
    assert "OE>" not in plain


def test_hlp_pages_end_where_their_title_or_numbering_does(tmp_path: Path) -> None:
    keys = ["A_0", "A_1", "A_2_0", "A_2_1", "A_2_5", "A B_0", "B_3", "B_11", '"x" ü\\_0', "1984_0"]
    text = json.dumps({key: passage(key) for key in keys})
    found = documents(write(tmp_path / "wiki_00.json", text), "hlp")
    assert [(d.id, d.text) for d in found] == [
        ("A", "A_0 A_1"),
        ("A 2", "A_2_0 A_2_1 A_2_5"),
        ("A B", "A B_0"),
        ("B", "B_3 B_11"),
        ('"x" ü\\', '"x" ü\\_0'),
        ("1984", "1984_0"),
    ]
    path = write(tmp_path / "twice.json", '{"A_0": %s, "A_0": %s}' % ((json.dumps(passage("x")),) * 2))
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"entry 2 \(A\): duplicate id 'A'"):
        write_documents(open_reader(path), tmp_path / "out")


# --- HARP ---


def anchor(text: str, first: int, passage: str) -> dict[str, Any]:
    return {"text": text, "pos": [first, first], "passage": passage}


@pytest.mark.parametrize("grouped", [True, False])
def test_harp_sentences_and_passages(grouped: bool, tmp_path: Path) -> None:
    found = [anchor("Alaska", 0, "The state."), anchor("Russia", 4, "The country.")]
    again = [anchor("Russia", 1, "The country."), anchor("it", 2, "Another."), anchor("it", 2, "Another.")]
    path = write_lines(
        tmp_path / "a",
        *(
            {
                "sentence": sentence,
                "tokenized_sentence": [],
                "anchors": [[a] for a in rows] if grouped else rows,
            }
            for sentence, rows in [("Alaska was bought from Russia.", found), ("From Russia it came.", again)]
        ),
    )
    rows = documents(path, "harp")
    assert [d.text for d in rows] == [
        "Alaska was bought from Russia.",
        "The state.",
        "The country.",
        "From Russia it came.",
        "Another.",
    ]
    ids = {d.text: d.id for d in rows}
    assert links(rows[0]) == [("Alaska", ids["The state."]), ("Russia", ids["The country."])]
    assert links(rows[3]) == [("Russia", ids["The country."]), ("it", ids["Another."])]
    assert {d.title for d in rows} == {""}


@pytest.mark.parametrize(
    ("sentence", "text", "pos", "start"),
    [
        ("the US and the US army", "US", [1, 1], 4),
        ("the US and the US army", "US", [4, 4], 15),
        ("the US and the US army", "US", [11, 6], 15),
        ("the US and the US army", "US", [-3, 0], 4),
        ("USA or US", "US", [0, 0], 7),
        ("USA first", "US", [0, 0], 0),
        ("1928 and 1937 election (a+b)", "(a+b)", [2, 1], 23),
        ("über 東京 x", " 東京 ", [1, 1], 5),
    ],
)
def test_harp_anchor_is_where_its_text_is(
    sentence: str, text: str, pos: list[int], start: int, tmp_path: Path
) -> None:
    row = {"sentence": sentence, "anchors": [{"text": text, "pos": pos, "passage": "P"}]}
    [document, _] = documents(write_lines(tmp_path / "a", row))
    assert [(link.start, link.end) for link in document.links] == [(start, start + len(text.strip()))]


def test_harp_ids_are_hashes_of_texts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a", {"sentence": "a", "anchors": [anchor("a", 0, "a")]})
    # XXH3 of "a", 64 bits, as published with its specification; another id is another corpus
    assert [d.id for d in documents(path)] == ["s-e6c632b61e964e1f", "p-e6c632b61e964e1f"]


def test_harp_what_is_left_out_is_counted(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a",
        {"sentence": "One.", "anchors": []},
        {"sentence": "One.", "anchors": [anchor("One", 0, "New.")]},
        {"sentence": "", "anchors": []},
        {"sentence": "Two.", "anchors": [anchor("two", 0, "Other."), anchor("Two", 0, " ")]},
    )
    assert [d.text for d in documents(path)] == ["One.", "New.", "Two.", "Other."]
    assert [links(d) for d in documents(path)] == [[]] * 4
    assert reasons(path) == {
        "duplicate sentence": 1,
        "empty sentence": 1,
        "anchor that is not in its sentence": 1,
        "anchor without text or without passage": 1,
    }


def test_harp_resumed_build_knows_what_was_before(tmp_path: Path) -> None:
    rows = [{"sentence": f"see x {n % 7}", "anchors": [anchor("x", 1, f"x {n % 3}")]} for n in range(20)]
    path = write_lines(tmp_path / "a", *rows)
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    whole = write_documents(open_reader(path), tmp_path / "whole", segment_records=4)
    calls = 0

    def stop(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_documents(open_reader(path), tmp_path / "parts", segment_records=4, on_record=stop)
    resumed = write_documents(open_reader(path), tmp_path / "parts", segment_records=4)
    assert resumed == whole
    assert whole["documents"] == 10
    stored = DocumentStore(sorted((tmp_path / "parts").glob("[0-9]*.arrow")))
    assert len(stored) == 10


# --- formats that look alike ---


def test_keys_inside_other_keys_do_not_confuse(tmp_path: Path) -> None:
    inner = {"id": 1, "_id": 1, "text": "x", "links": [], "contents": "x", "sentence": "x", "anchors": []}
    lines = {
        "jsonl": {"id": "a", "text": '{"contents": 1}', "links": [], "metadata": inner},
        "beir": {"_id": "a", "text": "x", "metadata": inner},
        "pyserini": {"id": "a", "contents": "x", "raw": inner},
        "harp": {"sentence": "x", "anchors": [], "more": inner},
        "hlp": {"A_0": passage("x", *((key, "A") for key in inner))},
    }
    for name, row in lines.items():
        path = write_lines(tmp_path / name, row)
        claims = [r.name for r in all_readers().values() if r.recognises(path, path.read_bytes())]
        assert claims == [name]
