"""python docs/tables.py: fill the generated parts of docs/ from the code that they describe.

A generated part stands between `<!-- generated from MODULE.NAME -->` and `<!-- end of generated part -->`.
NAME is a model of settings, whose tables are written with the docstrings of their fields, a tuple of such
models of one table each, or a function that returns Markdown.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

import experiments  # noqa: F401 - whose formats are in a table
from linkseek.indexer.base.options import MoreHelp
from linkseek.indexer.base.settings import Settings, is_table, table_in, toml_value

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated from ([\w.]+) -->\n).*?(<!-- end of generated part -->)", re.DOTALL)


def filled(page: str) -> str:
    """A page with its generated parts as the code has them now."""
    return PART.sub(lambda match: f"{match[1]}\n{generated(match[2])}\n\n{match[3]}", page)


def generated(name: str) -> str:
    """The text of one part, by the dotted name of what it is made from."""
    module, _, attribute = name.rpartition(".")
    made_from: Any = getattr(importlib.import_module(module), attribute)
    if isinstance(made_from, type) and issubclass(made_from, Settings):
        return settings_markdown(made_from)
    if isinstance(made_from, tuple):
        return "\n\n".join(f"{model.__doc__}\n\n{rows(model)}" for model in made_from)
    return str(made_from()).strip()


def settings_markdown(model: type[Settings]) -> str:
    """A table of Markdown for each table of a model, or a single one if it has none."""
    tables = [(name, field, table_in(field.annotation)) for name, field in model.model_fields.items()]
    if not any(table for *_, table in tables):
        return rows(model)
    parts = []
    for name, field, table in tables:
        head = f"[{name}]" if is_table(field.annotation) else f"[[{name}]]"
        if table:
            parts.append(f"`{head}` {table.__doc__}\n\n{rows(table)}")
    return "\n\n".join(parts)


def rows(model: type[Settings]) -> str:
    """The settings of one table: name, default, meaning."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        more = "".join(f": {extra.text()}" for extra in field.metadata if isinstance(extra, MoreHelp))
        meaning = " ".join(f"{field.description or ''}{more}".split()).replace("|", "\\|")
        lines.append(f"| `{field.alias or name}` | {default(field)} | {meaning} |")
    return "\n".join(lines)


def default(field: FieldInfo) -> str:
    """The default of a setting, after which the other choices stand if there are few."""
    choices = next(
        (get_args(a) for a in (field.annotation, *get_args(field.annotation)) if get_origin(a) is Literal), ()
    )
    if field.is_required():
        return " or ".join(f"`{choice}`" for choice in choices) + ", required" if choices else "required"
    value = field.get_default(call_default_factory=True)
    others = ", ".join(f"`{choice}`" for choice in choices if choice != value)
    return (
        ""
        if value in (None, [])
        else f"`{value if choices else toml_value(value)}`" + (f" (or {others})" if others else "")
    )


if __name__ == "__main__":
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text("utf-8")
        if filled(text) != text:
            path.write_text(filled(text), "utf-8")
            print(f"docs/{path.name}")
