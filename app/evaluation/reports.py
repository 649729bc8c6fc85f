"""Finished evaluations: the folders below `results/` that hold a results.json, read for the page.

A report is found by its name among those that there are; a name is never made into a path. One that is
damaged is listed with what is wrong with it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from app.report import report
from app.report.html import to_html
from app.report.markdown import to_markdown
from app.report.results import Difference, Results, read_results
from indexer.base.errors import InputError, LinkseekError, UsageError
from indexer.base.settings import nearest

RESULTS = "results.json"

_MOST_BYTES = 512 << 20
_SUMMARISED = 100  # the newest ones; older ones are listed by their names


@dataclass(frozen=True, slots=True)
class Summary:
    """A report in the list. modified: seconds since 1970. problem: why it cannot be shown; else empty.

    best: the pipelines with the highest mean of the main measure, and that mean.
    """

    name: str
    modified: float
    test_set: str = ""
    index: str = ""
    questions: int | None = None
    pipelines: tuple[str, ...] = ()
    measure: str = ""
    best: tuple[str, ...] = ()
    value: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One finished evaluation. raw: what results.json holds."""

    name: str
    folder: Path
    raw: Mapping[str, Any]
    results: Results

    @property
    def index(self) -> str:
        """The name of the index that was asked; empty where unknown."""
        return _index_name(self.results)

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of pipelines whose differences are listed, in order."""
        return list(dict.fromkeys((found.a, found.b) for found in self.results.differences))

    def differences(self, a: str, b: str) -> list[Difference]:
        """The questions that two pipelines answer most differently."""
        return [found for found in self.results.differences if (found.a, found.b) == (a, b)]

    def files(self) -> list[str]:
        """What can be downloaded, by its path in the folder."""
        runs = sorted(path.name for path in (self.folder / "runs").glob("*.trec") if path.is_file())
        return ["report.html", "report.md", RESULTS, *(f"runs/{name}" for name in runs)]

    def content(self, file: str) -> bytes:
        """One of `files`; a report that is missing is made again. Raises `UsageError` for any other name."""
        if file not in self.files():
            raise UsageError(f'the report {self.name} has no file "{file[:100]}"', "Look at its list.")
        try:
            return (self.folder / file).read_bytes()
        except OSError as error:
            if file == "report.html":
                return to_html(report(self.raw)).encode()
            if file == "report.md":
                return to_markdown(report(self.raw)).encode()
            raise InputError(f"{self.name}: {file}: {error.strerror}", "Evaluate again.") from None

    def zipped_runs(self) -> bytes:
        """All runs in one archive."""
        return self._zipped([file for file in self.files() if file.startswith("runs/")])

    def _zipped(self, files: list[str]) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for file in files:
                archive.writestr(f"{self.name}/{file}", self.content(file))
        return packed.getvalue()


def list_reports(folder: Path) -> list[Summary]:
    """Every evaluation below a folder, the newest first."""
    stamps = sorted(_stamps(folder).items(), key=lambda item: (-item[1][0], item[0]))
    return [
        _summary(folder, name, stamp) if place < _SUMMARISED else Summary(name, stamp[0] / 1e9)
        for place, (name, stamp) in enumerate(stamps)
    ]


def read_report(folder: Path, name: str) -> Report:
    """An evaluation by its name. Raises `UsageError` if there is none, `InputError` if it is damaged."""
    stamps = _stamps(folder)
    if name not in stamps:
        hint = nearest(name, set(stamps)) if stamps else "Nothing has been evaluated here yet."
        raise UsageError(f'there is no report "{name[:100]}"', hint)
    return _read(folder, name, stamps[name])


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Names of reports, with what changes when one is written again."""
    found: dict[str, tuple[int, int]] = {}
    try:
        names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return {}
    for name in names:
        try:
            status = (folder / name / RESULTS).stat()
        except OSError:
            continue
        found[name] = (status.st_mtime_ns, status.st_size)
    return found


@lru_cache(maxsize=4)
def _read(folder: Path, name: str, stamp: tuple[int, int]) -> Report:
    path = folder / name / RESULTS
    if stamp[1] > _MOST_BYTES:
        raise InputError(
            f"the results of {name} are too large to show ({stamp[1]:,} bytes)",
            f"Open {path.parent}/report.html.",
        )
    try:
        raw = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"the results of {name} cannot be read: {error.strerror}", _AGAIN) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"the results of {name} are not JSON ({error})", _AGAIN) from None
    if not isinstance(raw, dict):
        raise InputError(f"the results of {name} are not an object of JSON", _AGAIN)
    results = read_results(raw)
    if not results.pipelines:
        raise InputError(f"the results of {name} name no pipeline", _AGAIN)
    return Report(name, folder / name, raw, results)


_AGAIN = "The file is damaged or cut off. Evaluate again, or remove its folder."


@lru_cache(maxsize=4 * _SUMMARISED)
def _summary(folder: Path, name: str, stamp: tuple[int, int]) -> Summary:
    modified = stamp[0] / 1e9
    try:
        results = _read.__wrapped__(folder, name, stamp).results  # not kept: only a few are looked at
    except LinkseekError as error:
        return Summary(name, modified, problem=error.message)
    measure = results.main
    means = {
        pipeline: score.mean for pipeline in results.names if (score := results.score(pipeline, measure))
    }
    top = max(means.values(), default=None)
    test_set = results.test_set.name if results.test_set else None
    return Summary(
        name,
        modified,
        test_set or _questions_file(results),
        _index_name(results),
        results.counts.get("queries"),
        tuple(results.names),
        measure,
        tuple(pipeline for pipeline, mean in means.items() if mean == top),
        top,
    )


def _index_name(results: Results) -> str:
    index = results.provenance.get("index")
    path = index.get("path") if isinstance(index, dict) else None
    return Path(path).name if isinstance(path, str) else ""


def _questions_file(results: Results) -> str:
    files = results.provenance.get("files")
    queries = files.get("queries") if isinstance(files, dict) else None
    path = queries.get("path") if isinstance(queries, dict) else None
    return Path(path).name if isinstance(path, str) else ""
