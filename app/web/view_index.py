"""The HTML of an index: what it is made of, what was skipped, and which others there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from app.report.text import day
from app.web.described import Description, Listed
from app.web.state import index_address
from app.web.view import safe_text
from indexer.base.text import byte_size


def no_index_html(address: str) -> str:
    """What a page says that needs an index, where there is none."""
    return (
        '<div class="ls-invitation"><h2>There is no index yet</h2><p>'
        f'<a href="{escape(address)}">Build one</a> of the bundled sample with one click, or of your own '
        "files.</p></div>"
    )


# --- the index that is open -----------------------------------------------------------------------


def description_html(of: Description) -> str:
    """Everything that is known of an index."""
    return (
        '<div class="ls-index-page">'
        f"{_counts_html(of)}{_parts_html(of)}{_encoders_html(of)}{_origin_html(of)}{skipped_html(of.skipped)}"
        "</div>"
    )


_COUNTS = {
    "documents": "documents",
    "passages": "passages",
    "links": "links in passages",
    "between_documents": "links between documents",
    "redirects": "redirects",
    "dangling_redirects": "redirects to nothing",
    "dangling": "links to nothing, dropped",
    "cut": "links across passages, dropped",
}


def _counts_html(of: Description) -> str:
    rows = [(label, f"{of.counts[name]:,}") for name, label in _COUNTS.items() if name in of.counts]
    return _section("What is in it", _facts_html(rows, "ls-numbers"))


def _parts_html(of: Description) -> str:
    rows = "".join(
        f'<tr><th scope="row"><bdi>{safe_text(part.name)}</bdi></th>'
        f'<td class="ls-figure">{part.files:,}</td><td class="ls-figure">{byte_size(part.bytes)}</td></tr>'
        for part in of.parts
    )
    total = sum(part.bytes for part in of.parts)
    files = sum(part.files for part in of.parts)
    head = '<th scope="col">part</th><th scope="col" class="ls-figure">files</th>'
    head += '<th scope="col" class="ls-figure">size</th>'
    table = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
        f'<tfoot><tr><th scope="row">together</th><td class="ls-figure">{files:,}</td>'
        f'<td class="ls-figure">{byte_size(total)}</td></tr></tfoot></table>'
    )
    return _section("Parts and sizes", table)


def _encoders_html(of: Description) -> str:
    if not of.encoders:
        return _section(
            "Vectors", '<p class="ls-quiet">It was built without vectors: words alone are searched.</p>'
        )
    tables = []
    for encoder in of.encoders:
        default = ' <span class="ls-kind">default</span>' if encoder.default else ""
        tables.append(f"<h4><bdi>{safe_text(encoder.name)}</bdi>{default}</h4>{_facts_html(encoder.facts)}")
    return _section("Vectors", "".join(tables))


def _origin_html(of: Description) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in of.versions.items())
    rows = [*of.origin, ("versions", versions)]
    return _section("Where it comes from", _facts_html([(name, text) for name, text in rows if text]))


def skipped_html(skipped: Mapping[str, tuple[int, Sequence[str]]]) -> str:
    """What was left out, by reason, with places."""
    if not skipped:
        return _section("Skipped", '<p class="ls-quiet">Nothing was skipped.</p>')
    items = []
    for reason, (count, examples) in skipped.items():
        summary = f"<b>{count:,}</b> {safe_text(reason)}"
        if not examples:
            items.append(f'<p class="ls-skipped">{summary}</p>')
            continue
        places = "".join(f"<li><bdi>{safe_text(example)}</bdi></li>" for example in examples)
        more = count - len(examples)
        rest = f"<li>and {more:,} more</li>" if more > 0 else ""
        items.append(
            f'<details class="ls-skipped"><summary>{summary}</summary><ul>{places}{rest}</ul></details>'
        )
    return _section("Skipped", "".join(items))


def _section(title: str, body: str) -> str:
    return f"<section><h3>{title}</h3>{body}</section>"


def _facts_html(rows: Sequence[tuple[str, str]], kind: str = "") -> str:
    pairs = "".join(
        f"<div><dt>{safe_text(name)}</dt><dd><bdi>{safe_text(value)}</bdi></dd></div>" for name, value in rows
    )
    return f'<dl class="ls-facts {kind}">{pairs}</dl>'


# --- the others -----------------------------------------------------------------------------------


def indexes_html(listed: Sequence[Listed], current: str) -> str:
    """A table of all indexes, each a link."""
    rows = "".join(_listed_html(each, current) for each in listed)
    return (
        '<div class="ls-scroll" role="region" tabindex="0" aria-label="Indexes"><table class="ls-table">'
        '<thead><tr><th scope="col">index</th><th scope="col">corpus</th>'
        '<th scope="col" class="ls-figure">documents</th><th scope="col" class="ls-figure">passages</th>'
        '<th scope="col">vectors</th><th scope="col">built</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _listed_html(each: Listed, current: str) -> str:
    here = ' aria-current="page"' if each.name == current else ""
    name = f'<a href="{escape(index_address(each.name))}"{here}><bdi>{safe_text(each.name)}</bdi></a>'
    if each.problem:
        problem = f"cannot be opened: {safe_text(each.problem)}"
        return f'<tr><th scope="row">{name}</th><td colspan="5">{problem}</td></tr>'
    return (
        f'<tr><th scope="row">{name}</th><td><bdi>{safe_text(each.corpus)}</bdi></td>'
        f'<td class="ls-figure">{each.documents:,}</td><td class="ls-figure">{each.passages:,}</td>'
        f"<td><bdi>{safe_text(', '.join(each.encoders) or 'none')}</bdi></td>"
        f"<td>{safe_text(day(each.created))}</td></tr>"
    )
