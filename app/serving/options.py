"""The options of `linkseek serve` and `linkseek mcp`, and the secrets of a file of tokens."""

from __future__ import annotations

import codecs
import hmac
import ipaddress
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from linkseek.app.rendering.hosts import checked_host_names, host_name
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError, log_line, raise_of_machine
from linkseek.indexer.program.options import Options

ROOT_PATH = re.compile(r"^(/[\w~-][\w.~-]*)*$", re.ASCII)
_MIN_TOKEN = 16
_MAX_TOKEN_FILE = 1 << 16


class IndexOptions(Options):
    """The indexes of a service, and how it searches them."""

    index: list[Path] = Field([Path("index/sample")])
    """the folders of indexes; a request selects one by the name of its folder, by default the first"""
    pipeline: str | None = None
    """the pipeline for requests that name none; default: the recommended one of each index"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    description: Annotated[str, Field(max_length=2_000)] = ""
    """the contents of the indexes, in a sentence for language models"""
    max_k: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """the maximum number of passages for a question"""
    max_questions: Annotated[int, Field(ge=1, le=100_000)] = 4096
    """the maximum number of questions in a request"""
    queue: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """the maximum number of waiting questions for a pipeline, shared equally between requests; further ones
    get status 503
    """


class ServeOptions(IndexOptions):
    """Answer search requests of programs over HTTP, in the forms of Search-R1, Anserini, MCP and others.

    Options can also be set in the environment: --time-limit as LINKSEEK_TIME_LIMIT. The page / documents the
    requests.
    """

    host: str = "127.0.0.1"
    """the address to listen on; an address that other machines reach requires --token-file"""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """the port to listen on; 0 chooses a free one"""
    allow_host: Annotated[list[str], AfterValidator(checked_host_names)] = Field([])
    """a further host name of the service, such as a reverse proxy's, whose pages may also send requests
    (CORS); may be repeated
    """
    root_path: Annotated[str, Field(pattern=ROOT_PATH)] = ""
    """the path under which a reverse proxy serves it, such as /search; X-Forwarded-Prefix takes precedence"""
    token_file: Path | None = None
    """a file with the tokens that requests must carry, one per line, optionally after a name for the log;
    read again when it changes
    """
    without_token: bool = False
    """answer everyone who can reach the address"""
    max_body: Annotated[int, Field(ge=1, le=1024)] = 4
    """the largest body of a request, in MB"""
    time_limit: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """seconds that a request may take"""
    log_file: Path | None = None
    """the log file, a line of JSON for each request, rotated at 10 MB; default: stdout"""
    log_questions: bool = False
    """log the questions"""
    log_slow: Annotated[float, Field(gt=0)] | None = None
    """log the questions of requests that take longer than this many seconds"""
    ray: str | None = None
    """search on a Ray cluster, with an actor for each partition and at most one per core: its address, or
    local to start one here
    """
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """with --ray: the number of actors for each partition"""
    partial: bool = False
    """with --ray: skip and list partitions that do not answer, instead of failing"""

    @field_validator("host")
    @classmethod
    def _is_an_address(cls, host: str) -> str:
        if not host_name(host):
            raise ValueError("expected an address or a name, such as 0.0.0.0")
        return host


def check_options(options: ServeOptions) -> None:
    """Raises `UsageError` for options that do not go together."""
    if not options.ray and (options.partial or options.replicas > 1):
        raise UsageError("--replicas and --partial are for searches on a cluster", "Add --ray ADDRESS.")


def is_this_machine(host: str) -> bool:
    """Whether only this machine can reach an address that is listened at."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host_name(host) == "localhost"


class Tokens:
    """The tokens that requests must bear; none: everybody is answered."""

    def __init__(self, path: Path | None = None) -> None:
        """path: a file of lines TOKEN or NAME TOKEN. Raises `InputError` for a bad one."""
        self._path, self._stamp = path, _stamp(path)
        self._names = _read_tokens(path) if path else {}

    @classmethod
    def of(cls, options: ServeOptions) -> Tokens:
        """The tokens of the options.

        Raises `UsageError` where others could reach the service without one, `InputError` for a bad file.
        """
        if not (options.token_file or options.without_token or is_this_machine(options.host)):
            raise UsageError(
                f"--host {options.host}: other machines can reach this address, and no token protects it",
                "Add --token-file FILE, or --without-token to answer everyone.",
            )
        return cls(options.token_file)

    def __bool__(self) -> bool:
        return bool(self._names)

    def client(self, headers: list[tuple[bytes, bytes]]) -> str | None:
        """The name of the token that a request bears, empty if it has none; None without a token.

        A request bears `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.
        """
        if (stamp := _stamp(self._path)) != self._stamp:
            self._read_again(stamp)
        given = [_token(name.lower(), value) for name, value in headers]
        pairs = [(token, known) for token in given if token for known in self._names]
        # all are compared, so that the time says nothing
        names = [self._names[known] for token, known in pairs if hmac.compare_digest(token, known)]
        return next(iter(names), None if self._names else "")

    def _read_again(self, stamp: object) -> None:
        self._stamp = stamp
        try:
            assert self._path
            self._names = _read_tokens(self._path)
        except LinkseekError as error:
            log_line(f"{error.message}; the tokens read before remain valid")


def _stamp(path: Path | None) -> object:
    """What changes with a file; None without one."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino)


def _read_tokens(path: Path) -> dict[bytes, str]:
    """Token -> its name. Raises `InputError`."""
    hint = f"Write tokens of {_MIN_TOKEN} characters or more, one per line: openssl rand -hex 32"
    try:
        if not path.is_file():
            raise InputError(f"{path}: no such file", hint)
        with path.open("rb") as file:
            content = file.read(_MAX_TOKEN_FILE + 1).removeprefix(codecs.BOM_UTF8)
        lines = [words for line in content.splitlines() if (words := line.split()) and words[0][:1] != b"#"]
    except OSError as error:
        raise_of_machine(error)
        raise InputError(f"{path}: {error.strerror}", hint) from None
    if len(content) > _MAX_TOKEN_FILE:
        raise InputError(f"{path}: larger than {_MAX_TOKEN_FILE:,} bytes", hint)
    words = [word for line in lines for word in line]
    if not lines or min(len(line[-1]) for line in lines) < _MIN_TOKEN or not all(map(bytes.isascii, words)):
        raise InputError(f"{path}: no token, or one that is too short or not ASCII", hint)
    if max(map(len, lines)) > 2:
        raise InputError(f"{path}: a line is neither TOKEN nor NAME TOKEN", hint)
    return {line[-1]: b"".join(line[:-1]).decode() for line in lines}


def _token(name: bytes, value: bytes) -> bytes:
    if name == b"x-api-key":
        return value.strip()
    kind, _, token = value.partition(b" ")
    return token.strip() if name == b"authorization" and kind.lower() == b"bearer" else b""
