"""The address of the page in the browser: read, noticed when it changes, written.

A page's widgets are filled in from the address when somebody follows a link or goes back, and the address
is filled in from the widgets when they are used. Which of the two has happened is told by whether the
address is the one that was written last.
"""

from __future__ import annotations

import streamlit as st

from app.web.state import Params

_WRITTEN = "address that was written last"


def params() -> dict[str, list[str]]:
    """The parameters of the address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def page_has_changed(page: str) -> bool:
    """Whether another page was shown before, or none."""
    written = st.session_state.get(_WRITTEN)
    return written is None or written[0] != page


def is_new(page: str) -> bool:
    """Whether the visitor came here by a link or went back, so that widgets follow the address."""
    return st.session_state.get(_WRITTEN) != (page, params())


def write(page: str, wanted: Params) -> None:
    """Put a page's view into the address, and note that it came from here."""
    if wanted != params():
        st.query_params.from_dict(wanted)
    st.session_state[_WRITTEN] = (page, params())
