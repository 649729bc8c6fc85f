"""Articles: found by title, read with their links, and seen as an objective sees them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import streamlit as st

from app.around.article import PAGE, article_row, passage_number, read_article
from app.around.titles import MAX_CHARACTERS, find_articles, found
from app.around.training_data import Mining, contrast_miners, pair_miners
from app.service import SearchService
from app.web import address
from app.web.context import Context
from app.web.state import ARTICLE, MAX_OBJECTIVES, PAIRS, READ, ArticleView, index_address, read_article_view
from app.web.view import invitation_html, plain_label
from app.web.view_article import article_heading_html, article_html, found_html, mined_html, starts_html
from app.web.view_index import no_index_html
from indexer.store.artifacts import index_stamp

_SHOWS = {READ: "Text and links", PAIRS: "What is mined from it"}
_EXAMPLES = 6


@st.cache_resource(max_entries=4, show_spinner=False)
def open_mining(index: Path, stamp: tuple[int, int, int], _service: SearchService) -> Mining:
    """What is counted over a whole index, once for all visitors."""
    return Mining(_service.index)


def page(context: Context) -> None:
    """Finding, and below it the article."""
    if context.service is None:
        st.html(no_index_html(index_address(context.index.name)))
        return
    mining = open_mining(context.index, index_stamp(context.index), context.service)
    view = choose_view()
    address.write(ARTICLE, view.to_params() | {"index": [context.index.name]})
    name, index = context.index.name, context.service.index
    if view.find:
        st.html(found_html(view.find, *find_articles(index, view.find), name))
    if view.id:
        show_article(mining, view, name)
    elif not view.find:
        st.html(
            invitation_html("Read an article", "Find one by a part of its title, or begin with one of these.")
        )
        st.html(starts_html([found(index, row) for row in mining.most_linked], name))


def choose_view() -> ArticleView:
    """The form, filled in from the address, and what it says now."""
    state = st.session_state
    view = read_article_view(address.params(), [*pair_miners()], [*contrast_miners()])
    is_new = address.is_new(ARTICLE) or "find" not in state
    if is_new:
        state.find, state.article_show = view.find, view.show
    state.article_show = state.get("article_show") or READ  # a second click on what is chosen takes it away
    if is_new or "objectives" not in state:  # which Streamlit forgets while they are not shown
        state.objectives, state.contrasts = list(view.objectives), list(view.contrasts)
    st.text_input(
        "Find an article by its title",
        key="find",
        max_chars=MAX_CHARACTERS,
        placeholder="Any part of a title",
        width=480,
    )
    view = replace(view, find=state.find.strip())
    if not view.id:
        return view
    return replace(
        view,
        show=state.article_show,
        objectives=tuple(state.objectives),
        contrasts=tuple(state.contrasts),
    )


def show_article(mining: Mining, view: ArticleView, name: str) -> None:
    """One article. Raises `InputError` if there is none of this id."""
    index = mining.index
    row = article_row(index, view.id)
    at = passage_number(index, row, view.passage)
    first = at - 2 if at > PAGE and view.first == 1 else view.first  # a page on which it is
    article = read_article(index, row, first, mining.topology)
    st.html(article_heading_html(article))
    st.segmented_control(
        "Show",
        [*_SHOWS],
        key="article_show",
        format_func=lambda show: _SHOWS[show],
        label_visibility="collapsed",
    )
    if view.show == READ:
        st.html(article_html(article, view, name))
        return
    show_mined(mining, row, view, name)


def show_mined(mining: Mining, row: int, view: ArticleView, name: str) -> None:
    """What is mined from one article, a column for each objective that is chosen."""
    for label, key, names in (
        ("Pairs, from which retrievers learn", "objectives", pair_miners()),
        ("Contrasts, from which re-rankers learn", "contrasts", contrast_miners()),
    ):
        st.pills(label, [*names], selection_mode="multi", key=key, format_func=plain_label)
    chosen = [pair_miners()[objective] for objective in view.objectives]
    chosen += [contrast_miners()[objective] for objective in view.contrasts]
    if len(chosen) > MAX_OBJECTIVES:
        st.caption(f"At most {MAX_OBJECTIVES} fit side by side.")
    if not chosen:
        st.html(invitation_html("Choose an objective", "What it makes of this article is shown here."))
        return
    near, mined, place = mining.near(row), [], st.empty()
    with st.spinner("Mining… The first time on an index can take a while."):
        for miner in chosen[:MAX_OBJECTIVES]:
            mined.append(miner(near, _EXAMPLES))
            place.html(mined_html(mined, view.id, name))
