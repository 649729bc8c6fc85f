"""python docs/tables.py: fill the generated parts of docs/ from the code that they describe.

A generated part stands between `<!-- generated from MODULE.NAME -->` and `<!-- end of generated part -->`.
NAME is a model of settings, whose tables are written with the docstrings of their fields, a tuple of such
models of one table each, or a function that returns Markdown. Several models `MODULE.NAMEConfig`, between
spaces, share tables in which a row says which of the commands NAME has it.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

import experiments  # noqa: F401 - whose formats are in a table
from linkseek.indexer.program.options import MoreHelp
from linkseek.indexer.program.settings import Settings, is_table, table_in, toml_value

DOCS = Path(__file__).parent
PART = re.compile(r"(<!-- generated from ([\w. ]+) -->\n).*?(<!-- end of generated part -->)", re.DOTALL)


def filled(page: str) -> str:
    """A page with its generated parts as the code has them now."""
    return PART.sub(lambda match: f"{match[1]}\n{generated(match[2])}\n\n{match[3]}", page)


def generated(names: str) -> str:
    """The text of one part, by the dotted names of its sources."""
    sources = [_named(name) for name in names.split()]
    if len(sources) > 1:
        return shared_settings_markdown(sources)
    [source] = sources
    if isinstance(source, type) and issubclass(source, Settings):
        return settings_markdown(source)
    if isinstance(source, tuple):
        return "\n\n".join(f"{model.__doc__}\n\n{rows(model)}" for model in source)
    return str(source()).strip()


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def settings_markdown(model: type[Settings]) -> str:
    """A table of Markdown for each table of a model, or a single one if it has none."""
    tables = _tables(model)
    if not tables:
        return rows(model)
    return "\n\n".join(f"`{head}` {table.__doc__}\n\n{rows(table)}" for head, table in tables.items())


def _tables(model: type[Settings]) -> dict[str, type[Settings]]:
    """The tables of a model by their heads, such as `[data]` or `[[stages]]`."""
    tables = {name: (field, table_in(field.annotation)) for name, field in model.model_fields.items()}
    return {
        f"[{name}]" if is_table(field.annotation) else f"[[{name}]]": table
        for name, (field, table) in tables.items()
        if table
    }


def shared_settings_markdown(models: list[type[Settings]]) -> str:
    """The tables of several models, each once: a row for each meaning or default of a setting."""
    parts = []
    every = {_word(model): _tables(model) for model in models}
    for head in dict.fromkeys(head for tables in every.values() for head in tables):
        having = {word: tables[head] for word, tables in every.items() if head in tables}
        titles = " ".join(dict.fromkeys(str(table.__doc__) for table in having.values()))
        commands = "" if len(having) == len(models) else f" ({', '.join(f'`{word}`' for word in having)})"
        parts.append(f"`{head}`{commands} {titles}\n\n{_shared_rows(having)}")
    return "\n\n".join(parts)


def _shared_rows(having: dict[str, type[Settings]]) -> str:
    """The rows of a table that the commands `having` have, each with its version of it."""
    if len(having) == 1:
        return rows(*having.values())
    settings: dict[str, dict[str, list[str]]] = {}  # the commands of each default and meaning
    for word, table in having.items():
        for name, field in table.model_fields.items():
            text = f"{default(field)} | {meaning(field)}"
            settings.setdefault(field.alias or name, {}).setdefault(text, []).append(word)
    lines = ["| command | setting | default | meaning |", "|---|---|---|---|"]
    for name, texts in settings.items():
        for text, words in texts.items():
            commands = "" if words == list(having) else ", ".join(f"`{word}`" for word in words)
            lines.append(f"| {commands} | `{name}` | {text} |")
    return "\n".join(lines)


def _word(model: type[Settings]) -> str:
    return model.__name__.removesuffix("Config").lower()


def rows(model: type[Settings]) -> str:
    """The settings of one table: name, default, meaning."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{field.alias or name}` | {default(field)} | {meaning(field)} |")
    return "\n".join(lines)


def meaning(field: FieldInfo) -> str:
    """The docstring of a setting on one line, with its choices."""
    more = "".join(f": {extra.text()}" for extra in field.metadata if isinstance(extra, MoreHelp))
    return " ".join(f"{field.description or ''}{more}".split()).replace("|", "\\|")


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
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text("utf-8")
        if filled(text) != text:
            path.write_text(filled(text), "utf-8")
            print(f"docs/{path.relative_to(DOCS)}")
