"""Indexes: what is known of one, whether its files are whole, the others, and a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st

from app.background.jobs import Job, Jobs
from app.background.uploads import Upload
from app.background.work import (
    BUILD,
    MAX_LIMIT,
    VERIFY,
    BuildChoices,
    start_build,
    start_sample,
    start_verification,
)
from app.page.jobs import show_jobs
from app.service import SearchService, list_indexes
from app.web import address
from app.web.context import Context
from app.web.described import describe, list_descriptions, outcome
from app.web.state import INDEX, index_address
from app.web.view import invitation_html, notice_html, section_html
from app.web.view_index import description_html, indexes_html
from indexer.base.errors import LinkseekError
from indexer.readers.formats import all_readers
from retriever.models.locations import DEFAULT_ENCODER

_FILES, _FOLDER = "Files", "A folder"
_LOOK = "recognise it"
_UPLOAD_MB = 500


def page(context: Context) -> None:
    """The index that is open, background work, the others, and the form for a new one."""
    address.write(INDEX, {"index": [context.index.name]})
    jobs = Jobs.beside(context.index)
    indexes = list_indexes(context.index)

    def show(kind: str) -> None:
        show_jobs(jobs, [kind], lambda job: _result(job, indexes))

    nothing = context.service is None and not context.index.exists()
    if context.service is not None:
        show_index(context, context.service, jobs)
        show(VERIFY)
    elif nothing:
        offer_sample(context, jobs)
        show(BUILD)
    if len(indexes) > 1:
        st.html(section_html("All indexes here"))
        st.html(indexes_html(list_descriptions(indexes), context.index.name))
    st.html(section_html("Build one from your own files"))
    choose(context, jobs)
    if not nothing:  # below the button that was pressed
        show(BUILD)


def _result(job: Job, indexes: Mapping[str, Path]) -> tuple[str, str] | None:
    """What a job has made, as a link; None if it is gone."""
    path = indexes.get(job.subject)
    if path is None:
        return None
    made = "every file is intact" if job.kind == VERIFY else outcome(path)
    return index_address(job.subject), f"{job.subject}: {made}"


def offer_sample(context: Context, jobs: Jobs) -> None:
    """What an empty place says."""
    st.html(
        invitation_html(
            "There is no index yet",
            "The bundled sample, a small wiki of 150 articles that link to each other, is ready in about a "
            "minute. Or build an index of your own files below.",
        )
    )
    if st.button("Build the sample", type="primary", key="sample"):
        started(lambda: start_sample(jobs, context.index))


def show_index(context: Context, service: SearchService, jobs: Jobs) -> None:
    """All that is known of the index, and the button that has its files checked."""
    st.html(section_html(context.index.name))
    st.html(description_html(describe(service.index)))
    if st.button("Check every file", key="verify", help="Compares the hash of each file with the manifest’s"):
        started(lambda: start_verification(jobs, context.index))


def choose(context: Context, jobs: Jobs) -> None:
    """The form for a new index."""
    kind = st.segmented_control("What to read", [_FILES, _FOLDER], default=_FILES, key="kind", required=True)
    folder = kind == _FOLDER
    sent = st.file_uploader(
        "A folder of pages: HTML, Markdown, JSON" if folder else "One file, or several of a kind",
        accept_multiple_files="directory" if folder else True,
        key=f"corpus {kind}",
        max_upload_size=_UPLOAD_MB,
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(
            "Name of the new index", key="name", max_chars=64, placeholder="my-notes", width=280
        )
        format_ = st.selectbox("Format", [_LOOK, *all_readers()], key="format", width=220)
        limit = st.number_input(
            "Only the first … documents", 1, MAX_LIMIT, None, key="documents", placeholder="all", width=240
        )
    with st.container(horizontal=True):
        bm25 = st.checkbox("Words (BM25, query likelihood)", value=True, key="bm25")
        dense = st.checkbox(f"Vectors of {DEFAULT_ENCODER}", value=True, key="dense")
        skip = st.checkbox("Leave out what is damaged, and say so", value=True, key="skip")
    if st.button("Build", type="primary", key="build"):
        uploads: list[Upload] = [(file.name, file) for file in sent]
        choices = BuildChoices(
            None if format_ == _LOOK else format_, DEFAULT_ENCODER if dense else None, bm25, limit, skip
        )
        started(lambda: start_build(jobs, context.index.parent, name, uploads, choices))


def started(start: Callable[[], Job]) -> None:
    """Start a job and draw the page again, with it; or say why it cannot be started."""
    try:
        start()
    except LinkseekError as error:
        st.html(notice_html(error.message, error.hint))
    else:
        st.rerun()
