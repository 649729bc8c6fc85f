"""streamlit run app/main.py: one question, several pipelines side by side.

Layout only: what is found is `app.service`'s, what is read from the address `app.state`'s, and all
HTML `app.view`'s. Behind `--` it takes options: streamlit run app/main.py -- --index DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st

from app.service import SearchService, checked_question, list_indexes
from app.state import COUNTS, DEFAULT_COUNT, MAX_PIPELINES, View, read_view
from app.view import answer_html, heading_html, invitation_html, notice_html, paragraph_html, plain_label
from indexer.artifacts import index_stamp
from indexer.errors import LinkseekError
from indexer.options import Options, parse_options

PROGRAM = "streamlit run app/main.py --"


class AppOptions(Options):
    """Search an index in the browser, with several pipelines side by side."""

    index: Path = Path("index/sample")
    """the folder of the index; those beside it can be chosen on the page"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""


@st.cache_resource(max_entries=4, show_spinner=False)
def open_service(index: Path, stamp: tuple[int, int, int], pipelines_file: Path | None) -> SearchService:
    """An index, opened once for all visitors; `stamp` changes when it is built again."""
    return SearchService(index, pipelines_file)


def main() -> None:
    """The page."""
    st.set_page_config(page_title="Linkseek", layout="wide")
    st.html(Path(__file__).with_name("style.css"))
    heading = st.empty()
    heading.html(heading_html())
    try:
        options = parse_options(AppOptions, sys.argv[1:], PROGRAM)
    except SystemExit:  # --help
        st.html(notice_html("the options are explained in the terminal", "Start without --help to search."))
        return
    except LinkseekError as error:
        st.html(notice_html(error.message, error.hint))
        return
    index = choose_index(options.index)
    if not index.exists():
        show_no_index("There is no index yet", f"It would be the folder {index}.", build=True)
        return
    try:
        with st.spinner("Opening the index…"):
            service = open_service(index, index_stamp(index), options.pipelines_file)
            available = service.pipelines.available()
            suggestions = service.suggestions()
    except LinkseekError as error:
        show_no_index(error.message, error.hint)
        return
    counts = service.index.manifest["counts"]
    facts = [(name, counts[name]) for name in ("documents", "passages", "links") if name in counts]
    heading.html(heading_html(index.name, facts))
    if not available:
        st.html(notice_html("this index has neither BM25 nor vectors", "Build it again with one of them."))
        return
    show_answers(service, choose_view(available, suggestions))


# --- what is asked --------------------------------------------------------------------------------


def choose_index(given: Path) -> Path:
    """The index to search; where several lie side by side, the visitor chooses one by name."""
    indexes = list_indexes(given)
    name = given.resolve().name
    if len(indexes) > 1:
        if st.session_state.get("address") != address():
            st.session_state.index = st.query_params.get("index")
        if st.session_state.get("index") not in indexes:
            st.session_state.index = name
        name = st.selectbox("Index", list(indexes), key="index", width=320)
    return indexes[name]


def choose_view(available: list[str], suggestions: list[str]) -> View:
    """The form, filled in from the address, and the address, filled in from the form."""
    state = st.session_state
    if state.get("address") != address():  # a link was followed, or the browser went back
        view = read_view(address(), available)
        state.question, state.pipelines, state.k = view.question, list(view.pipelines), view.k
    too_many = len(state.pipelines) > MAX_PIPELINES
    state.pipelines = [name for name in state.pipelines if name in available][:MAX_PIPELINES]
    state.k = state.k or DEFAULT_COUNT  # a second click on the chosen count takes it away

    with st.form("ask", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Question", key="question", placeholder="Ask a question")
        st.form_submit_button("Search", type="primary")
    with st.container(horizontal=True, gap="large", key="choice"):
        st.pills(
            "Pipelines, side by side",
            available,
            selection_mode="multi",
            key="pipelines",
            format_func=plain_label,
            width="stretch",
        )
        st.segmented_control("Passages each", COUNTS, key="k")
    if too_many:
        st.caption(f"At most {MAX_PIPELINES} pipelines fit side by side.")
    view = View(state.question.strip(), tuple(state.pipelines), state.k)
    remember(view, available)
    if not view.question:
        invite(suggestions)
    return view


def invite(suggestions: list[str]) -> None:
    """What an empty page says, with questions to start with."""
    st.html(
        invitation_html(
            "Ask a question in your own words",
            "Each pipeline ranks the same passages in its own way. See side by side what they find, "
            "and where the words of your question stand.",
        )
    )
    if suggestions:
        st.pills(
            "Or try one of these", suggestions, key="try", format_func=plain_label, on_change=ask_suggested
        )


def ask_suggested() -> None:
    """Put the suggested question that was clicked into the form."""
    st.session_state.question = st.session_state["try"] or ""
    st.session_state["try"] = None


def address() -> dict[str, list[str]]:
    """The parameters of the page's address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def remember(view: View, available: list[str]) -> None:
    """Put the view into the address, and note that it came from here."""
    params = {} if view == read_view({}, available) else view.to_params()
    if "index" in st.session_state:
        params["index"] = [st.session_state.index]
    if params != address():
        st.query_params.from_dict(params)
    st.session_state.address = address()


# --- what is found --------------------------------------------------------------------------------


def show_answers(service: SearchService, view: View) -> None:
    """A column for each pipeline. An error of one leaves the others alone."""
    if not view.question:
        return
    if not view.pipelines:
        st.html(invitation_html("Choose a pipeline", "Up to four answer side by side."))
        return
    try:
        checked_question(view.question)
    except LinkseekError as error:
        st.html(notice_html(error.message, error.hint))
        return
    waiting = not all(map(service.is_ready, view.pipelines))
    with st.spinner(
        "Loading the models: only the first question waits for this…" if waiting else "Searching…"
    ):
        columns = [search(service, view, name) for name in view.pipelines]
    for place, html in zip(st.columns(len(columns), gap="large"), columns, strict=True):
        place.html(html)


def search(service: SearchService, view: View, pipeline: str) -> str:
    """The HTML of one column."""
    try:
        answer = service.search(view.question, pipeline, view.k)
    except LinkseekError as error:
        return notice_html(f"{pipeline}: {error.message}", error.hint)
    return answer_html(answer, service.describe(pipeline))


def show_no_index(message: str, hint: str, build: bool = False) -> None:
    """There is nothing to search, and how to change that."""
    st.session_state.pop("address", None)  # the question comes back from the address with the index
    if build:
        st.html(invitation_html(message, f"{hint} One command makes the bundled sample searchable:"))
        st.code("python indexer/build.py", language=None, width=640)
        st.html(paragraph_html("A corpus of your own:"))
        st.code("python indexer/build.py --corpus FILE --index index/NAME", language=None, width=640)
    else:
        st.html(notice_html(message, hint))
    st.button("Look again")


if __name__ == "__main__":
    main()
