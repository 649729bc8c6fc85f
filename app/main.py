"""streamlit run app/main.py: the shell around the pages.

It opens the index that was chosen, once for all visitors, draws the heading, and runs the page that the
address names inside one handler, so that whatever goes wrong is a sentence and never a traceback. Behind
`--` it takes options: streamlit run app/main.py -- --index DIR
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.service import SearchService, list_indexes
from app.web import address, links
from app.web.context import AppOptions, Context
from app.web.state import ARTICLE, EVALUATION, INDEX, SEARCH, first
from app.web.view import heading_html, notice_html
from indexer.base.errors import LinkseekError
from indexer.base.options import parse_options
from indexer.store.artifacts import index_stamp

PROGRAM = "streamlit run app/main.py --"

# Name in the address and module in `app.page` -> what it is called on the page. (A docstring here would be
# shown: Streamlit writes what stands alone in its script.)
PAGES = {SEARCH: "Search", ARTICLE: "Articles", EVALUATION: "Evaluation", INDEX: "Indexes"}


@st.cache_resource(max_entries=4, show_spinner=False)
def open_service(index: Path, stamp: tuple[int, int, int], pipelines_file: Path | None) -> SearchService:
    """An index, opened once for all visitors; `stamp` changes when it is built again."""
    return SearchService(index, pipelines_file)


@st.cache_resource(show_spinner=False)
def read_options(arguments: tuple[str, ...]) -> AppOptions:
    """The options, read once: Python 3.11 now and then fails where several threads parse at a time.

    (https://github.com/python/cpython/issues/106905)
    """
    return parse_options(AppOptions, arguments, PROGRAM)


def main() -> None:
    """The page that the address names."""
    st.set_page_config(page_title="Linkseek", layout="wide")
    page = st.navigation([_page(name) for name in PAGES], position="hidden")
    page.run()


def _page(name: str) -> st.Page:
    def show() -> None:
        st.html(Path(__file__).parent / "web" / "style.css")
        with links.followed_in_place(name):
            shell(name)

    title = PAGES[name] if name != SEARCH else "Linkseek"
    return st.Page(show, title=title, url_path=name, default=name == SEARCH)


def shell(name: str) -> None:
    """The heading, and the page below it."""
    top = st.container(horizontal=True, vertical_alignment="bottom", key="top")
    heading = top.empty()
    heading.html(heading_html(PAGES, name))
    with told_errors():
        try:
            options = read_options(tuple(sys.argv[1:]))
        except SystemExit:  # --help
            st.html(notice_html("the options are explained in the terminal", "Start without --help."))
            return
        index = choose_index(options.index, name, top)
        service = None
        try:
            if index.exists():
                with st.spinner("Opening the index…"):
                    service = open_service(index, index_stamp(index), options.pipelines_file)
        except LinkseekError as error:
            st.html(notice_html(error.message, error.hint))
            if name != INDEX:
                st.button("Look again")
                return
        counts = service.index.manifest["counts"] if service else {}
        facts = [(fact, counts[fact]) for fact in ("documents", "passages", "links") if fact in counts]
        several = len(list_indexes(options.index)) > 1  # then the box to choose one from says its name
        heading.html(heading_html(PAGES, name, index.name if service else "", facts, named=not several))
        show: Callable[[Context], None] = importlib.import_module(f"app.page.{name}").page
        show(Context(index, service, options))


@contextmanager
def told_errors() -> Iterator[None]:
    """Whatever goes wrong inside is told on the page; what is a fault of ours goes to the log as well."""
    try:
        yield
    except LinkseekError as error:
        st.html(notice_html(error.message, error.hint))
    except Exception:
        logging.getLogger(__name__).exception("a page could not be shown")
        st.html(
            notice_html(
                "this page could not be shown",
                "That is a fault of the program; the details are in its terminal. Going back may help.",
            )
        )


def choose_index(given: Path, page: str, place: DeltaGenerator) -> Path:
    """The index to show; where several lie side by side, the visitor chooses one by name, at a place."""
    indexes = list_indexes(given)
    name = given.resolve().name
    asked = first(address.params(), "index")
    if address.is_new(page) and asked:
        st.session_state.index = asked
    wanted = st.session_state.setdefault("index", name)
    if wanted not in indexes:
        if page != INDEX:
            st.html(notice_html(f"there is no index {wanted[:100]} here", f"This is {name}."))
        st.session_state.index = name
    if len(indexes) > 1:
        with place:
            st.selectbox(
                "Index",
                list(indexes),
                key="index",
                width=220,
                label_visibility="collapsed",
            )
    return indexes[st.session_state.index]


if __name__ == "__main__":
    main()
