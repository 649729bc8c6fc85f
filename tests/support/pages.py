"""Pages of the application, run without a browser."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from linkseek.app import main

PAGE = str(Path(main.__file__))

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
"""Streamlit reads the metadata of all installed packages, once for each page that is run."""


def new_page(name, /, **address):
    """A page with an address, before its first run."""
    test = AppTest.from_file(PAGE, default_timeout=60)
    test._page_hash = calc_hash(name)
    for key, value in address.items():
        test.query_params[key] = value
    return test


def run(test):
    test.run()
    assert not test.exception
    return test


def parts(test):
    """The HTML of a page, in its parts."""
    return [html.proto.body for html in test.get("html")]


def bodies(test):
    return "".join(parts(test))


def notices(test):
    return [part for part in parts(test) if part.startswith('<div class="ls-notice"')]


def address(test):
    return {name: [value] if isinstance(value, str) else value for name, value in test.query_params.items()}


def button(test, label):
    return next(each for each in test.button if each.label == label)


def labels(test):
    return [each.label for each in test.button]
