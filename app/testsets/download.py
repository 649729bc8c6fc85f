"""Downloads of single files: the size is told first, interrupted ones go on, every byte is checked.

A file is written to NAME.part and renamed when it is whole. Its SHA-256 is known or noted at the first
download, in NAME.sha256 (a line as `sha256sum -c` reads it), and checked whenever the file is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from rich.filesize import decimal

from indexer.base.errors import BusyError, InputError, MachineError
from indexer.base.progress import log_line, progress
from indexer.store.artifacts import file_sha256, write_atomically

_SCHEMES = frozenset({"https"})
_SECONDS = 30.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class WebFile:
    """A file on a server. size in bytes and sha256 where they are known."""

    url: str
    size: int | None = None
    sha256: str = ""

    @property
    def name(self) -> str:
        """The file's name, the last part of its address."""
        return urlsplit(self.url).path.rsplit("/", 1)[-1]

    def described(self) -> str:
        """The address, and the size where it is known."""
        return self.url + (f" ({decimal(self.size)})" if self.size else "")


def download(file: WebFile, path: Path) -> None:
    """Download a file to `path`, going on where an interrupted download of it ended.

    Raises `MachineError` if the server cannot be reached or the connection breaks off, `InputError`
    if it does not have the file, or gives another than is expected; `BusyError` if another process is
    downloading it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    validator = path.with_name(path.name + ".part.etag")
    with _locked(part, validator) as target:
        if path.exists():  # another process was faster
            return
        with _opened(file, path, target, validator) as (answer, done, total):
            if file.size is not None and total is not None and total != file.size:
                raise InputError(
                    f"{file.url}: the server has {total:,} bytes, expected {file.size:,}", _by_hand(path)
                )
            size = f"{decimal(total)}" if total is not None else "size unknown"
            going_on = f", {decimal(done)} of it are here" if done else ""
            log_line(f"downloading {file.url} ({size}{going_on}) to {path}")
            digest = hashlib.sha256()
            target.seek(0)
            _hash(target, digest, done)
            with progress(file.name, total=total, unit="bytes", done=done) as advance:
                for piece in _pieces(file, answer, path):
                    target.write(piece)
                    digest.update(piece)
                    advance(len(piece))
        target.flush()
        os.fsync(target.fileno())
        found = target.tell()
        expected = file.size if total is None else total
        if expected is not None and found != expected:
            raise MachineError(
                f"{file.url}: the connection ended after {found:,} of {expected:,} bytes",
                "The same command goes on from there. " + _by_hand(path),
            )
        sha256 = _known_sha256(file, path)
        if sha256 and digest.hexdigest() != sha256:
            target.truncate(0)
            raise InputError(
                f"{file.url}: the file's SHA-256 is {digest.hexdigest()}, expected {sha256}",
                "It has changed on the server or on its way. " + _by_hand(path),
            )
        _note(path, digest.hexdigest())
        part.rename(path)
        validator.unlink(missing_ok=True)


def check(file: WebFile, path: Path) -> None:
    """Whether a file is the known one, or still the one that was first seen.

    Raises `InputError` if it was altered.
    """
    expected = _known_sha256(file, path)
    found = file_sha256(path)
    if not expected:
        with suppress(OSError):  # a cache that cannot be written
            _note(path, found)
    elif found != expected:
        raise InputError(
            f"{path}: the file was altered (its SHA-256 is {found}, expected {expected})",
            "Remove it and get it again with --download. If another version of it is wanted, remove "
            f"{_noted(path).name} too.",
        )


def _noted(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _note(path: Path, sha256: str) -> None:
    write_atomically(_noted(path), f"{sha256}  {path.name}\n".encode())


def _known_sha256(file: WebFile, path: Path) -> str:
    """As it is known, or was noted when the file was first seen; else ""."""
    if file.sha256 or not _noted(path).exists():
        return file.sha256
    return _noted(path).read_text("utf-8").split(" ", 1)[0]


@contextmanager
def _locked(part: Path, validator: Path) -> Iterator[IO[bytes]]:
    with part.open("a+b") as target:
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"{part}: another process is downloading it", "Wait for it, and run the command again."
            ) from None
        try:
            yield target
        finally:
            if not os.fstat(target.fileno()).st_size:
                part.unlink(missing_ok=True)
                validator.unlink(missing_ok=True)


def _hash(target: IO[bytes], digest: Any, size: int) -> None:
    while size > 0 and (piece := target.read(min(size, 1 << 20))):
        digest.update(piece)
        size -= len(piece)


@contextmanager
def _opened(
    file: WebFile, path: Path, target: IO[bytes], validator: Path
) -> Iterator[tuple[IO[bytes], int, int | None]]:
    """(the answer's body, bytes that are here already, bytes in all or None)."""
    have = target.seek(0, os.SEEK_END)
    known = validator.read_text("ascii") if have and validator.exists() else ""
    # Without If-Range a server would join the start of one version and the end of another.
    resume = {"Range": f"bytes={have}-", "If-Range": known} if known else {}
    try:
        answer = _open(file, path, resume)
    except urllib.error.HTTPError:  # 416, there is nothing behind what is here: begin anew
        resume = {}
        answer = _open(file, path, resume)
    with answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        done = 0
        if answer.status == 206 and resume:
            start, total = _content_range(answer.headers)
            if start != have:
                raise MachineError(
                    f"{file.url}: asked for bytes from {have:,}, the server gave them from {start:,}",
                    f"Remove {path.name}.part and run the command again.",
                )
            done = have
        else:
            target.truncate(0)  # before the new version is named: parts of two must never be joined
            _remember(validator, answer.headers)
        yield answer, done, total


def _open(file: WebFile, path: Path, headers: dict[str, str]) -> Any:
    """The server's answer. An answer of 416 to a request with `headers` is passed on as it is."""
    if urlsplit(file.url).scheme not in _SCHEMES:
        raise InputError(f"{file.url}: only https addresses are downloaded from", _by_hand(path))
    request = urllib.request.Request(
        file.url, headers={"User-Agent": "linkseek", "Accept-Encoding": "identity", **headers}
    )
    try:
        return urllib.request.build_opener(_SameScheme).open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and headers:
            raise
        raise InputError(
            f"{file.url}: the server answers {error.code} ({error.reason})", _by_hand(path)
        ) from None
    except (OSError, HTTPException) as error:
        raise _unreachable(file, path, error) from None


class _SameScheme(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in _SCHEMES:
            raise InputError(f"{req.full_url}: leads to {newurl}, which is not https", "Get it by hand.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _pieces(file: WebFile, answer: IO[bytes], path: Path) -> Iterator[bytes]:
    while True:
        try:
            piece = answer.read(_CHUNK)
        except (OSError, HTTPException) as error:
            raise _unreachable(file, path, error) from None
        if not piece:
            return
        yield piece


def _content_range(headers: HTTPMessage) -> tuple[int, int | None]:
    """Start and total of "bytes 100-199/200"."""
    kind, _, rest = headers.get("Content-Range", "").partition(" ")
    start = rest.partition("-")[0]
    total = rest.partition("/")[2]
    if kind != "bytes" or not start.isdigit():
        return -1, None
    return int(start), int(total) if total.isdigit() else None


def _remember(validator: Path, headers: HTTPMessage) -> None:
    """What names this version of the file; a weak ETag does not promise the same bytes."""
    etag = headers.get("ETag", "")
    value = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    if value and value.isascii():
        validator.write_text(value, "ascii")
    else:
        validator.unlink(missing_ok=True)


def _unreachable(file: WebFile, path: Path, error: Exception) -> MachineError:
    reason = getattr(error, "reason", None) or error
    return MachineError(
        f"{file.url}: no answer, or the connection broke off ({reason})",
        "Run the same command again; what has come so far is kept. " + _by_hand(path),
    )


def _by_hand(path: Path) -> str:
    return f"Or get the file in another way and put it at {path}"
