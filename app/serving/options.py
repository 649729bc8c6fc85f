"""The options of `linkseek serve` and `linkseek mcp`, and the secrets of a file of tokens."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from linkseek.app.rendering.hosts import checked_host_names, host_name
from linkseek.indexer.program.errors import InputError, UsageError, raise_of_machine
from linkseek.indexer.program.options import Options

_MIN_TOKEN = 16
_MAX_TOKEN_FILE = 1 << 16


class IndexOptions(Options):
    """The indexes of a service, and how it searches them."""

    index: list[Path] = Field([Path("index/sample")])
    """the folders of indexes; requests name one by the name of its folder, by default the first"""
    pipeline: str | None = None
    """the pipeline of requests that name none; default: the recommended one of each index"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    description: Annotated[str, Field(max_length=2_000)] = ""
    """what the indexes hold, in a sentence for language models"""
    max_k: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """the most passages of a question"""
    max_questions: Annotated[int, Field(ge=1, le=100_000)] = 4096
    """the most questions of a request"""
    queue: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    """questions that may wait for a pipeline, in equal shares of the requests; more get status 503"""


class ServeOptions(IndexOptions):
    """Answer search requests of programs over HTTP, in the forms of Search-R1, Anserini, MCP and others.

    Each option may also come from the environment, --time-limit from LINKSEEK_TIME_LIMIT. The page / lists
    the requests.
    """

    host: str = "127.0.0.1"
    """the address to listen at; any other than this machine's own needs --token-file"""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """the port to listen at; 0 chooses a free one"""
    allow_host: Annotated[list[str], AfterValidator(checked_host_names)] = Field([])
    """another host name of the service, such as a reverse proxy's; may be repeated"""
    root_path: Annotated[str, Field(pattern=r"^(/[\w.~-]+)*$")] = ""
    """the path below which a reverse proxy has the service, such as /search"""
    token_file: Path | None = None
    """a file with the tokens that requests must bear, one a line"""
    without_token: bool = False
    """answer everybody who reaches the address"""
    max_body: Annotated[int, Field(ge=1, le=1024)] = 4
    """the largest body of a request, in MB"""
    time_limit: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """seconds that a request may take"""
    log_file: Path | None = None
    """the file for a line of JSON on each request, renewed at 10 MB; default: stderr"""
    log_questions: bool = False
    """write the questions into the log"""
    ray: str | None = None
    """search on a Ray cluster, an actor for each partition, but at most one a core: its address, or local to
    start one here"""
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """with --ray: number of actors with the same partitions"""
    partial: bool = False
    """with --ray: leave out partitions that do not answer, and say which, instead of failing"""

    @field_validator("host")
    @classmethod
    def _is_an_address(cls, host: str) -> str:
        if not host_name(host):
            raise ValueError("an address or a name is needed, such as 0.0.0.0")
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

    def __init__(self, tokens: tuple[bytes, ...] = ()) -> None:
        self._tokens = tokens

    @classmethod
    def of(cls, options: ServeOptions) -> Tokens:
        """The tokens of the options.

        Raises `UsageError` where others could reach the service without one, `InputError` for a bad file.
        """
        if options.token_file is not None:
            return cls.read(options.token_file)
        if not (is_this_machine(options.host) or options.without_token):
            raise UsageError(
                f"--host {options.host}: other machines reach this address, and no token protects it",
                "Add --token-file FILE, or --without-token to answer everybody.",
            )
        return cls()

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """The tokens of a file, one a line."""
        hint = f"Write tokens of {_MIN_TOKEN} characters or more, one a line: openssl rand -hex 32"
        try:
            if not path.is_file():
                raise InputError(f"{path}: no such file", hint)
            with path.open("rb") as file:
                lines = file.read(_MAX_TOKEN_FILE).split()
        except OSError as error:
            raise_of_machine(error)
            raise InputError(f"{path}: {error.strerror}", hint) from None
        if not lines or min(map(len, lines)) < _MIN_TOKEN or not all(line.isascii() for line in lines):
            raise InputError(f"{path}: no token, or one that is too short or not ASCII", hint)
        return cls(tuple(lines))

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def accept(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether a request bears a token: `Authorization: Bearer TOKEN`, or `X-API-Key: TOKEN`."""
        given = [_token(name.lower(), value) for name, value in headers]
        pairs = [(token, one) for token in given if token for one in self._tokens]
        # all are compared, so that the time says nothing
        return not self._tokens or sum(hmac.compare_digest(*pair) for pair in pairs) > 0


def _token(name: bytes, value: bytes) -> bytes:
    if name == b"x-api-key":
        return value.strip()
    kind, _, token = value.partition(b" ")
    return token.strip() if name == b"authorization" and kind.lower() == b"bearer" else b""
