"""The address bar: its parameters, whether the visitor changed them, and links that are followed in place.

A page's widgets are filled in from the address when somebody follows a link or goes back; the address is
filled in from the widgets when they are used. If the address is the one that was written last, the widgets
have changed, otherwise the address has. A browser that has not yet received that address sends an earlier
one with what was pressed: earlier addresses count only where the browser says that it went to one.

Links are ordinary ones, in the HTML of results as in the heading: they can be copied, and opened in another
tab. `follow.js` makes a plain click on one change the address without loading the application again, which
`st.page_link` does for links that are widgets of their own.

What a running script has sent can arrive after a click, and with it the address that it had written:
Streamlit would replace the chosen address by it. So each run ends by reporting which address it was asked
for and which it has left; until a run reports the chosen address, other addresses are ignored. A run of
before the choice may have been asked for the same address, and have left another. So reports also name the
visitor's last step: a number that changes with every link and every way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from linkseek.app.rendering.addresses import Params, link_to
from linkseek.app.rendering.html_templates import render

_WRITTEN, _STEP = "address that was written last", "step of the visitor"
_EARLIER = "addresses that a browser may still send"
_SCRIPTS = "".join(
    f"<script>{Path(__file__).with_name(name).read_text('utf-8')}</script>"
    for name in ("follow.js", "results.js", "titles.js", "judge.js")
)


def params() -> dict[str, list[str]]:
    """The parameters of the address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def page_has_changed(page: str) -> bool:
    """Whether another page was shown before, or none."""
    written = st.session_state.get(_WRITTEN)
    return written is None or written[0] != page


def is_new(page: str) -> bool:
    """Whether the visitor followed a link or went back, so that widgets follow the address."""
    asked = (page, params())
    return st.session_state.get(_WRITTEN) != asked and asked not in st.session_state.get(_EARLIER, ())


def write(page: str, wanted: Params) -> None:
    """Put a page's view into the address, and remember that it came from here."""
    st.session_state.setdefault(_EARLIER, []).append((page, params()))
    if wanted != params():
        st.query_params.from_dict(wanted)
    st.session_state[_WRITTEN] = (page, params())


def set_params(wanted: Params) -> None:
    """Turn to another view of the same page, as if its link had been followed; the next run shows it."""
    st.session_state[_EARLIER] = []
    st.query_params.from_dict(wanted)


@contextmanager
def follow_links(page: str) -> Iterator[None]:
    """Have the links of a page followed in place. A run that is interrupted does not report what it left."""
    requested, context = link_to(page, params()), get_script_run_ctx()
    goes_back = context is not None and context.is_history_navigation
    if goes_back or st.session_state.get(_WRITTEN) == (page, params()):
        st.session_state[_EARLIER] = []
    if goes_back or is_new(page):
        st.session_state[_STEP] = token_hex(8)
    values = {"requested": requested, "step": st.session_state[_STEP]}
    with st.container(key="follow"):
        st.html(_SCRIPTS, unsafe_allow_javascript=True)
        report = st.html(render("run.html", **values, left=""))
    yield
    report.html(render("run.html", **values, left=link_to(page, params())))
