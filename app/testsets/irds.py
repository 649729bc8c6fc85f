"""Test sets that ir_datasets knows (https://ir-datasets.com): it downloads, keeps and parses their files.

Importing it takes a third of a second and makes folders in its home, so that is put off until a set is
read. What it would download is looked up in its own list first: nothing is downloaded unasked, and the
size is told before it begins. Whatever it raises becomes an `InputError`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from rich.filesize import decimal

from app.testsets import Contents, Gap, Places, Source
from indexer.base.errors import InputError, LinkseekError
from retriever.ranking import Query
from retriever.search.runs import Qrels

_SMALL = 5_000_000  # bytes; only for larger files does it look for a copy in its folder downloads/


@dataclass(frozen=True, slots=True)
class Part:
    """A file that ir_datasets downloads, by its key in the list of downloads.

    made: what it keeps of the file, as paths below the section's folder, where that is not the file.
    """

    key: str
    made: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IrDatasets(Source):
    """Data sets of ir_datasets, one after another.

    section: its folder and its part of the list of downloads. right_only: judgements of 0 and below
    are left out (DPR has dozens of negatives a question). answerable_only: judgements of questions
    without any relevant document are left out, as in TREC's own means; they are counted still.
    """

    section: str
    datasets: tuple[str, ...]
    parts: tuple[Part, ...]
    right_only: bool = False
    answerable_only: bool = False

    @property
    def needs(self) -> str:
        """The flag, and the size."""
        size = sum(_downloads(self.section)[part.key]["size_hint"] for part in self.parts)
        return f"`--download` ({decimal(size)})"

    def gap(self, places: Places) -> Gap | None:
        """The parts that are not in ir_datasets' home."""
        missing = self._missing()
        if not missing:
            return None
        what = ", ".join(str(path) for _, path in missing)
        size = sum(entry["size_hint"] for entry, _ in missing)
        urls = ", ".join(entry["url"] for entry, _ in missing)
        return Gap(
            f"{what} (kept by ir_datasets, see IR_DATASETS_HOME)",
            f"Give --download to get {urls} ({decimal(size)} in all), or put it there yourself.",
            download=True,
            size=size,
        )

    def fetch(self, places: Places) -> None:
        """Say what comes; `read` makes ir_datasets download it."""
        for entry, path in self._missing():
            print(
                f"ir_datasets downloads {entry['url']} ({decimal(entry['size_hint'])}) for {path}",
                file=sys.stderr,
                flush=True,
            )

    def read(self, places: Places) -> Contents:
        """Questions and judgements. Raises `InputError` for whatever ir_datasets raises."""
        queries: list[Query] = []
        qrels: Qrels = {}
        rows = 0
        for name in self.datasets:
            with self._explained(name):
                import ir_datasets

                dataset: Any = ir_datasets.load(name)
                for query in dataset.queries_iter():
                    answers = tuple(getattr(query, "answers", ()))
                    queries.append(Query(query.query_id, query.default_text().strip(), answers))
                for row in dataset.qrels_iter():
                    if row.relevance > 0 or not self.right_only:
                        qrels.setdefault(row.query_id, {})[row.doc_id] = row.relevance
                        rows += 1
        if self.answerable_only:
            qrels = {query: judged for query, judged in qrels.items() if max(judged.values()) > 0}
        read_from = f"ir_datasets {', '.join(self.datasets)} in {home()}"
        return Contents(queries, qrels, judgements=rows, read_from=read_from)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except LinkseekError:
            raise
        except ImportError as error:
            what = f"ir_datasets cannot give {name}: {error}"
            raise InputError(what, "pip install 'ir-datasets[ijson]'") from error
        except Exception as error:  # of requests, zipfile, tarfile, ...: it has no class of its own
            reason = str(error).split("\n", 1)[0][:200]
            lacking = " and ".join(f"{entry['url']} as {path}" for entry, path in self._missing())
            hint = (
                f"Run the command again with --download, or put {lacking} there in another way."
                if lacking
                else f"Remove what is damaged below {home() / self.section} and get it again with --download."
            )
            what = f"ir_datasets cannot give {name} ({type(error).__name__}: {reason})"
            raise InputError(what, hint) from error

    def _missing(self) -> list[tuple[dict[str, Any], Path]]:
        """(entry of the list of downloads, the path where its file or what is made of it belongs)."""
        missing = []
        for part in self.parts:
            entry = _downloads(self.section)[part.key]
            folder = home() / self.section
            kept = [folder / entry["cache_path"]] if "cache_path" in entry else []
            if entry["size_hint"] >= _SMALL:
                kept.append(home() / "downloads" / entry["expected_md5"])
            made = [folder / name for name in part.made]
            if not any(path.exists() for path in kept) and not (made and all(p.exists() for p in made)):
                missing.append((entry, made[0] if "cache_path" not in entry else kept[0]))
        return missing


def home() -> Path:
    """Where ir_datasets keeps its files."""
    return Path(os.environ.get("IR_DATASETS_HOME", Path.home() / ".ir_datasets"))


@cache
def _downloads(section: str) -> dict[str, Any]:
    """A section of ir_datasets' list of downloads (url, size_hint, cache_path), read without importing it."""
    spec = importlib.util.find_spec("ir_datasets")
    if spec is None or spec.origin is None:
        raise InputError("ir_datasets is not installed", "pip install ir-datasets")
    listed: dict[str, Any] = orjson.loads((Path(spec.origin).parent / "etc/downloads.json").read_bytes())[
        section
    ]
    return listed
