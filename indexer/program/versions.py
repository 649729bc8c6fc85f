"""The versions of installed packages, for records of how something was made."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """The version of each of these packages that is installed, by name."""
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
