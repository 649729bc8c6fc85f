"""Downloads of single files into our cache: over https alone, atomic, with known hashes.

The SHA-256 of a file is known, or is noted at its first download in NAME.sha256 (a line as `sha256sum -c`
reads it); it is checked whenever the file is used.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from linkseek.app.testsets.definition import Contents, Gap, Places, TestSetSource
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import InputError, MachineError, log_line
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Settings
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.store.artifacts import atomic_file, write_atomically
from linkseek.indexer.store.outputs import clear_leftovers, locked
from linkseek.retriever.queries import read_queries

_SCHEMES = frozenset({"https"})
_SECONDS = 30.0
_CHUNK = 1 << 16
_HEADERS = {"User-Agent": "linkseek", "Accept-Encoding": "identity"}


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
        hint = f"Give --download to download {self.url}{size}, or put it there yourself."
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
    import requests

    by_hand = f"Or download the file yourself and put it at {path}"
    path.parent.mkdir(parents=True, exist_ok=True)
    known, digest, received = _known_sha256(file, path), hashlib.sha256(), 0
    with requests.Session() as session:
        for prefix in [*session.adapters]:
            if urlsplit(prefix).scheme not in _SCHEMES:  # nor is a redirect followed to it
                del session.adapters[prefix]
        try:
            answer = session.get(file.url, stream=True, timeout=_SECONDS, headers=_HEADERS)
            answer.raise_for_status()
            length = answer.headers.get("Content-Length", "")
            total = int(length) if length.isdigit() else None
            if None not in (file.size, total) and total != file.size:
                raise InputError(
                    f"{file.url}: the server has {total:,} bytes, expected {file.size:,}", by_hand
                )
            size = byte_size(total) if total is not None else "size unknown"
            log_line(f"downloading {file.url} ({size}) to {path}")
            with progress(file.name, total=total, unit="bytes") as advance, atomic_file(path) as kept:
                for chunk in answer.iter_content(_CHUNK):
                    kept.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    advance(len(chunk))
                if file.size not in (None, received):
                    raise MachineError(
                        f"{file.url}: {received:,} bytes arrived, expected {file.size:,}", by_hand
                    )
                if known not in ("", digest.hexdigest()):
                    raise InputError(
                        f"{file.url}: its SHA-256 is {digest.hexdigest()}, expected {known}",
                        f"It has changed on the server or during the download. {by_hand}",
                    )
        except requests.exceptions.InvalidSchema:
            raise InputError(f"{file.url}: only https addresses are allowed", by_hand) from None
        except requests.HTTPError as error:
            raise InputError(f"{file.url}: the server answers {error}", by_hand) from None
        except requests.RequestException as error:
            raise MachineError(
                f"{file.url}: no answer, or the connection broke off ({error})",
                f"Run the same command again. {by_hand}",
            ) from None
    _note(path, digest.hexdigest())


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
