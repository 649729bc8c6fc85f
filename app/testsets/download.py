"""Downloads of single files into our cache, by pooch: over https alone, atomic, with known hashes.

The SHA-256 of a file is known, or is noted at its first download in NAME.sha256 (a line as `sha256sum -c`
reads it); it is checked whenever the file is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urljoin, urlsplit

from linkseek.app.testsets.sources import Contents, Gap, Places, TestSetSource
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import InputError, MachineError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Settings
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.store.artifacts import temporary_path, write_atomically
from linkseek.indexer.store.outputs import clear_leftovers, locked
from linkseek.retriever.queries import read_queries

if TYPE_CHECKING:
    import requests

_SCHEMES = frozenset({"https"})
_SECONDS = 30.0
_CHUNK = 1 << 16


class WebFile(Settings):
    """A file on a server. size in bytes and sha256 where they are known."""

    url: str
    size: int | None = None
    sha256: str = ""

    @property
    def name(self) -> str:
        """The file's name, the last part of its address."""
        return urlsplit(self.url).path.rsplit("/", 1)[-1]

    def gap(self, places: Places) -> Gap | None:
        """A gap that `--download` fills, unless the file is in the cache."""
        path = places.cache / self.name
        if path.exists():
            return None
        size = f" ({byte_size(self.size)})" if self.size else ""
        hint = f"Give --download to get {self.url}{size} and keep it there, or put it there yourself."
        return Gap(str(path), hint, download=True, size=self.size)

    def fetch(self, places: Places) -> None:
        """Download the file into the cache."""
        with locked(places.cache / self.name):
            download(self, places.cache / self.name)

    def checked(self, places: Places) -> Path:
        """The file in the cache. Raises `InputError` if it was altered since its download."""
        path = places.cache / self.name
        clear_leftovers(path)
        check(self, path)
        return path


class Download(WebFile, TestSetSource):
    """A file of questions that is downloaded into the cache."""

    kind: Literal["download"] = "download"
    needs: ClassVar[str] = "`--download`"

    def read(self, places: Places) -> Contents:
        """The questions. Raises `InputError` if the file was altered since its download."""
        path = self.checked(places)
        return Contents(read_queries(path), read_from=str(path))


def download(file: WebFile, path: Path) -> None:
    """Download a file to `path`, which exists only once the file is complete and its hash is correct.

    Raises `MachineError` if the server cannot be reached or the connection breaks, and `InputError` if
    the server does not have the file or has a different one.
    """
    import pooch
    import requests

    scratch = temporary_path(path)  # a folder: pooch's own temporary file has a name that nobody would clear
    by_hand = f"Or get the file in another way and put it at {path}"
    if urlsplit(file.url).scheme not in _SCHEMES:
        raise InputError(f"{file.url}: only https addresses are downloaded from", by_hand)
    sha256 = _known_sha256(file, path)
    with ExitStack() as stack:
        bar = _Bar()

        def on_response(answer: requests.Response, **_: Any) -> None:
            if answer.is_redirect:
                target = urljoin(answer.url, answer.headers["Location"])
                if urlsplit(target).scheme not in _SCHEMES:
                    raise InputError(f"{answer.url}: leads to {target}, which is not https", by_hand)
            elif answer.ok:
                length = answer.headers.get("Content-Length", "")
                total = int(length) if length.isdigit() else None
                if file.size is not None and total is not None and total != file.size:
                    raise InputError(
                        f"{file.url}: the server has {total:,} bytes, expected {file.size:,}", by_hand
                    )
                size = byte_size(total) if total is not None else "size unknown"
                log_line(f"downloading {file.url} ({size}) to {path}")
                bar.advance = stack.enter_context(progress(file.name, total=total, unit="bytes"))

        downloader = pooch.HTTPDownloader(
            progressbar=bar,
            chunk_size=_CHUNK,
            timeout=_SECONDS,
            headers={"User-Agent": "linkseek", "Accept-Encoding": "identity"},
            hooks={"response": on_response},
        )
        pooch.get_logger().setLevel("ERROR")  # it would print a hash that we note ourselves
        shutil.rmtree(scratch, ignore_errors=True)
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        try:
            pooch.retrieve(file.url, sha256 or None, path.name, scratch, downloader=downloader)
        except requests.HTTPError as error:
            raise InputError(f"{file.url}: the server answers {error}", by_hand) from None
        except requests.RequestException as error:
            raise MachineError(
                f"{file.url}: no answer, or the connection broke off ({error})",
                f"Run the same command again. {by_hand}",
            ) from None
        except ValueError as error:  # a wrong hash
            raise InputError(
                f"{file.url}: {error}", f"It has changed on the server or on its way. {by_hand}"
            ) from None
        received = (scratch / path.name).stat().st_size
        if file.size is not None and received != file.size:
            raise MachineError(f"{file.url}: {received:,} bytes arrived, expected {file.size:,}", by_hand)
        (scratch / path.name).replace(path)
    _note(path, sha256 or file_sha256(path))


class _Bar:
    """A progress bar as pooch drives it: updates by whole chunks, then a reset and one of the total."""

    total = 0
    advance: Callable[[float], None]

    def update(self, count: int) -> None:
        self.advance(count)

    def reset(self) -> None:
        self.advance = lambda count: None

    def close(self) -> None:
        pass


def check(file: WebFile, path: Path) -> None:
    """Check that a file is the known one, or still the one that was first seen.

    Raises `InputError` if it was altered.
    """
    expected = _known_sha256(file, path)
    actual = file_sha256(path)
    if not expected:
        with suppress(OSError):  # a cache that cannot be written
            _note(path, actual)
    elif actual != expected:
        raise InputError(
            f"{path}: the file was altered (its SHA-256 is {actual}, expected {expected})",
            "Remove it and get it again with --download. If another version of the file is wanted, remove "
            f"{_noted(path).name} too.",
        )


def _noted(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _note(path: Path, sha256: str) -> None:
    write_atomically(_noted(path), f"{sha256}  {path.name}\n".encode())


def _known_sha256(file: WebFile, path: Path) -> str:
    """The pinned hash, else the one that was noted when the file was first seen, else ""."""
    if file.sha256 or not _noted(path).exists():
        return file.sha256
    return _noted(path).read_text("utf-8").split(" ", 1)[0]
