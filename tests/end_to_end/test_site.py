"""The documentation as a site: it builds without a warning, and its pages load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import linkseek
from tests.support.command import ROOT, python

FOREIGN = re.compile(r"^(?:https?:)?//")
LOADED = re.compile(
    r"<(?:script|img|iframe|source|embed|audio|video|object)\b[^>]*?\b(?:src|srcset|data)=[\"']?([^\"'\s>]+)"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|next|prev)\b)[^>]*?\bhref=[\"']?([^\"'\s>]+)",
    re.IGNORECASE,
)
IN_STYLE = re.compile(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = python("-m", "mkdocs", "build", "--strict", "--site-dir", folder, NO_MKDOCS_2_WARNING="1")
    assert done.returncode == 0, done.stderr
    return folder


def loaded(file: Path) -> list[str]:
    """The addresses that a browser asks for when it shows a page or applies a style sheet."""
    text = file.read_text("utf-8")
    patterns = [LOADED, IN_STYLE] if file.suffix == ".html" else [IN_STYLE]
    return ["".join(match) for pattern in patterns for match in pattern.findall(text)]


def test_the_check_sees_foreign_addresses(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><script src=//cdn.example/a.js></script>'
        '<img alt="x" src="http://img.example/a.png"><style>@import "https://c.example/c.css";'
        "body { background: url(https://d.example/d.png) }</style>"
        '<a href="https://read.example">a link is fine</a><link rel="canonical" href="https://own.example">'
    )
    assert sum(bool(FOREIGN.match(address)) for address in loaded(page)) == 5


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.suffix in {".html", ".css", ".svg"}]
    foreign = {address for file in files for address in loaded(file) if FOREIGN.match(address)}
    assert len(files) >= 30
    assert foreign == set()


def test_every_page_of_docs_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page
    assert (site / "models" / "answers.html").exists()
    assert (site / "contributing.html").exists()
    assert 'data-label="memory"' in (site / "results" / "speed.html").read_text("utf-8")


def test_the_api_is_on_the_site(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text("utf-8")
    methods = [f"Index.{name}" for name in vars(linkseek.Index) if not name.startswith("_")]
    for name in ("build", "open", "train", "Hits.to_run", *methods):
        assert f'id="linkseek.{name}"' in text, name
