"""Documents as HTML: one template of words per section, and a file of the blocks that they are set in.

A template of words calls blocks as `f.table(...)`, `f.figure(...)`, ... Everything that a template prints is
escaped, unless it is `Markup` that another template or `charts.to_svg` made: foreign text can only be text.
The page makes no request: style and charts are in it, it has no scripts, and a policy forbids both, should
something get through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from linkseek.app.report import text
from linkseek.app.report.charts import DARK, LIGHT, to_svg
from linkseek.indexer.program.text import counted, harmless

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of a document. template: NAME.j2, rendered with `data`; anchor: of links within the page.

    folder: the template's folder, if it is not one of the report's; it may include those.
    """

    anchor: str
    title: str
    template: str
    data: dict[str, Any]
    folder: Path = TEMPLATES


class ReportDocument(NamedTuple):
    """A title, a part before the first section, and the sections."""

    title: str
    opening: ReportSection
    sections: tuple[ReportSection, ...]


def html_page(document: ReportDocument) -> str:
    """The document as a page of HTML."""
    parts = rendered([document.opening, *document.sections])
    schemes = {"light": LIGHT, "dark": DARK, "print": LIGHT}
    colours = {
        scheme: Markup(" ".join(f"--c{i}: {colour};" for i, colour in enumerate(series)))
        for scheme, series in schemes.items()
    }
    style = Markup(TEMPLATES.with_name("report.css").read_text("utf-8"))
    page = environment(TEMPLATES).get_template("page.html.j2")
    return page.render(document=document, parts=parts, style=style, colours=colours) + "\n"


def html_sections(sections: Sequence[ReportSection]) -> Markup:
    """Sections as parts of another page, which brings a style of its own."""
    return Markup("").join(rendered(sections))


def rendered(
    sections: Sequence[ReportSection],
    blocks: str = "html.j2",
    made_by: Callable[[Path], Environment] | None = None,
) -> list[Markup]:
    """Each section. blocks, made_by: the file of blocks and the environment of a folder, of other formats."""
    of = made_by or environment
    module = of(TEMPLATES).get_template(blocks).make_module({"number": count(1).__next__})
    rendered = []
    for section in sections:
        words = of(section.folder).get_template(section.template).render(section.data, f=module)
        if section.title:
            words = module.section(section.anchor, section.title, Markup(words))  # type: ignore[attr-defined]
        rendered.append(Markup(words))
    return rendered


def _html_name(name: str) -> Markup:
    """A name that may be broken into lines after its punctuation."""
    return Markup(re.sub(r"[_./@+]", r"\g<0><wbr>", str(Markup.escape(text.clean(name)))))


def _html_code(command: str) -> Markup:
    """A command whose options are not broken after their hyphens."""
    words = str(Markup.escape(text.clean(command)))
    return Markup(re.sub(r"(?<!\S)-\S{1,30}(?!\S)", r'<span class="whole">\g<0></span>', words))


def _finalized(value: Any) -> Any:
    return value if isinstance(value, Markup) else harmless(str(value))


def escaping(*folders: Path) -> Environment:
    """What templates of folders are rendered by: what they print is escaped, without deceiving characters."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def environment(folder: Path) -> Environment:
    """What templates of a folder, or of the report, are rendered by."""
    environment = escaping(folder, TEMPLATES)
    environment.globals |= {"text": text, "counted": counted, "to_svg": to_svg}
    environment.filters |= {
        "clean": text.clean,
        "data": lambda value: Markup("<bdi>{}</bdi>").format(text.clean(value)),
        "code": _html_code,
        "line": lambda value: Markup(" ".join(value.split())),
        "name": _html_name,
        "number": "{:,}".format,
        "svg": Markup,
    }
    return environment
