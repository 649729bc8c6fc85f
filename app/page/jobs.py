"""Background jobs on a page; those that wait or run are read again every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import streamlit as st

from linkseek.app.background.jobs import Job, Jobs
from linkseek.app.page.elements import show
from linkseek.app.web.rendering import plain_label
from linkseek.indexer.base.errors import LinkseekError

_MAX_SHOWN = 6
_INTERVAL = 1.0  # seconds

Link = Callable[[Job], tuple[str, str] | None]
"""The address of a job's result and the text of the link; None where there is no result."""


def show_jobs(jobs: Jobs, kind: str, link: Link, shown: Callable[[Job], bool] = lambda job: True) -> None:
    """The newest jobs of a kind that are to be shown, with buttons to cancel or dismiss them.

    When one of them ends, the whole page is drawn again, since its result may be there.
    """
    listed = [job for job in jobs.list(kind) if shown(job)][:_MAX_SHOWN]
    live, ended = [job.id for job in listed if job.live], [job for job in listed if not job.live]

    @st.fragment(run_every=_INTERVAL)
    def watch() -> None:
        for id_ in live:
            try:
                job = jobs.find(id_)
            except LinkseekError:
                st.rerun()
            if not job.live:
                st.rerun()
            with st.container(key=f"job-{id_}"):
                show("job.html", job=job, now=time.time(), link=None)
                if not jobs.read_only:
                    _button("Cancel", jobs.cancel, job)

    with st.container(key=f"jobs-{kind}"):
        if live:
            watch()
        for job in ended:
            with st.container(key=f"job-{job.id}"):
                show("job.html", job=job, now=time.time(), link=link(job))
                with st.container(horizontal=True):
                    if not jobs.read_only:
                        _button("Dismiss", jobs.remove, job)
                    with suppress(LinkseekError):
                        log = jobs.log(job.id)
                        if log.strip():
                            with st.popover("Log"):
                                st.code(log, language=None, height=320)


def _button(label: str, act: Callable[[str], None], job: Job) -> None:
    def click() -> None:
        with suppress(LinkseekError):  # another visitor was faster
            act(job.id)

    st.button(label, key=f"{label} {job.id}", on_click=click, help=plain_label(job.order.title))
