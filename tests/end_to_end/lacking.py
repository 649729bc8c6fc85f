"""python lacking.py MODULES NAMES CODE: run code in which Linkseek lacks modules and names of the system.

MODULES: comma-separated; an import of one by a module of Linkseek fails, other libraries have them.
NAMES: such as os.pread, removed once the large libraries are imported, which use them themselves.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import sys
from typing import Any

modules, names, code = (sys.argv[1].split(","), sys.argv[2].split(","), sys.argv[3])

_import = builtins.__import__


def import_others(name: str, space: Any = None, *rest: Any, **more: Any) -> Any:
    """`import`, which refuses the modules to Linkseek."""
    of_ours = str((space or {}).get("__name__", "")).startswith(("linkseek", "benchmarks", "experiments"))
    if of_ours and name.partition(".")[0] in modules:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, space, *rest, **more)


class NoProgram(ctypes.CDLL):
    """A library by its name; on Windows there is none without."""

    def __init__(self, name: Any, *rest: Any, **more: Any) -> None:
        if name is None:
            raise TypeError("no library is named")
        super().__init__(name, *rest, **more)


if names != [""]:
    for library in "sentence_transformers peft faiss pyarrow openvino streamlit psutil filelock".split():
        importlib.import_module(library)
    for name in names:
        module, _, attribute = name.partition(".")
        delattr(importlib.import_module(module), attribute)
    ctypes.CDLL = NoProgram  # type: ignore[misc]
builtins.__import__ = import_others
exec(code)
