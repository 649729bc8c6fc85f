"""Pack the sources under ``samples/wiki`` into one MediaWiki export file.

The export is what a reader of real wiki dumps sees, so that the sample exercises the same code.
Nothing in it depends on the clock, the machine or the order of a directory listing: the packed
file is committed, and anyone can check that it still belongs to the sources.
"""

import argparse
import bz2
import hashlib
import string
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

SAMPLES = Path(__file__).resolve().parent
WIKI = SAMPLES / "wiki"
PACKED = SAMPLES / "linkseek-sample.xml.bz2"

TIMESTAMP = "2024-01-01T00:00:00Z"
CONTRIBUTOR = ("Linkseek sample", 1)
FIRST_ID = 1000
ID_SPAN = 9_000_000
BASE36 = string.digits + string.ascii_lowercase

NAMESPACES = {
    -2: "Media",
    -1: "Special",
    0: "",
    1: "Talk",
    2: "User",
    3: "User talk",
    4: "Linkseek",
    5: "Linkseek talk",
    6: "File",
    7: "File talk",
    8: "MediaWiki",
    9: "MediaWiki talk",
    10: "Template",
    11: "Template talk",
    12: "Help",
    13: "Help talk",
    14: "Category",
    15: "Category talk",
}

HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" \
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://www.mediawiki.org/xml/export-0.11/ \
http://www.mediawiki.org/xml/export-0.11.xsd" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Linkseek sample</sitename>
    <dbname>linkseeksample</dbname>
    <base>https://linkseek.example/wiki/Main_Page</base>
    <generator>Linkseek samples/pack.py</generator>
    <case>first-letter</case>
    <namespaces>
"""


@dataclass(frozen=True)
class Page:
    """One page of the export; ``redirect`` is the title that a redirect page points to."""

    title: str
    text: str
    ns: int = 0
    redirect: str | None = None

    @property
    def page_id(self) -> int:
        """An id taken from the title, so that a new article leaves the other ids as they were."""
        return FIRST_ID + zlib.crc32(self.title.encode()) % ID_SPAN


def rows(path: Path) -> Iterator[list[str]]:
    """Yield the fields of each line of a tab-separated file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line:
            yield line.split("\t")


def read_pages(wiki: Path = WIKI) -> list[Page]:
    """Return all pages of the sample, sorted by title."""
    pages = [
        Page(path.stem.replace("_", " "), path.read_text(encoding="utf-8").rstrip("\n"))
        for path in wiki.glob("*.wiki")
    ]
    for source, target in rows(wiki / "redirects.tsv"):
        pages.append(Page(source, f"#REDIRECT [[{target}]]", redirect=target))
    for ns, title, text in rows(wiki / "other.tsv"):
        pages.append(Page(title, text.replace("\\n", "\n").rstrip("\n"), ns=int(ns)))
    pages.sort(key=lambda page: page.title)
    for what, values in (
        ("title", [page.title for page in pages]),
        ("page id", [page.page_id for page in pages]),
    ):
        if len(set(values)) != len(values):
            raise ValueError(f"two pages share a {what}")
    return pages


def sha1_base36(data: bytes) -> str:
    """Return the SHA-1 in base 36 with 31 digits, the form that MediaWiki exports."""
    number = int(hashlib.sha1(data, usedforsecurity=False).hexdigest(), 16)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = BASE36[digit] + digits
    return digits.rjust(31, "0")


def page_xml(page: Page) -> str:
    """Return the ``page`` element."""
    data = page.text.encode()
    sha1 = sha1_base36(data)
    user, user_id = CONTRIBUTOR
    lines = [
        "  <page>",
        f"    <title>{escape(page.title)}</title>",
        f"    <ns>{page.ns}</ns>",
        f"    <id>{page.page_id}</id>",
    ]
    if page.redirect is not None:
        lines.append(f"    <redirect title={quoteattr(page.redirect)} />")
    lines += [
        "    <revision>",
        f"      <id>{page.page_id}</id>",
        f"      <timestamp>{TIMESTAMP}</timestamp>",
        "      <contributor>",
        f"        <username>{escape(user)}</username>",
        f"        <id>{user_id}</id>",
        "      </contributor>",
        f"      <origin>{page.page_id}</origin>",
        "      <model>wikitext</model>",
        "      <format>text/x-wiki</format>",
        f'      <text bytes="{len(data)}" sha1="{sha1}" xml:space="preserve">{escape(page.text)}</text>',
        f"      <sha1>{sha1}</sha1>",
        "    </revision>",
        "  </page>",
    ]
    return "\n".join(lines) + "\n"


def export_xml(pages: list[Page]) -> str:
    """Return the whole export as text."""
    parts = [HEADER]
    for key, name in NAMESPACES.items():
        inner = f">{escape(name)}</namespace>" if name else " />"
        parts.append(f'      <namespace key="{key}" case="first-letter"{inner}\n')
    parts.append("    </namespaces>\n  </siteinfo>\n")
    parts.extend(page_xml(page) for page in pages)
    parts.append("</mediawiki>\n")
    return "".join(parts)


def pack(wiki: Path = WIKI) -> bytes:
    """Return the bytes of the packed export."""
    return bz2.compress(export_xml(read_pages(wiki)).encode(), 9)


def main() -> None:
    """Write the packed export and say how large it is."""
    parser = argparse.ArgumentParser(description="Pack the sample articles into an export file.")
    parser.add_argument("--output", type=Path, default=PACKED)
    output: Path = parser.parse_args().output
    data = pack()
    output.write_bytes(data)
    print(f"{output}: {len(read_pages())} pages, {len(data)} bytes")


if __name__ == "__main__":
    main()
