"""Articles: found by title, read with their links, and the training examples mined from them."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from linkseek.app.context.article import PAGE, article_row, passage_number, read_article
from linkseek.app.context.titles import MAX_CHARACTERS, article_name, find_articles
from linkseek.app.context.training_data import Mining, contrast_miners, pair_miners
from linkseek.app.page.context import Context
from linkseek.app.page.elements import invite, set_title, show, show_no_index
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import (
    ARTICLE,
    MAX_OBJECTIVES,
    PAIRS,
    TEXT,
    ArticleView,
    read_article_view,
)
from linkseek.app.rendering.html_templates import plain_label, render
from linkseek.app.rendering.views import article_html

_SHOWS = {TEXT: "Text and links", PAIRS: "Training examples"}
_EXAMPLES = 6


def page(context: Context) -> None:
    """The search for titles, and below it the article."""
    if context.service is None:
        show_no_index(context)
        return
    mining = context.service.mining
    view = choose_view()
    name, index = context.name, context.service.index
    navigation.write(ARTICLE, view.to_params() | {"index": [name]})
    if view.find:
        articles, total = find_articles(index, view.find)
        show("found_articles.html", text=view.find, articles=articles, total=total, index=name)
    if view.id:
        show_article(mining, view, name)
    elif not view.find:
        invite("Read an article", "Find one by a part of its title, or begin with one of these.")
        start = [article_name(index, row) for row in mining.most_linked]
        show("start_articles.html", articles=start, index=name)


def choose_view() -> ArticleView:
    """The form, filled in from the address, and its view."""
    state = st.session_state
    view = read_article_view(navigation.params(), [*pair_miners()], [*contrast_miners()])
    is_new = navigation.is_new(ARTICLE) or "find" not in state
    if is_new:
        state.find = view.find
    if is_new or "article_show" not in state:
        state.article_show = view.show
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
        view, show=state.article_show, objectives=tuple(state.objectives), contrasts=tuple(state.contrasts)
    )


def show_article(mining: Mining, view: ArticleView, name: str) -> None:
    """One article. Raises `InputError` if no article has this id."""
    index = mining.index
    row = article_row(index, view.id)
    at = passage_number(index, row, view.passage)
    first = at - 2 if at > PAGE and view.first == 1 else view.first  # a page with the passage on it
    article = read_article(index, mining.topology, row, first)
    set_title(article.title, "Articles")
    show("article_heading.html", article=article)
    st.segmented_control(
        "Show",
        [*_SHOWS],
        key="article_show",
        format_func=_SHOWS.__getitem__,
        label_visibility="collapsed",
        required=True,
    )
    if view.show == TEXT:
        st.html(article_html(article, view, name))
        return
    show_mined(mining, row, view, name)


def show_mined(mining: Mining, row: int, view: ArticleView, name: str) -> None:
    """The examples that the chosen objectives mine from one article, a column for each."""
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
        invite("Choose an objective", "The examples that it mines from this article are shown here.")
        return
    near, mined, place = mining.near(row), [], st.empty()
    with st.spinner("Mining… The first time on an index can take a while."):
        for miner in chosen[:MAX_OBJECTIVES]:
            mined.append(miner(near, _EXAMPLES))
            place.html(render("mined.html", mined=mined, document_id=view.id, index=name))
