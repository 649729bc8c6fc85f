"""Test sets of ir_datasets (https://ir-datasets.com), which downloads, keeps and parses their files.

Importing it takes a third of a second and creates folders in its home, so it is imported when a set is read.
Its own list of downloads names the files: nothing is downloaded without `--download`, and the size is printed
before it begins. Every error that it raises becomes an `InputError`.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import field_validator

from linkseek.app.testsets.definition import Contents, Gap, Places, TestSetSource
from linkseek.indexer.program.errors import InputError, LinkseekError, log_line
from linkseek.indexer.program.text import byte_size
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels

_SMALL = 5_000_000  # bytes; only for larger files does ir_datasets look for a copy in its folder downloads/


class IrDatasets(TestSetSource):
    """Data sets of ir_datasets, one after another.

    section: its folder and its part of the list of downloads. parts: the files that it downloads, by their
    keys in that list -> the files that it makes of each (below the section's folder); a list of keys where
    it keeps the file itself. relevant_only: judgements of 0 and below are skipped (DPR has dozens of
    negatives a question). answerable_only: judgements of questions without any relevant document are
    skipped, as in TREC's own means; they are still counted.
    """

    kind: Literal["irds"] = "irds"
    section: str
    datasets: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    relevant_only: bool = False
    answerable_only: bool = False

    @field_validator("parts", mode="before")
    @classmethod
    def _keys(cls, parts: Any) -> Any:
        return dict.fromkeys(parts, ()) if isinstance(parts, list) else parts

    @property
    def needs(self) -> str:
        size = sum(_downloads(self.section)[key]["size_hint"] for key in self.parts)
        return f"`--download` ({byte_size(size)})"

    def gap(self, places: Places) -> Gap | None:
        missing = self._missing()
        if not missing:
            return None
        paths = ", ".join(str(path) for _, path in missing)
        size = sum(entry["size_hint"] for entry, _ in missing)
        urls = ", ".join(entry["url"] for entry, _ in missing)
        return Gap(
            f"{paths} (kept by ir_datasets, see IR_DATASETS_HOME)",
            f"Give --download to get {urls} ({byte_size(size)} in all), or put it there yourself.",
            download=True,
            size=size,
        )

    def fetch(self, places: Places) -> None:
        """Print the names and sizes of the files to download; `read` makes ir_datasets do it."""
        for entry, path in self._missing():
            log_line(f"ir_datasets downloads {entry['url']} ({byte_size(entry['size_hint'])}) for {path}")

    def read(self, places: Places) -> Contents:
        """Questions and judgements. Raises `InputError` for any error of ir_datasets."""
        queries: list[Query] = []
        qrels: Qrels = {}
        rows = 0
        for name in self.datasets:
            try:
                import ir_datasets

                dataset: Any = ir_datasets.load(name)
                for query in dataset.queries_iter():
                    answers = tuple(getattr(query, "answers", ()))
                    queries.append(Query(query.query_id, query.default_text().strip(), answers))
                for row in dataset.qrels_iter():
                    if row.relevance > 0 or not self.relevant_only:
                        qrels.setdefault(row.query_id, {})[row.doc_id] = row.relevance
                        rows += 1
            except LinkseekError:
                raise
            except ImportError as error:
                message = f"ir_datasets cannot give {name}: {error}"
                raise InputError(message, "pip install 'ir-datasets[ijson]'") from error
            except Exception as error:  # of requests, zipfile, tarfile, ...: it has no class of its own
                reason = str(error).split("\n", 1)[0][:200]
                message = f"ir_datasets cannot give {name} ({type(error).__name__}: {reason})"
                raise InputError(message, self._remedy()) from error
        if self.answerable_only:
            qrels = {query: judged for query, judged in qrels.items() if max(judged.values()) > 0}
        read_from = f"ir_datasets {', '.join(self.datasets)} in {home()}"
        return Contents(queries, qrels, judgements=rows, read_from=read_from)

    def _remedy(self) -> str:
        lacking = " and ".join(f"{entry['url']} as {path}" for entry, path in self._missing())
        if lacking:
            return f"Run the command again with --download, or put {lacking} there in another way."
        return f"Remove the damaged files in {home() / self.section} and get them again (--download)."

    def _missing(self) -> list[tuple[dict[str, Any], Path]]:
        """(entry of the list of downloads, path of its file or of the first file made from the download)."""
        missing = []
        for key, names in self.parts.items():
            entry = _downloads(self.section)[key]
            folder = home() / self.section
            kept = [folder / entry["cache_path"]] if "cache_path" in entry else []
            if entry["size_hint"] >= _SMALL:
                kept.append(home() / "downloads" / entry["expected_md5"])
            made = [folder / name for name in names]
            if not any(path.exists() for path in kept) and not (made and all(p.exists() for p in made)):
                missing.append((entry, made[0] if "cache_path" not in entry else kept[0]))
        return missing


def home() -> Path:
    """The folder in which ir_datasets keeps its files."""
    return Path(os.environ.get("IR_DATASETS_HOME", Path.home() / ".ir_datasets"))


@cache
def _downloads(section: str) -> dict[str, Any]:
    """A section of ir_datasets' list of downloads (url, size_hint, cache_path), read without importing it."""
    spec = importlib.util.find_spec("ir_datasets")
    if spec is None or spec.origin is None:
        raise InputError("ir_datasets is not installed", "pip install ir-datasets")
    listed = orjson.loads((Path(spec.origin).parent / "etc/downloads.json").read_bytes())
    return dict(listed[section])
