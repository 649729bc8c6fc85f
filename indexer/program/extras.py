"""Packages: which versions are installed, and which extra of pyproject.toml has one that is not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = {"vl_convert": "vl-convert-python", "faiss": "faiss-cpu"}
"""The name to import -> the package that has it, unless they differ by hyphens alone."""

_version = cache(version)  # each reads a file

_CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"  # links of `linkseek/` followed


def install_hint(module: str) -> str:
    """How to install a package that cannot be imported.

    In a checkout by its extra; elsewhere by the names of the packages, since Linkseek is in no index of
    packages that a command could name.
    """
    name = module.partition(".")[0]
    package = re.compile(rf"{_PACKAGES.get(name, name.replace('_', '-'))}(?![\w-])")
    for extra, packages in _optional().items():
        if any(map(package.match, packages)):
            if _CHECKOUT.is_file():
                return f"In {_CHECKOUT.parent}: pip install -e '.[{extra}]'"
            return " ".join(["pip install", *(f"'{each}'" for each in packages)])
    return "Install Linkseek again."


def _optional() -> dict[str, list[str]]:
    """The packages of each extra."""
    if _CHECKOUT.is_file():
        project = tomllib.loads(_CHECKOUT.read_text("utf-8"))["project"]
        return dict(project["optional-dependencies"])
    found: dict[str, list[str]] = {}
    with suppress(PackageNotFoundError):
        for line in metadata.requires("linkseek") or []:
            requirement, _, marker = line.partition(";")
            if extra := re.search(r"extra == ['\"](.+?)['\"]", marker):
                found.setdefault(extra[1], []).append(requirement.strip())
    return found


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The version of each of these packages that is installed, by name."""
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = _version(package)
    return versions
