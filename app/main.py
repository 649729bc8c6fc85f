"""streamlit run app/main.py: the shell around the pages, and the server that shows them.

The shell opens the chosen index, once for all visitors, draws the heading, and runs the page that the address
names inside one handler, so that every error is a sentence and never a traceback. Options follow `--`:
streamlit run app/main.py -- --index DIR
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.starlette import App

from linkseek.app.background import services
from linkseek.app.page.context import AppOptions, Context, prepare, titles_route
from linkseek.app.page.elements import show, show_error, shown_errors
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import ARTICLE, COMPARE, EVALUATION, INDEX, SEARCH, first, link_to
from linkseek.app.rendering.html_templates import render, style
from linkseek.app.rendering.index_description import listed
from linkseek.app.rendering.streamlit_server import guards, lifespan
from linkseek.app.service import list_indexes
from linkseek.indexer.program.errors import DamagedIndexError, LinkseekError, NoIndexError, exit_on_error
from linkseek.indexer.program.options import parse_options

PROGRAM = "streamlit run app/main.py --"

# Name in the address and of the module in `app.page` -> title. (A docstring here would be shown: Streamlit
# prints expressions that stand alone in its script.)
PAGES = {
    SEARCH: "Search",
    ARTICLE: "Articles",
    COMPARE: "Compare",
    EVALUATION: "Evaluation",
    INDEX: "Indexes",
}
# With --simple: each page's module; an article without an address of the web is read here.
_SIMPLE = {SEARCH: "simple", ARTICLE: ARTICLE}
_SUBJECTS = ("report", "comparison", "id")  # parameters that say what a page is about, with the index
_SUBJECT = "subject of the page"


@st.cache_resource(show_spinner=False)
def read_options(arguments: tuple[str, ...]) -> AppOptions:
    """The options, read once."""
    return parse_options(AppOptions, arguments, PROGRAM)


def main() -> None:
    """Run the page that the address names."""
    st.set_page_config(layout="wide")
    names = _SIMPLE if _is_simple() else PAGES
    page = st.navigation([_page(name) for name in names], position="hidden")
    page.run()


def _is_simple() -> bool:
    """Whether there is one box and one list only. Options that are invalid are shown by the shell."""
    with suppress(LinkseekError, SystemExit):
        return read_options(tuple(sys.argv[1:])).simple
    return False


def _page(name: str) -> st.Page:
    def run() -> None:
        st.html(style())
        with navigation.follow_links(name):
            shell(name)

    return st.Page(run, title=f"{PAGES[name]} · Linkseek", url_path=name, default=name == SEARCH)


def shell(name: str) -> None:
    """The heading, and the page below it."""
    top = st.container(horizontal=True, vertical_alignment="bottom", key="top")
    heading = top.empty()
    pages = {} if _is_simple() else PAGES
    heading.html(render("heading.html", pages=pages, current=name, index="", counts=[], with_name=False))
    with shown_errors("this page"):
        try:
            options = read_options(tuple(sys.argv[1:]))
        except SystemExit:  # --help
            show_error("the terminal explains the options", "Start without --help.")
            return
        index = choose_index(options.index, name, top)
        if index is None:
            return
        body = place_of((name, index.name, *(first(navigation.params(), key) for key in _SUBJECTS)))
        service = None
        try:
            if index.exists():
                service = services.SERVICES.open(index, options.pipelines_file, options.results)
        except LinkseekError as error:
            is_damaged = isinstance(error, DamagedIndexError) and not isinstance(error, NoIndexError)
            damaged = f'index "{index.name}" is damaged: ' if is_damaged else ""
            show_error(damaged + error.message, error.hint)
            if name != INDEX:
                st.button("Reload")
                return
        if service is not None:
            sizes = service.index.manifest.counts
            counts = [(what, getattr(sizes, what)) for what in ("documents", "passages", "links")]
            several = len(list_indexes(options.index)) > 1  # then the box to choose one shows its name
            values = {"index": index.name, "counts": counts, "with_name": not several}
            heading.html(render("heading.html", pages=pages, current=name, **values))
        module = _SIMPLE[name] if options.simple else name
        page: Callable[[Context], None] = importlib.import_module(f"linkseek.app.page.{module}_page").page
        with body:
            page(Context(index, service, options))


def place_of(subject: tuple[str, ...]) -> DeltaGenerator:
    """The place of a page's content.

    Contents about another subject are cleared at once, because a click on them would act on that subject.
    """
    before = st.session_state.get(_SUBJECT)
    st.session_state[_SUBJECT] = subject
    return st.container() if subject == before else st.empty().container()


def choose_index(default: Path, page: str, place: DeltaGenerator) -> Path | None:
    """The index to show; of several in one folder, the visitor chooses one by name, at a place.

    None where the address names an index that is not there, and the visitor is asked for another.
    """
    indexes, params = list_indexes(default), navigation.params()
    requested = first(params, "index") if navigation.is_new(page) else ""
    wanted = requested or st.session_state.get("index", default.resolve().name)
    if not any(path.exists() for path in indexes.values()):
        wanted = default.resolve().name
    if wanted not in indexes:
        choices = [(name, link_to(page, params | {"index": [name]})) for name in indexes]
        show("unknown_index.html", name=wanted[:100], choices=choices)
        return None
    st.session_state.index = wanted
    if len(indexes) > 1:
        with place:
            st.selectbox(
                "Index",
                list(indexes),
                key="index",
                width=220,
                label_visibility="collapsed",
                format_func=lambda name: name + (" (damaged)" if listed(name, indexes[name]).problem else ""),
            )
    return indexes[st.session_state.index]


if __name__ == "__main__":  # Streamlit runs this file for every view of a page.
    main()
elif __name__ == "main":  # Its server imports it once as it starts, because it sees an `App` here.
    with exit_on_error("app"):
        _options = parse_options(AppOptions, sys.argv[1:], PROGRAM)
        streamlit_app = App(
            __file__,
            middleware=guards(_options.allow_host),
            lifespan=partial(lifespan, partial(prepare, _options)),
            routes=[titles_route(_options)],
        )
