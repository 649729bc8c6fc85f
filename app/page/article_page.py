"""Articles: found by title, read with their links."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from linkseek.app.context.article import PAGE, article_row, passage_number, read_article
from linkseek.app.context.titles import MAX_CHARACTERS, article_name, find_articles
from linkseek.app.page.context import Context
from linkseek.app.page.elements import invite, set_title, show, show_no_index
from linkseek.app.rendering import navigation
from linkseek.app.rendering.addresses import ARTICLE, ArticleView
from linkseek.app.rendering.views import article_html
from linkseek.app.service import SearchService


def page(context: Context) -> None:
    """The search for titles, and below it the article."""
    if context.service is None:
        show_no_index(context)
        return
    service, name, view = context.service, context.name, choose_view()
    navigation.write(ARTICLE, view.to_params() | {"index": [name]})
    if view.find:
        articles, total = find_articles(service.index, view.find)
        show("found_articles.html", text=view.find, articles=articles, total=total, index=name)
    if view.id:
        show_article(service, view, name)
    elif not view.find:
        invite("Read an article", "Find one by a part of its title, or begin with one of these.")
        start = [article_name(service.index, row) for row in service.most_linked]
        show("start_articles.html", articles=start, index=name)


def choose_view() -> ArticleView:
    """The form, filled in from the address, and its view."""
    state = st.session_state
    view = ArticleView.read(navigation.params())
    if navigation.is_new(ARTICLE) or "find" not in state:
        state.find = view.find
    label, example = "Find an article by its title", "Any part of a title"
    st.text_input(label, key="find", max_chars=MAX_CHARACTERS, placeholder=example, width=480)
    return replace(view, find=state.find.strip())


def show_article(service: SearchService, view: ArticleView, name: str) -> None:
    """One article. Raises `InputError` if no article has this id."""
    index = service.index
    row = article_row(index, view.id)
    at = passage_number(index, row, view.passage)
    first = at - 2 if at > PAGE and view.first == 1 else view.first  # a page with the passage on it
    article = read_article(index, service.topology, row, first)
    set_title(article.title, "Articles")
    show("article_heading.html", article=article)
    st.html(article_html(article, view, name))
