"""Archives in memory."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping


def tar(files: Mapping[str, str]) -> bytes:
    """A .tar.gz with these texts."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A .zip with these contents."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()
