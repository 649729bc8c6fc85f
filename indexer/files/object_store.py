"""A folder in an object store, such as S3, or wherever else fsspec reaches, by its URL.

An object appears whole or not at all, as object stores have it. Credentials are those that the store's
library finds in the environment (`AWS_ACCESS_KEY_ID`, `GOOGLE_APPLICATION_CREDENTIALS`, a machine's role);
they are never stored, and not accepted in a URL, which ends up in logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from linkseek.indexer.program.errors import LinkseekError, MachineError, UsageError


@dataclass(frozen=True)
class ObjectStore:
    """A folder by its URL, such as s3://bucket/folder; picklable, and opened where it is used.

    Methods raise `UsageError` for a URL that fsspec does not know, `MachineError` if its library is missing
    or the store refuses.
    """

    url: str

    def __post_init__(self) -> None:
        if "://" not in self.url or "::" in self.url:
            raise UsageError(f"{self.url}: not the URL of an object store", "For example s3://bucket/folder")
        if ":" in urlsplit(self.url).netloc.rpartition("@")[0]:
            raise UsageError(
                "the URL of the object store has a password", "Leave it to the environment, such as AWS_*."
            )

    def put(self, path: Path, name: str) -> None:
        """Store a file under a name."""
        with self._reached() as (files, folder):
            files.put_file(str(path), f"{folder}/{name}")

    def get(self, name: str, path: Path) -> bool:
        """Copy an object into a file; False if the object does not exist."""
        with self._reached() as (files, folder):
            try:
                files.get_file(f"{folder}/{name}", str(path))
            except FileNotFoundError:
                return False
        return True

    def names(self) -> set[str]:
        """The names of all objects in the folder."""
        with self._reached() as (files, folder):
            files.invalidate_cache()
            return {str(path).rpartition("/")[2] for path in files.find(folder)}

    def remove(self, name: str) -> None:
        """Remove an object, if there is one."""
        with self._reached() as (files, folder), suppress(FileNotFoundError):
            files.rm_file(f"{folder}/{name}")

    @contextmanager
    def _reached(self) -> Iterator[tuple[Any, str]]:
        """The file system of fsspec, and the folder in it."""
        import fsspec

        own = {"auto_mkdir": True} if self.url.startswith("file://") else {}
        try:
            files, folder = fsspec.core.url_to_fs(self.url, **own)
        except ImportError as error:
            raise MachineError(f"{self.url}: {error}", "Install it on all machines.") from None
        except ValueError as error:
            raise UsageError(f"{self.url}: {error}", "For example s3://bucket/folder") from None
        try:
            yield files, folder.rstrip("/")
        except LinkseekError:
            raise
        except Exception as error:  # each library has errors of its own
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise MachineError(
                f"{self.url}: {reason}",
                "Does the bucket exist, and are its credentials in the environment?",
            ) from None
