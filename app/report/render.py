"""Documents as HTML and as Markdown: one template of words per section, one file of blocks per format.

A template of words calls the blocks of its format as `f.table(...)`, `f.figure(...)`, ... Everything that a
template prints is escaped for the format, unless it is `Markup` that another template or `charts.to_svg`
made: foreign text can only be text. The HTML page makes no request: style and charts are in it, it has no
scripts, and a policy forbids both, should something get through. Markdown is GitHub's: charts are their
tables, nothing is folded, and a text that runs from right to left stands between isolating characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from linkseek.app.report import text
from linkseek.app.report.charts import DARK, LIGHT, to_svg
from linkseek.indexer.program.text import counted, harmless

Format = Literal["html", "md"]

_FOLDER = Path(__file__).parent
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$&#!])")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_LIST = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_PLAIN_NAME = re.compile(r"[\w.:/@=+-]+", re.ASCII)  # others would break a table, or its direction
_ISOLATE, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a document. template: NAME.j2, rendered with `data`; anchor: of links within the page.

    folder: of the template, if it is not one of the report's; it may include those.
    """

    anchor: str
    title: str
    template: str
    data: dict[str, Any]
    folder: Path = _FOLDER / "templates"


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """A title, a part before the first section, and the sections."""

    title: str
    opening: ReportSection
    sections: tuple[ReportSection, ...]


def html_page(document: ReportDocument) -> str:
    """The document as a page of HTML."""
    parts = _rendered("html", [document.opening, *document.sections])
    schemes = {"light": LIGHT, "dark": DARK, "print": LIGHT}
    colours = {
        scheme: Markup(" ".join(f"--c{i}: {colour};" for i, colour in enumerate(series)))
        for scheme, series in schemes.items()
    }
    style = Markup((_FOLDER / "report.css").read_text("utf-8"))
    page = _environment("html").get_template("page.html.j2")
    return page.render(document=document, parts=parts, style=style, colours=colours) + "\n"


def html_sections(sections: Sequence[ReportSection]) -> Markup:
    """Sections as parts of another page, which brings a style of its own."""
    return Markup("").join(_rendered("html", sections))


def markdown_page(document: ReportDocument) -> str:
    """The document as Markdown."""
    blocks = [f"# {escape(document.title)}", *_rendered("md", [document.opening, *document.sections])]
    lines = [line.rstrip() for line in "\n\n".join(blocks).split("\n")]
    page = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    return re.sub(r"(?m)^( *- .*)\n\n(?= *- )", r"\1\n", page)  # items of a list without lines between them


def _rendered(format: Format, sections: Sequence[ReportSection]) -> list[Markup]:
    environment = _environment(format)
    blocks = environment.get_template(f"{format}.j2").make_module({"number": count(1).__next__})
    rendered = []
    for section in sections:
        template = _environment(format, section.folder).get_template(section.template)
        words = template.render(section.data, f=blocks)
        if section.title:
            words = blocks.section(section.anchor, section.title, Markup(words))  # type: ignore[attr-defined]
        rendered.append(Markup(words))
    return rendered


def escape(text_: str) -> str:
    """A foreign text as one line of Markdown that shows it and is nothing else."""
    line = _inline(text_)
    return _LIST.sub(lambda match: f"\\{match[1]}" if match[1] in "-+=" else f"{match[1]}\\", line)


def _inline(text_: str) -> str:
    """The same of a text that does not begin a line."""
    line = _SPECIAL.sub(r"\\\1", text.clean(text_))
    line = _LINK.sub(r"\\", line)  # else it becomes a link without being written as one
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in line):
        return f"{_ISOLATE}{line}{_POP}"
    return line


def _markdown_code(text_: str) -> Markup:
    """A text between more backticks than it has in a row."""
    line = text.clean(text_)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return Markup(f"{fence}{pad}{line}{pad}{fence}" if line else "")


def _markdown_name(name: str) -> Markup:
    return _markdown_code(name) if _PLAIN_NAME.fullmatch(name) else Markup(escape(name))


def _html_data(value: str) -> Markup:
    return Markup("<bdi>{}</bdi>").format(text.clean(value))


def _html_name(name: str) -> Markup:
    """A name that may be broken into lines after its punctuation."""
    return Markup(re.sub(r"[_./@+]", r"\g<0><wbr>", str(Markup.escape(text.clean(name)))))


def _html_code(command: str) -> Markup:
    """A command whose options are not broken after their hyphens."""
    words = str(Markup.escape(text.clean(command)))
    return Markup(re.sub(r"(?<!\S)-\S{1,30}(?!\S)", r'<span class="whole">\g<0></span>', words))


@cache
def _environment(format: Format, folder: Path = _FOLDER / "templates") -> Environment:
    escaped: Callable[[str], str] = harmless if format == "html" else lambda value: Markup(_inline(value))

    def finalize(value: Any) -> Any:
        return value if isinstance(value, Markup) else escaped(str(value))

    environment = Environment(
        loader=FileSystemLoader([folder, _FOLDER / "templates"]),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"text": text, "counted": counted, "to_svg": to_svg}
    environment.filters |= {
        "clean": text.clean,
        "data": _html_data if format == "html" else lambda value: value,
        "code": _html_code if format == "html" else _markdown_code,
        "line": lambda value: Markup(" ".join(value.split())),
        "name": _html_name if format == "html" else _markdown_name,
        "number": "{:,}".format,
        "svg": Markup,
    }
    return environment
