"""What every reader promises whose corpus is a folder (a new one gets these tests for free)."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linkseek.indexer.build import main
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.listing import ListedFile, folder_suffixes, list_folder
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.folder.sites import versions_in
from linkseek.indexer.readers.formats import all_readers, kinds, open_reader
from linkseek.indexer.readers.reader import Ignored, Record, parse_at

# How a file is written that holds one document with this text, and its suffix.
FILES: dict[str, tuple[str, Callable[[str], str]]] = {
    "beir": (".jsonl", lambda text: json.dumps({"_id": text, "text": text}) + "\n"),
    "msmarco-v2": (".jsonl", lambda text: json.dumps({"docid": text, "body": text}) + "\n"),
    "hlp": (".json", lambda text: json.dumps({f"{text}_0": {"text": text, "mentions": [], "linkouts": []}})),
    "hotpotqa": (
        ".json",
        lambda text: json.dumps({"id": "1", "title": text, "text_with_links": [text]}) + "\n",
    ),
    "html": (".html", lambda text: f"<!DOCTYPE html><title>T</title><p>{text}"),
    "jsonl": (".jsonl", lambda text: json.dumps({"id": text, "text": text}) + "\n"),
    "markdown": (".md", lambda text: f"# T\n\n{text}\n"),
    "mediawiki": (
        ".xml",
        lambda text: (
            "<mediawiki><page><title>T</title><ns>0</ns><id>1</id><revision><text>"
            f"{text.replace('&', '&amp;')}</text></revision></page></mediawiki>"
        ),
    ),
    "pages": (".md", lambda text: f"# T\n\n{text}\n"),
    "pyserini": (".jsonl", lambda text: json.dumps({"id": text, "contents": text}) + "\n"),
    "wikiextractor": (
        ".json",
        lambda text: json.dumps({"id": text, "url": "", "title": "", "text": text}) + "\n",
    ),
}


@pytest.fixture(params=[name for name, reader in all_readers().items() if reader.folders])
def name(request: pytest.FixtureRequest) -> str:
    if request.param not in FILES:
        pytest.fail(f"add to FILES how a file of {request.param!r} is written, and it is checked")
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    return tmp_path / "corpus"


def put(name: str, folder: Path, *stems: str) -> list[str]:
    """Files that hold their own stems; returns their names."""
    suffix, write = FILES[name]
    for stem in stems:
        path = folder / (stem + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write(stem.rpartition("/")[2]), encoding="utf-8")
    return [stem + suffix for stem in stems]


def read_all(name: str, folder: Path) -> tuple[list[str], Counter[str], list[InputError]]:
    """(the texts in order, what was ignored, what was wrong), going on after what is wrong."""
    texts, ignored, errors = [], Counter[str](), []
    reader = all_readers()[name](folder)
    for record in reader.records():
        try:
            outcomes = list(parse_at(reader, record))
        except InputError as error:
            errors.append(error)
            continue
        texts += [outcome.text for outcome in outcomes if isinstance(outcome, Document)]
        ignored.update(outcome.reason for outcome in outcomes if isinstance(outcome, Ignored))
    return texts, ignored, errors


def test_files_are_read_in_the_order_of_their_paths(name: str, folder: Path) -> None:
    put(name, folder, "b", "a/z", "a-c", "a", "Z", "a/b/c", "a/b0")
    texts, ignored, errors = read_all(name, folder)
    suffix = FILES[name][0]
    names = sorted(f"{stem}{suffix}" for stem in ("b", "a/z", "a-c", "a", "Z", "a/b/c", "a/b0"))
    assert texts == [Path(found).stem for found in names]
    assert (ignored, errors) == (Counter(), [])
    places = [record.place for record in all_readers()[name](folder).records()]
    assert [place.partition(",")[0] for place in places] == names


def test_recognised_by_what_most_of_its_files_are(name: str, folder: Path) -> None:
    put(name, folder, "a", "b", "d")
    for other in FILES:
        if FILES[other][0] != FILES[name][0]:
            put(other, folder, "x")
    (folder / "c.png").write_bytes(b"\x89PNG")
    for n in range(9):
        (folder / f"{n}.unknown").write_bytes(b"")
        if FILES[name][0] not in (".json", ".jsonl"):
            (folder / f"{n}").mkdir()
            (folder / f"{n}/package.json").write_text('{"name": "of a package"}')
    assert open_reader(folder).name == ("pages" if name in ("html", "markdown") else name)


def test_as_many_files_of_two_formats(folder: Path) -> None:
    put("html", folder, "a", "b")
    put("mediawiki", folder, "a", "b")
    with pytest.raises(InputError, match="looks like html and mediawiki") as caught:
        open_reader(folder)
    assert "--format" in caught.value.hint
    assert open_reader(folder, "html").name == "html"
    assert open_reader(folder, "mediawiki").name == "mediawiki"


def test_hidden_files_and_folders_are_left_out(name: str, folder: Path) -> None:
    put(name, folder, "a", ".b", ".git/c", "d/.e/f", "d/g")
    assert read_all(name, folder) == (["a", "g"], Counter(), [])


def test_other_files_are_counted_by_suffix(name: str, folder: Path) -> None:
    put(name, folder, "a")
    for other in ("b.png", "c.PNG", "Makefile", "d.tar-of-strange-things"):
        (folder / other).write_bytes(b"x")
    _, ignored, errors = read_all(name, folder)
    assert errors == []
    assert ignored == {".png": 2, "without suffix": 1, "with other suffixes": 1}


def test_links_that_lead_outside_and_loops_are_not_followed(name: str, folder: Path) -> None:
    suffix = FILES[name][0]
    put(name, folder, "a", "sub/b")
    put(name, folder.parent / "outside", "secret")
    put(name, folder.with_name("corpus2"), "secret")
    (folder / f"next{suffix}").symlink_to(f"../corpus2/secret{suffix}")
    (folder / f"out{suffix}").symlink_to(folder.parent / "outside" / f"secret{suffix}")
    (folder / "out").symlink_to(folder.parent / "outside", target_is_directory=True)
    (folder / "sub" / "up").symlink_to("..", target_is_directory=True)
    (folder / f"self{suffix}").symlink_to(f"self{suffix}")
    texts, ignored, errors = read_all(name, folder)
    assert (texts, errors) == (["a", "b"], [])
    assert ignored["symbolic link that leads outside the folder"] >= 2
    assert sum(ignored.values()) == 5


def test_a_link_within_the_folder_is_no_second_document(name: str, folder: Path) -> None:
    suffix = FILES[name][0]
    put(name, folder, "a")
    (folder / f"b{suffix}").symlink_to(f"a{suffix}")
    outcomes = list(all_readers()[name](folder).documents())
    assert [type(outcome) for outcome in outcomes] in ([Document, Redirect], [Document, Ignored])
    if isinstance(outcomes[1], Redirect):
        assert outcomes[1] == Redirect(f"b{suffix}", f"a{suffix}")


def test_a_link_to_a_hidden_file_of_the_folder_is_read(name: str, folder: Path) -> None:
    suffix = FILES[name][0]
    put(name, folder, ".store/a")
    (folder / f"b{suffix}").symlink_to(f".store/a{suffix}")
    assert read_all(name, folder) == (["a"], Counter(), [])


def test_pipes_and_sockets_are_never_opened(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffix = FILES[name][0]
    put(name, folder, "a")
    os.mkfifo(folder / f"b{suffix}")  # opening it would wait for ever
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(folder)  # a path may have about a hundred bytes
        listening.bind(f"c{suffix}")
    assert open_reader(folder).name == ("markdown" if name == "pages" else name)
    assert read_all(name, folder) == (["a"], Counter({"not a regular file": 2}), [])


def test_unreadable_files_are_named_and_the_others_are_read(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads everything, so the refusal is made up."""
    put(name, folder, "a", "b", "c")
    usual = Path.open

    def refuse(path: Path, *arguments: object, **options: object) -> object:
        if path.stem == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return usual(path, *arguments, **options)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    texts, _, errors = read_all(name, folder)
    assert texts == ["a", "c"]
    assert [error.message for error in errors] == [f"{folder}/b{FILES[name][0]}: Permission denied"]
    assert "--on-error skip" in errors[0].hint


def test_an_unreadable_folder_is_named(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(name, folder, "a", "b/c")
    usual = os.scandir

    def refuse(path: str) -> object:
        if path.rstrip("/").endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return usual(path)

    monkeypatch.setattr(os, "scandir", refuse)
    texts, _, errors = read_all(name, folder)
    assert texts == ["a"]
    assert [error.message for error in errors] == [f"{folder}/b: Permission denied"]


NAMES = ["a b", "Größe 数 😀", "100%", "%41", "a#b", "a?b", "tab\there", "ä\u0308\u200d", "\u3000"]


@pytest.mark.parametrize("stem", NAMES)
def test_names_of_all_kinds(name: str, stem: str, folder: Path) -> None:
    suffix, write = FILES[name]
    (folder / (stem + suffix)).write_text(write("text"), encoding="utf-8")
    texts, _, errors = read_all(name, folder)
    assert texts == ["text"] or (errors and "\t" in stem)


@pytest.mark.parametrize("written", [b"a\nb", b"a\xff", b"a\xc2\x85"])
def test_names_that_cannot_be_printed(name: str, written: bytes, folder: Path) -> None:
    """They are told escaped, and are no ids."""
    suffix, write = FILES[name]
    (folder / (os.fsdecode(written) + suffix)).write_text(write("text"), encoding="utf-8")
    put(name, folder, "z")
    reader = all_readers()[name](folder)
    places = [record.place for record in reader.records()]
    assert all(place.isprintable() for place in places)
    texts, _, errors = read_all(name, folder)
    assert texts[-1:] == ["z"]
    for error in errors:
        assert error.message.isprintable()
        assert "\\x" in error.message or "\\n" in error.message or "\\u" in error.message


def test_the_hash_is_over_names_sizes_and_contents(name: str, folder: Path) -> None:
    names = put(name, folder, "b", "a")
    sources = []
    records = all_readers()[name](folder).records(sources.append)
    assert len(list(records)) == 2
    lines = ""
    for file in sorted(names):
        content = (folder / file).read_bytes()
        lines += f"{file}\0{len(content)}\0{hashlib.sha256(content).hexdigest()}\n"
    assert sources[0].sha256() == hashlib.sha256(lines.encode()).hexdigest()
    assert sources[0].position == sources[0].size == sum((folder / file).stat().st_size for file in names)


def test_the_state_tells_every_change(name: str, folder: Path) -> None:
    def state() -> dict[str, object]:
        return all_readers()[name](folder).state()

    suffix = FILES[name][0]
    put(name, folder, "a", "b")
    seen = [state()]
    assert state() == seen[0]
    assert seen[0]["bytes"] == sum(path.stat().st_size for path in folder.iterdir())

    def changed() -> bool:
        seen.append(state())
        return all(seen[-1] != earlier for earlier in seen[:-1])

    os.utime(folder / f"a{suffix}", ns=(1, 1))
    assert changed()
    (folder / f"a{suffix}").rename(folder / f"c{suffix}")
    assert changed()
    (folder / f"c{suffix}").unlink()
    assert changed()
    (folder / "x.png").write_bytes(b"")  # not read, but it is counted
    assert changed()
    (folder / "x.png").write_bytes(b"another")
    assert state() == seen[-1]
    (folder / "run.rs").write_bytes(b"1")  # which a page of Markdown may include
    assert changed()
    (folder / "run.rs").write_bytes(b"2 now")
    assert (state() != seen[-1]) == (name in ("markdown", "pages"))


def test_with_on_error_skip_only_the_bad_file_is_lost(name: str, folder: Path, tmp_path: Path) -> None:
    put(name, folder, "a", "b", "c")
    (folder / f"b{FILES[name][0]}").unlink()
    (folder / f"b{FILES[name][0]}").symlink_to("a" + FILES[name][0])  # listed, but then gone
    reader = all_readers()[name](folder, Choices(on_error="skip"))
    assert isinstance(reader, FolderReader)
    reader.entries()
    (folder / f"c{FILES[name][0]}").unlink()
    (tmp_path / "out").mkdir()
    report = write_documents(reader, tmp_path / "out")
    assert report["documents"] == 1
    assert report["skipped"]["malformed"]["count"] == 1
    assert f"c{FILES[name][0]}: no such file" in report["skipped"]["malformed"]["examples"][0]


def test_what_is_passed_over_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    put(name, folder, "a")
    for picture in ("x.png", "sub/y.png"):
        (folder / picture).parent.mkdir(exist_ok=True)
        (folder / picture).write_bytes(b"")
    (tmp_path / "out").mkdir()
    skipped = write_documents(all_readers()[name](folder), tmp_path / "out")["skipped"]
    [entry] = [entry for reason, entry in skipped.items() if ".png" in reason]
    assert entry == {"count": 2, "examples": ["sub/y.png", "x.png"]}


def test_compressed_pages_are_read_by_their_first_bytes(folder: Path) -> None:
    import gzip

    (folder / "a.html").write_bytes(gzip.compress(b"<p>text"))
    assert read_all("html", folder) == (["text"], Counter(), [])


# --- what no format reads ---


def test_empty_folders_and_folders_of_other_things(folder: Path) -> None:
    with pytest.raises(InputError, match="the folder is empty") as caught:
        open_reader(folder)
    assert caught.value.message.startswith(str(folder))
    (folder / "a.png").write_bytes(b"")
    (folder / "b.png").write_bytes(b"")
    (folder / "c").write_bytes(b"")
    with pytest.raises(InputError, match=r"it holds 2 \.png, 1 without suffix") as caught:
        open_reader(folder)
    assert "--format" in caught.value.hint


def test_a_folder_for_a_format_of_files(folder: Path) -> None:
    with pytest.raises(InputError, match="a folder, but dpr is read from a file"):
        open_reader(folder, "dpr")


def test_a_folder_without_any_of_its_files(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / "a.png").write_bytes(b"")
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"no documents in it \(1 \.png\)"):
        write_documents(open_reader(folder, name), tmp_path / "out")


def test_one_file_of_a_folder_format_is_read_by_name(name: str, folder: Path) -> None:
    (file,) = put(name, folder, "a")
    outcomes = list(open_reader(folder / file, name).documents())
    assert [outcome.text for outcome in outcomes if isinstance(outcome, Document)] == ["a"]


# --- an index of a folder ---


def build(folder: Path, index: Path, **options: Any) -> Built:
    plan = BuildPlan(folder, bm25=False, **{"processes": 1, **options})
    return build_index(index, plan, lambda name, title: pytest.fail("no encoder is asked for"))


def test_an_index_of_pages(folder: Path, tmp_path: Path) -> None:
    """Links through names without suffix, redirect pages and symbolic links; what leads to nothing."""
    pages = {
        "index.html": "<title>Home</title><p>To <a href='a'>one</a>, <a href='old.html'>two</a>, "
        "<a href='alias.html'>three</a>, <a href='gone.html'>four</a>, <a href='https://a.b/'>five</a>.",
        "a.html": "<title>A</title><p>Back <a href='./'>home</a>.",
        "old.html": "<meta http-equiv=refresh content='0; url=a.html'>",
    }
    for name, page in pages.items():
        (folder / name).write_text(page, encoding="utf-8")
    (folder / "alias.html").symlink_to("a.html")
    built = build(folder, tmp_path / "index")
    counts = built.manifest.counts
    assert (counts.documents, counts.redirects, counts.links, counts.dangling) == (2, 2, 4, 1)
    size = sum(len(page) for page in pages.values())
    corpus = built.manifest.corpus
    assert (corpus.file, corpus.format, corpus.bytes) == ("corpus", "html", size)
    assert len(corpus.sha256) == 64
    index = OpenIndex.open(tmp_path / "index")
    assert [document.id for document in index.documents] == ["a.html", "index.html"]
    assert index.links.target.tolist() == [1, 0, 0, 0]
    assert index.documents[0].url == "a.html"


def test_a_changed_folder_is_read_again_and_an_unchanged_one_is_not(folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    put("markdown", folder, "a", "b/c")
    assert build(folder, index).reused == []
    assert "documents" in build(folder, index).reused
    hidden = folder / "b" / ".hidden.md"
    hidden.write_text("x")
    assert "documents" in build(folder, index).reused
    page = folder / "b" / "c.md"
    before = page.stat()
    page.write_bytes(page.read_bytes().replace(b"c", b"d"))
    os.utime(page, ns=(before.st_atime_ns, before.st_mtime_ns + 1))  # of the same size, a moment later
    again = build(folder, index)
    assert again.reused == []
    assert [document.text for document in OpenIndex.open(index).documents] == ["a", "d"]
    page.unlink()
    assert build(folder, index).manifest.counts.documents == 1


def test_other_processes_resolve_links_alike(folder: Path, tmp_path: Path) -> None:
    (folder / "b").mkdir()
    for n in range(40):
        (folder / f"{n}.md").write_text(f"# {n}\n\n[[only]] [next]({n + 1}) [up](b/) x\n", encoding="utf-8")
    put("markdown", folder, "b/only", "b/README")
    reports = []
    for processes in (1, 2):
        out = tmp_path / f"out{processes}"
        out.mkdir()
        reports.append(write_documents(open_reader(folder), out, processes=processes))
    assert reports[0] == reports[1]
    assert reports[0]["documents"] == 42


# --- listings ---


def test_a_listing(folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b" / "c.md").write_bytes(b"123")
    os.utime(folder / "b" / "c.md", ns=(5, 7))
    (folder / "a.md").symlink_to("b/c.md")
    (folder / "gone.md").symlink_to("nothing")
    (folder / "b" / "root").symlink_to("..")
    assert list_folder(folder) == [
        ListedFile("a.md", 3, 7, same_as="b/c.md"),
        ListedFile("b/c.md", 3, 7),
        ListedFile("b/root", ignored="symbolic link to a folder"),
        ListedFile("gone.md", ignored="broken symbolic link"),
    ]
    (folder.parent / "alias").symlink_to(folder)
    assert list_folder(folder.parent / "alias") == list_folder(folder)
    assert folder_suffixes(folder) == {".md": 3, "without suffix": 1}


def test_deep_folders_do_not_recurse(folder: Path) -> None:
    path = str(folder)
    for _ in range(1200):  # more than Python's stack
        path += "/d"
        Path(path).mkdir()
    Path(path, "a.md").write_bytes(b"text")
    try:
        assert [entry.bytes for entry in list_folder(folder)] == [4]
    finally:  # what deletes temporary folders does recurse
        Path(path, "a.md").unlink()
        for _ in range(1200):
            Path(path).rmdir()
            path = path.removesuffix("/d")


def test_a_record_that_is_an_outcome_or_an_error_is_passed_on(folder: Path) -> None:
    reader = all_readers()["markdown"](folder)
    assert list(parse_at(reader, Record("a", Ignored("why")))) == [Ignored("why")]
    with pytest.raises(InputError, match=r"^as it is$"):
        parse_at(reader, Record("a", InputError("as it is")))


def test_files_that_are_no_pages_for_their_size(folder: Path) -> None:
    put("markdown", folder, "a")
    with (folder / "b.md").open("wb") as file:
        file.truncate((1 << 22) + 1)
    texts, _, errors = read_all("markdown", folder)
    assert texts == ["a"]
    assert [error.message for error in errors] == [
        f"{folder}/b.md: more than 4,194,304 bytes, too large for a page"
    ]


PAIRS = [
    (one, other) for one in FILES for other in FILES if not all_readers()[one].reads(f"x{FILES[other][0]}")
]


@pytest.mark.parametrize(("most", "least"), PAIRS)
def test_a_mixed_folder_gives_what_its_parts_give(folder: Path, most: str, least: str) -> None:
    """Both formats are read, each as alone; or the smaller part is counted, file by file."""
    put(most, folder, "a", "b", "c")
    alone = [one for one in open_reader(folder, most).documents() if isinstance(one, Document)]
    names = put(least, folder, "x")
    reader = open_reader(folder)
    outcomes = list(reader.documents())
    part = [one for one in outcomes if isinstance(one, Document)]
    if reader.name == "pages":
        other = all_readers()["html" if names[0].endswith(".html") else "markdown"](folder)
        assert [one for one in part if one.id in names] == [
            one for one in other.documents() if isinstance(one, Document) and one.id in names
        ]
        assert len(part) == len(alone) + 1
        part = [one for one in part if one.id not in names]
    else:
        skipped = [one.reason for one in outcomes if isinstance(one, Ignored)]
        assert len(skipped) == 1 and Path(names[0]).suffix in skipped[0]
    assert part == alone
    kind = all_readers()[most]
    for attribute in ("headings", "costly", "decodes", "passage_words", "folders"):
        assert getattr(type(reader), attribute) == getattr(kind, attribute), attribute


@pytest.mark.parametrize("suffix", [".adoc", ".RST", ".org", ".txt", ".docx", ".rst.gz", ".json"])
def test_a_folder_that_is_mostly_in_another_format_is_refused(folder: Path, suffix: str) -> None:
    put("markdown", folder, "README", "a/page")
    for n in range(9):
        (folder / f"{n}{suffix}").write_text("x")
    with pytest.raises(InputError, match="only 2 would") as caught:
        open_reader(folder)
    assert caught.value.message.count(f"9 .{suffix.split('.')[1].lower()} (") == 1
    assert "--format markdown" in caught.value.hint
    assert open_reader(folder, "markdown").name == "markdown"
    assert open_reader(folder, None, Choices(exclude=(f"*{suffix}",))).name == "markdown"


FOREIGN = {
    "a.rst": "Pump\n====\n", "b.txt/DokuWiki": "====== Pump ======\n", "c.txt/TWiki": "---+ Pump\n",
    "d.xml/DocBook": '<book xmlns="http://docbook.org/ns/docbook"/>',
    "e.xml/JATS": '<article article-type="x"/>', "f.xml/TEI": "<TEI/>",
    "g.warc/WET": "WARC/1.0\r\nWARC-Type: conversion\r\n", "h/Parquet": "PAR1",
    "i.json/CirrusSearch": '{"index": {"_id": "1"}}\n{"title": "x"}\n', "j/ZIM": "ZIM\u0004",
    "k.json/Enterprise": '{"name": "P", "article_body": {}}',
    "l.json/Roam": '[{"title": "P", "children": []}]',
    "m.json/Wikidata": '[\n{"id": "Q1", "labels": {}, "claims": {}}',
    "n.xml/WordPress": "wordpress.org/export/",
    "o.json/TiddlyWiki": '[{"created": "2", "text": "x", "title": "P"}]', "p.enex/ENEX": "<en-export/>",
    "q.xml/Stack Exchange": "<posts>\n<row />", "r.xml/Confluence": "<hibernate-generic/>",
    "s.sql/SQL": "x", "t.txt/mail": "From a@b Fri Jan 2 10:00:00 2026\n",
    "u.json/Discourse": '{"topic_list": {}}', "v.pdf/PDF": "x",
    "w.txt/llms.txt": "# P\n\n> x\n\n## D\n\n- [a](https://b.c): x\n", "x.docx/Word": "x",
    "y.epub/EPUB": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_named_alone_and_beside_a_readme(folder: Path, name: str) -> None:
    file, _, kind = name.partition("/")
    (folder / file).write_text(FOREIGN[name], "utf-8")
    for path in (folder / file, folder) if file.partition(".")[2] else (folder / file,):
        put("markdown", folder, "README")
        with pytest.raises(InputError) as caught:
            open_reader(path)
        found = next(one for one in kinds() if (kind or "reStructuredText") in one.name)
        assert found.name in str(caught.value) and found.advice in caught.value.hint


def test_by_products_of_pages_are_no_text_that_is_lost(folder: Path) -> None:
    put("html", folder, *(f"p{n}" for n in range(6)))
    for n in range(6):  # of Sphinx, of Next.js, of Gatsby
        for name in (f"_sources/p{n}.rst.txt", f"p{n}.txt", f"page-data/{n}/page-data.json"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("x")
    assert open_reader(folder).name == "html"


def test_text_that_is_not_read_is_listed_first_and_pictures_last() -> None:
    counts = {".png": 9, "links to other sites": 5, ".adoc": 2, "empty page": 6}
    reasons = [".adoc", "empty page", "links to other sites", ".png"]
    assert list(Skipped(Counter(counts)).to_json()) == reasons


CELL = '{"cell_type": "%s", "source": ["%s"]}'
CELLS = f'{{"cells": [{CELL % ("markdown", "yes [b](b.md)")}, {CELL % ("code", "no")}]}}'
PARTS = {"q.md": "all", "r.rs": "// ANCHOR: x\nfn one\n// ANCHOR_END: x\nfn two"}
INCLUDES = {
    "include r.rs:x": ("one", "two"), "rustdoc_include r.rs:4": ("two", "one"), "include q.md": ("all", "{"),
    "playground r.rs": ("two", "R:"), "include ../../r.rs:y": ("all", "fn"), "include r.rs:3:": ("two", "1"),
}  # fmt: skip
MAIL = {  # pipermail, MHonArc, hypermail
    "message": "<li>Next message (by thread): <a href=x.html>[P] R</a></li><li><b>Messages sorted by:</b> "
    "<a href=date.html>[ date ]</a></li>",
    "by": "<hr>[<a href=x.html>Date Prev</a>][<a href=y.html>Next by Thread</a>]<hr>",
    "reply": "<li><b>In reply to:</b> <a href=x.html>Al: Q</a><li><b>Next message:</b> <a href=y.html>R</a>",
}
BROUGHT: list[tuple[dict[str, str], int, str, str]] = [
    ({"n.ipynb": CELLS, "b.md": "[n](n)"}, 2, "yes", "no"),
    ({"n.ipynb": f'{{"worksheets": [{CELLS}]}}'.replace("markdown", "heading"), "b.md": "x"}, 1, "yes", "no"),
    *(({"p.md": f'{{{{#{tag}}}}}\n```\n--8<-- "q.md"'} | PARTS, 0, *of) for tag, of in INCLUDES.items()),
    *(({f"{n}.html": f"<title>{n}</title>{around}<p>yes" for n in "abc"}, 0, "yes", label)
      for label, around in MAIL.items()),
    ({"Node.js": "<html><p><a href=W>w</a>", "W": "<html><p><a href=Node.js>n</a>", "a.js": ""}, 2, "n", "<"),
    ({"date.html": "<title>d</title><a href=a.html>no such list</a>", "a.html": "<p>yes"}, 0, "yes", "no"),
    ({"a.php": "<html>yes <a href=b.php>b", "b.php": "<html>x", "c.php": "<html><?php no"}, 1, "yes", "no"),
    ({"P_301.html": "<title>P</title><p>yes <a href='/pages/viewpage.action?spaceKey=P&amp;title=V'>v</a>",
      "V_302.html": "<title>V</title><a href='//w.example/wiki/spaces/P/pages/edit-v2/301'>x"},
     2, "yes", "no"),
    ({f"P {'a' * 32}.md": f"Of: V (https://www.notion.so/V-{'b' * 32}?pvs=2)\nTo: V%20{'b' * 32}.md",
      f"V {'b' * 32}.md": "# V\n\nyes"}, 2, "yes", "bb"),
    ({"date.html": "<p>a date is a day, and <a href=a.html>more</a>", "a.html": "<p>x"}, 1, "day", "<"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "links", "shown", "hidden"), BROUGHT)
def test_folders_brought(folder: Path, files: dict[str, str], links: int, shown: str, hidden: str) -> None:
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    found = {one.id: one for one in open_reader(folder).documents() if isinstance(one, Document)}
    text = " ".join(one.text for one in found.values())
    assert shown in text and hidden not in text
    assert sum(link.target in found for one in found.values() for link in one.links) == links


@pytest.mark.parametrize(
    ("pattern", "count"), [("1.0", 3), ("./1.0/", 3), ("*/a.md", 3), ("1.0/s", 4), ("s", 3), ("?.0", 1)]
)
def test_versions_are_named_and_excluded(folder: Path, pattern: str, count: int) -> None:
    put("markdown", folder, "1.0/a", "1.0/s/b", "2.0/a", "2.0/s/b", "x")
    assert ("versions", "1.0, 2.0") in open_reader(folder).choices.guessed
    outcomes = open_reader(folder, None, Choices(exclude=(pattern,))).documents()
    assert sum(isinstance(one, Document) for one in outcomes) == count


@pytest.mark.parametrize("folders", ["release-1.0 release-1.1", "v2.0 v2.0-rc1", "10 9"])
def test_folders_of_versions_by_their_names(folders: str) -> None:
    assert versions_in([f"{one}/a.md" for one in folders.split()]) == folders.split()
    assert not versions_in([f"{one}/a.md" for one in "2023 2024 ch01 01 02 pump-5.3 seal-2.0".split()])


@pytest.mark.parametrize(("name", "part"), [("r.json", '".csv": {'), ("r.html", ".csv\n  a table: Write")])
def test_a_report_has_what_is_not_read(folder: Path, tmp_path: Path, name: str, part: str) -> None:
    put("markdown", folder, "a")
    (folder / "b.csv").write_text("x")
    places = f"--corpus {folder} --index {tmp_path / 'i'} --report {tmp_path / name}"
    main(f"{places} --no-dense --processes 1".split())
    assert part in (tmp_path / name).read_text("utf-8")
