"""Background jobs on a page; waiting and running ones are read again every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import streamlit as st

from linkseek.app.background.jobs import Job, Jobs
from linkseek.app.page.elements import show, shown_errors
from linkseek.app.rendering.html_templates import plain_label
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.text import counted

_MAX_SHOWN = 6
_INTERVAL = 1.0  # seconds

Link = Callable[[Job], tuple[str, str] | None]
"""The address of a job's result and the text of the link; None where there is no result."""


def show_jobs(jobs: Jobs, kind: str, link: Link, shown: Callable[[Job], bool] = lambda job: True) -> None:
    """The jobs of a kind that are to be shown, with buttons to cancel or dismiss them.

    All waiting and running jobs, and the newest ended ones; older ones are folded. When one of them ends, the
    whole page is drawn again, since its result may be there.
    """
    listed = [job for job in jobs.list(kind) if shown(job)]
    live, ended = [job.id for job in listed if job.live], [job for job in listed if not job.live]
    newest = max(_MAX_SHOWN - len(live), 1)

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
        for job in ended[:newest]:
            _show_ended(jobs, job, link)
        if ended[newest:]:
            with st.expander(f"{counted(len(ended) - newest, 'earlier job')}"):
                for job in ended[newest:]:
                    _show_ended(jobs, job, link)


def _show_ended(jobs: Jobs, job: Job, link: Link) -> None:
    with st.container(key=f"job-{job.id}"):
        show("job.html", job=job, now=time.time(), link=link(job))
        log = ""
        with suppress(LinkseekError):  # another visitor was faster
            log = jobs.log(job.id).strip()
        with st.container(horizontal=True):
            if not jobs.read_only:
                _button("Dismiss", jobs.remove, job)
            if log:
                with st.popover("Log"):
                    st.code(log, language=None, height=320)


def started(start: Callable[[], Job]) -> None:
    """Start a job and draw the page again, with it; or show why it cannot be started."""
    with shown_errors("the job"):
        start()
        st.rerun()


def _button(label: str, act: Callable[[str], None], job: Job) -> None:
    def click() -> None:
        with suppress(LinkseekError):  # another visitor was faster
            act(job.id)

    st.button(label, key=f"{label} {job.id}", on_click=click, help=plain_label(job.order.title))
