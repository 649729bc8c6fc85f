"""Background work on a page: how it stands, looked at every second as long as something is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress

import streamlit as st

from app.background.jobs import Job, Jobs
from app.web.view import plain_label
from app.web.view_jobs import job_html
from indexer.base.errors import LinkseekError

_SHOWN = 6
_EVERY = 1.0  # seconds

Link = Callable[[Job], tuple[str, str] | None]
"""Where the result of a job is, and what its link says; None where there is none."""


def show_jobs(jobs: Jobs, kinds: Collection[str], link: Link) -> None:
    """The jobs of some kinds, the newest first, with what can be done about each.

    When one of them ends, the whole page is drawn again: what it has made may be there now.
    """
    listed = _listed(jobs, kinds)
    if not listed:
        return
    before = _states(listed)
    live = any(job.live for job in listed)

    @st.fragment(run_every=_EVERY if live else None)
    def watch() -> None:
        now = _listed(jobs, kinds)
        if _states(now) != before:
            st.rerun()
        for job in now:
            _show(jobs, job, link)

    with st.container(key="-".join(["jobs", *kinds])):
        watch()


def _show(jobs: Jobs, job: Job, link: Link) -> None:
    with st.container(key=f"job-{job.id}"):
        st.html(job_html(job, time.time(), link(job) if job.state == "done" else None))
        with st.container(horizontal=True):
            if job.live:
                _button("Cancel", jobs.cancel, job)
                return
            _button("Remove from the list", jobs.remove, job)
            with suppress(LinkseekError):
                log = jobs.log(job.id)
                if log.strip():
                    with st.popover("What it printed"):
                        st.code(log, language=None, height=320)


def _button(label: str, act: Callable[[str], None], job: Job) -> None:
    def click() -> None:
        with suppress(LinkseekError):  # somebody else was faster
            act(job.id)

    st.button(label, key=f"{label} {job.id}", on_click=click, help=plain_label(job.title))


def _listed(jobs: Jobs, kinds: Collection[str]) -> list[Job]:
    return [job for job in jobs.list() if job.kind in kinds][:_SHOWN]


def _states(listed: list[Job]) -> list[tuple[str, bool]]:
    return [(job.id, job.live) for job in listed]
