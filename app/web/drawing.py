"""Drawings on a page: an SVG of ours, with links that can be pointed at and come to by keyboard.

`st.html` takes SVG out of what it shows, so a drawing goes through a component of its own. What it shows
is ours: every text in it has gone through `app.report.svg`, which escapes it.
"""

from __future__ import annotations

import streamlit as st

_show = st.components.v2.component(
    "linkseek.drawing",
    html='<div class="ls-drawing"></div>',
    js="""export default ({ data, parentElement }) => {
      const place = parentElement.querySelector(".ls-drawing");
      if (place.dataset.drawn !== data) { place.innerHTML = data; place.dataset.drawn = data; }
    }""",
    isolate_styles=False,
)


def show_drawing(svg: str, key: str) -> None:
    """Show an <svg>, or HTML around several. key: tells it from the others of the page."""
    _show(key=key, data=svg)
