"""Indexes: the description of one, the list of all, and a form for a new one."""

from __future__ import annotations

import streamlit as st

from linkseek.app.background.job_requests import BUILD, encoders, start_build, start_sample
from linkseek.app.background.jobs import Job, Jobs
from linkseek.app.background.uploads import Upload
from linkseek.app.page.context import Context
from linkseek.app.page.elements import invite, set_title, show
from linkseek.app.page.job_list import show_jobs, started
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import INDEX, SEARCH, index_address, link_to
from linkseek.app.rendering.index_description import describe, listed, outcome
from linkseek.app.service import SearchService, list_indexes
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.readers.formats import all_readers

_FILES, _FOLDER = "Files", "A folder"
_DETECT = "detect automatically"
_UPLOAD_MB = 500


def page(context: Context) -> None:
    """All indexes, builds and the form for a new one; then the index that is open."""
    navigation.write(INDEX, {"index": [context.name]})
    jobs = context.jobs
    indexes = list_indexes(context.index)

    def link(job: Job) -> tuple[str, str] | None:
        name = job.order.subject
        path = indexes.get(name)
        return (index_address(name), f"{name}: {outcome(path)}") if path else None

    if len(indexes) > 1:
        show("section.html", title="All indexes")
        show("indexes.html", indexes=[listed(*named) for named in indexes.items()], current=context.name)
    read_only = context.options.read_only
    if context.service is None and not context.index.exists():
        if read_only:
            invite("There is no index yet", "This application is read-only.")
        else:
            offer_sample(context, jobs)
    show_jobs(jobs, BUILD, link)
    if not read_only:
        with st.expander("Build an index from your own files", expanded=context.service is None, key="new"):
            choose(context, jobs)
    if context.service is not None:
        show_index(context, context.service, jobs)


def offer_sample(context: Context, jobs: Jobs) -> None:
    """A button that builds the sample, where there is no index."""
    invite(
        "There is no index yet",
        "The bundled sample, a small wiki of 150 articles that link to each other, is ready in about a "
        "minute. Or index your own files below.",
    )
    if st.button("Build the sample", type="primary", key="sample"):
        started(lambda: start_sample(jobs, context.index))


def show_index(context: Context, service: SearchService, jobs: Jobs) -> None:
    """The description of the index, and the way to search it."""
    set_title(context.name, "Indexes")
    show("section.html", title=context.name)
    show("search_it.html", address=link_to(SEARCH, {"index": [context.name]}))
    show("index.html", **describe(service.index, jobs.as_sent))


def choose(context: Context, jobs: Jobs) -> None:
    """The form for a new index."""
    kind = st.segmented_control("Corpus", [_FILES, _FOLDER], default=_FILES, key="kind", required=True)
    folder = kind == _FOLDER
    sent = st.file_uploader(
        "A folder of pages: HTML, Markdown, JSON" if folder else "One file, or several of a kind",
        accept_multiple_files="directory" if folder else True,
        key=f"corpus {kind}",
        max_upload_size=_UPLOAD_MB,
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        label = "Name of the new index"
        name = st.text_input(label, key="name", max_chars=64, placeholder="my-notes", width=280)
        format_ = st.selectbox("Format", [_DETECT, *all_readers()], key="format", width=220)
    chosen = st.pills(
        "Vectors of these encoders",
        encoders(),
        selection_mode="multi",
        default=[DEFAULT_ENCODER],
        key="encoders",
        help="all-MiniLM-L6-v2 was not trained on these texts; hlp was trained on links, hlp-finetuned then "
        "on questions; linkseek-static reads thousands of passages a second without a GPU. With several, an "
        "index can compare them.",
    )
    if st.button("Build", type="primary", key="build"):
        uploads: list[Upload] = [(file.name, file) for file in sent]
        form = (None if format_ == _DETECT else format_, chosen)
        started(lambda: start_build(jobs, context.index.parent, name, uploads, *form))
