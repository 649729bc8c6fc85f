"""Elements of several pages: HTML from a template, drawings, empty places, rows of pipelines to choose."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import streamlit as st

from linkseek.app.page.context import Context
from linkseek.app.pipelines.pipeline_entry import GROUPS
from linkseek.app.rendering.html_templates import plain_label, render
from linkseek.app.report.text import excerpt
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.text import harmless

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_TITLE = 80  # characters of a part
_FAILURE = "error of a callback"

_drawing = st.components.v2.component(
    "linkseek.drawing",
    html='<div class="ls-drawing"></div>',
    js="""export default ({ data, parentElement }) => {
      const place = parentElement.querySelector(".ls-drawing");
      if (place.dataset.drawn !== data) { place.innerHTML = data; place.dataset.drawn = data; }
    }""",
    isolate_styles=False,
)


def sender(name: str) -> Any:
    """A component through which HTML of ours sends a value: `window.linkseekSend[name](value)`."""
    return st.components.v2.component(
        f"linkseek.{name}",
        js=f"""export default ({{ setTriggerValue }}) => {{
          (window.linkseekSend ??= {{}}).{name} = (value) => setTriggerValue("sent", value);
        }}""",
    )


def remembered(name: str, asked: object, make: Callable[[], T]) -> T:
    """A value of this visitor, made again when its key changes."""
    if st.session_state.get(name, (None,))[0] != asked:
        st.session_state[name] = (asked, make())
    value: T = st.session_state[name][1]
    return value


def set_title(*parts: str) -> None:
    """What the browser writes into tabs, bookmarks and history; the most particular part comes first."""
    named = [excerpt(" ".join(harmless(part).split()), _MAX_TITLE) for part in parts]
    st.set_page_config(page_title=" · ".join([*named, "Linkseek"]))


def show(template: str, **values: Any) -> None:
    """Show a template of `app/rendering/templates`."""
    st.html(render(template, **values))


def show_error(message: str, hint: str = "") -> None:
    """An error and its remedy."""
    show("notice.html", message=message, hint=hint)


@contextmanager
def shown_errors(what: str) -> Iterator[None]:
    """Show errors in the place of a part of the page; internal errors are also logged.

    what: the part, for the message.
    """
    try:
        yield
    except LinkseekError as error:
        show_error(error.message, error.hint)
    except Exception:
        _log.exception("%s could not be shown", what)
        show_error(
            f"{what} could not be shown",
            "This is an internal error; the terminal has the details. Going back may help.",
        )


@contextmanager
def noted_errors() -> Iterator[None]:
    """Note an error of a callback, whose own place on the page is gone when it runs; see `show_failure`."""
    try:
        yield
    except LinkseekError as error:
        st.session_state[_FAILURE] = (error.message, error.hint)


def show_failure() -> None:
    """Show the last recorded error, once."""
    if failure := st.session_state.pop(_FAILURE, None):
        show_error(*failure)


def invite(title: str, text: str) -> None:
    """A title and a sentence in the place of results that are not there yet."""
    show("invitation.html", title=title, text=text)


def show_no_index(context: Context) -> None:
    """A link to the form that builds an index."""
    if context.options.simple or context.options.read_only:
        invite("There is no index yet", "It is built with linkseek build.")
        return
    show("no_index.html", index=context.name)


def show_drawing(svg: str, key: str) -> None:
    """An <svg>, which `st.html` would remove: a component of its own inserts it.

    The text must come from a template, which escapes foreign text. key: unique on the page.
    """
    _drawing(key=key, data=svg)


Groups = Mapping[str, Sequence[str]]
"""The names of pipelines by their group, see `Pipelines.grouped`."""


def pressed(groups: Groups, key: str, before: Sequence[str]) -> list[str]:
    """The pressed pipelines. before: the earlier choice, which remains while no rows are shown yet.

    key: begins the keys of the rows.
    """
    rows = [(group, names) for group, names in groups.items() if _key(key, group) in st.session_state]
    if not rows:
        return [*before]
    now = [name for group, names in rows for name in names if name in st.session_state[_key(key, group)]]
    return [name for name in before if name in now] + [name for name in now if name not in before]


def show_choice(groups: Groups, key: str, chosen: Sequence[str]) -> None:
    """Show rows of buttons, with the chosen pipelines pressed."""
    for group, names in groups.items():
        row, what = _key(key, group), plain_label(GROUPS[group])
        st.session_state[row] = [name for name in names if name in chosen]
        with st.container(key=f"group-{group}", width="content"):
            st.pills(group, names, selection_mode="multi", key=row, format_func=plain_label, help=what)


def _key(key: str, group: str) -> str:
    return f"{key}: {group}"
