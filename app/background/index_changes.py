"""Deleting and renaming indexes from the pages.

A name is looked up in the list of indexes. Refused are the index that the application was started with, which
every address without a name opens, and one that a job works on.
"""

from __future__ import annotations

from pathlib import Path

from linkseek.app.background.job_requests import checked_index_name
from linkseek.app.background.jobs import Jobs
from linkseek.app.service import list_indexes
from linkseek.indexer.building.updating.removal import remove_index, rename_index
from linkseek.indexer.program.errors import BusyError, UsageError
from linkseek.indexer.program.settings import nearest


def delete_index(jobs: Jobs, started_with: Path, name: str) -> None:
    """Delete an index. Raises `UsageError` for an unknown name, `BusyError` if it is in use."""
    remove_index(_free(jobs, started_with, name))


def change_index_name(jobs: Jobs, started_with: Path, name: str, new: str) -> str:
    """Rename an index, and return its new name. Raises as `delete_index`, and for an invalid new name."""
    index = _free(jobs, started_with, name)
    new = checked_index_name(new, index.parent)
    rename_index(index, index.with_name(new))
    return new


def _free(jobs: Jobs, started_with: Path, name: str) -> Path:
    """The folder of an index that nothing uses."""
    indexes = list_indexes(started_with)
    if name not in indexes:
        raise UsageError(f'there is no index "{name[:100]}"', nearest(name, set(indexes)))
    index = indexes[name]
    if index == started_with.resolve():
        raise UsageError(
            f'the application was started with the index "{name}"', "Start it with another --index first."
        )
    for job in jobs.list():
        if job.live and str(index) in job.order.command:
            raise BusyError(f"{job.order.title}: it uses this index", "Wait for it, or cancel it.")
    return index
