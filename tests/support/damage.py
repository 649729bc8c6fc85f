"""What the tests of damage share: commands in this process, and what they must say."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from linkseek.__main__ import main
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import LinkseekError, exit_on_error
from tests.support.command import ROOT, Done

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"
WITHOUT_SEARCH = ("--no-bm25", "--no-dense", "--processes", 1)
SKIP = ("--on-error", "skip")
EXPORT = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">\n'


def here(word: str, *arguments: object) -> Done:
    """Run `linkseek WORD ARGUMENTS` in this process, to save the seconds of its imports.

    An exception that is no `LinkseekError` is not caught, where it would be a traceback.
    """
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            with exit_on_error(word):
                main([word, *map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
    out.flush()
    return Done([word], code, out.buffer.getvalue().decode(), err.getvalue())


def build(*arguments: object) -> Done:
    """Build documents, passages and links."""
    return here("build", *WITHOUT_SEARCH, *arguments)


def search(*arguments: object) -> Done:
    """Ask an index."""
    return here("search", *arguments)


def told(done: Done, kind: type[LinkseekError], *words: str) -> None:
    """The command ended with the exit code of `kind`, and its message holds all these words."""
    assert done.returncode == kind.exit_code, done.stderr
    assert "Traceback" not in done.stderr
    message = done.stderr[done.stderr.index("error: ") :]
    assert all(word in message for word in words), message
    assert len(message.strip().splitlines()) == 2, message  # what is wrong, and what to do


def kept(done: Done) -> str:
    """What a build that ended well printed."""
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def documents(index: Path) -> list[str]:
    """The ids of an index's documents."""
    return [document.id for document in OpenIndex.open(index).documents]


def page(title: str, text: str, more: str = "") -> str:
    """A page of a MediaWiki export; `more`: further elements."""
    return (
        f"<page><title>{escape(title)}</title><ns>0</ns><id>1</id>{more}<revision><id>1</id>"
        f"<model>wikitext</model><text>{escape(text)}</text></revision></page>\n"
    )


def wiki(*pages: str) -> str:
    """A MediaWiki export."""
    return EXPORT + "".join(pages) + "</mediawiki>\n"


def flip(path: Path, at: int) -> None:
    """Change a bit of the byte at a place."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def without_privileges() -> None:
    """To be run in a child before its program: root then needs permissions as everybody does.

    prctl's PR_CAPBSET_DROP of CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH; nothing happens to other users.
    """
    import ctypes

    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(24, 1, 0, 0, 0)
        libc.prctl(24, 2, 0, 0, 0)
