"""Pipelines to choose from: a row for each group. What is chosen keeps the order in which it was pressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from linkseek.app.pipelines.pipeline_entry import GROUPS
from linkseek.app.rendering.html_templates import plain_label

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
    """The rows, with the chosen pipelines pressed."""
    for group, names in groups.items():
        st.session_state[_key(key, group)] = [name for name in names if name in chosen]
        with st.container(key=f"group-{group}", width="content"):
            st.pills(
                group,
                names,
                selection_mode="multi",
                key=_key(key, group),
                format_func=plain_label,
                help=plain_label(GROUPS[group]),
            )


def _key(key: str, group: str) -> str:
    return f"{key}: {group}"
