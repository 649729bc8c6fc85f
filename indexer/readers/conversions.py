"""Text formats that no reader reads, by suffix, and how to convert each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

_RECORDS = 'Convert {} to JSON lines: {{"id": "1", "title": "...", "text": "..."}}.'
_PANDOC = "Convert {} with pandoc -t gfm, file by file."
_ADVICE = {
    "adoc asciidoc asc": "Convert {} with asciidoctor, or Antora, and give the folder of web pages.",
    "rst": "Build {} with sphinx-build -b html, and give that folder.",
    "org": "Publish {} as HTML from Emacs, and give that folder.",
    "ipynb": "Convert {} with jupyter nbconvert --to markdown.",
    "epub": "Unpack {}: the pages inside are web pages.",
    "tid": "Export {} from TiddlyWiki as static HTML.",
    "zim": "Unpack {} with zimdump dump --dir=pages FILE, and give that folder.",
    "docx doc odt rtf tex latex textile wiki mediawiki dokuwiki creole typ fb2 opml muse t2t": _PANDOC,
    "parquet": 'Convert {} with pandas.read_parquet(FILE).to_json(NAME, orient="records", lines=True).',
    "pdf djvu pptx ppt odp eml mbox enex warc": _RECORDS,
}
# By-products of many tools: files of one name (package.json, CMakeLists.txt) count once.
_DATA = {"txt text json jsonl ndjson xml csv tsv": _RECORDS}
_SENTENCES = {
    f".{suffix}": advice for suffixes, advice in (_ADVICE | _DATA).items() for suffix in suffixes.split()
}
_OF_DATA = tuple(f".{suffix}" for suffixes in _DATA for suffix in suffixes.split())
_PICTURES = """png jpg jpeg gif svg webp ico bmp avif tif tiff mp3 mp4 webm mov wav ogg woff woff2 ttf otf eot
css scss js mjs ts map""".split()
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)\Z")
_FEW = 4  # files of data, as every project has
_EVERYWHERE = ("index", "readme")


def text_suffix(name: str) -> str:
    """The suffix of a file in a text format of this table, without that of its compression; else empty."""
    suffix = PurePosixPath(_COMPRESSED.sub("", name.lower())).suffix
    return suffix if suffix in _SENTENCES else ""


def how_to_convert(suffixes: Iterable[str]) -> str:
    """A sentence for each way of converting files with these suffixes; empty for others."""
    by_advice: dict[str, list[str]] = {}
    for suffix in suffixes:
        if suffix in _SENTENCES:
            by_advice.setdefault(_SENTENCES[suffix], []).append(suffix)
    return " ".join(advice.format(" and ".join(names)) for advice, names in by_advice.items())


def unread_texts(names: Iterable[str], reads: Callable[[str], bool]) -> Counter[str]:
    """How many files of a folder hold text in other formats, by suffix.

    Not those next to whose name a page is: Sphinx's _sources/guide.rst.txt, of guide.html.
    """
    names = list(names)
    own = {_stem(name) for name in names if reads(name)}.difference(_EVERYWHERE)
    documents, data = Counter[str](), dict[str, str]()
    for name in names:
        suffix = text_suffix(name)
        if not suffix or reads(name) or _stem(name) in own:
            continue
        if suffix in _OF_DATA:
            data[PurePosixPath(name).name] = suffix
        else:
            documents[suffix] += 1
    return documents + Counter(data.values() if len(data) > _FEW else ())


def _stem(name: str) -> str:
    return PurePosixPath(name).name.partition(".")[0].lower()


def rank_of(reason: str) -> int:
    """Where the count of a reason stands in a list: files of text first, pictures and the like last."""
    _, _, suffix = reason.rpartition(": ")
    return 0 if suffix in _SENTENCES else 2 if suffix[1:] in _PICTURES else 1
