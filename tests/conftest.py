"""What tests of several packages share."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:  # before torch and FAISS ask: threads that wait for a core spin
    _cores = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(_cores, 1)))

from filelock import FileLock
from hypothesis import settings

import experiments  # noqa: F401 - its formats and re-rankers pass the tests of all
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan, Built
from linkseek.indexer.program.bundled import bundled
from tests.near import near
from tests.slowness import Limited, Measured, is_slow, longest_first, unit_of
from tests.support.command import run
from tests.support.ray_cluster import RayCluster, uses_ray
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import TINY

settings.load_profile("ci")  # the same examples at every run; --hypothesis-profile default draws others

SHARED_DATA = Path(__file__).parents[1].parent / "shared" / "data"

MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one."""

ROOM = 6 << 30
"""Bytes that have to be free there, and as many in memory beside them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make slow-tests` and `make check`."""
    parser.addoption("--write-slow-tests", action="store_true", help="measure which tests are slow")
    parser.addoption("--maximum", type=float, help="seconds of processor time that a test may take")
    parser.addoption("--near", type=Path, help="only tests whose imports reach this file")


def pytest_configure(config: pytest.Config) -> None:
    """Let several processes write their files in memory: thousands of small ones are written and removed.

    The files of tests that run in one process stay, as pytest keeps them.
    """
    if config.getoption("write_slow_tests") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Measured())
    if maximum := config.getoption("maximum"):
        config.pluginmanager.register(Limited(maximum))
    if not getattr(config.option, "numprocesses", None) or not MEMORY.is_dir():
        return
    for folder in MEMORY.glob("linkseek-[0-9]*"):  # of processes that were ended
        if not psutil.pid_exists(int(folder.name.rpartition("-")[2])):
            shutil.rmtree(folder, ignore_errors=True)
    if min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) < 2 * ROOM:
        return
    folder = MEMORY / f"linkseek-{os.getpid()}"
    folder.mkdir()
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --near, skip the files of tests that do not reach that file."""
    file = config.getoption("near")
    return True if file and collection_path.is_file() and collection_path not in near(file) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, which `make check` leaves to `make test`; the longest files come first."""
    longest_first(items)
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect garbage once when all tests are imported, and never go through what is left of them again.

    Python would go through millions of objects again and again, and each training does so at its end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real corpora and test sets; skips where they are not."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real data is not here: {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def sample_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index that `indexer/build.py` makes of the sample, once for all processes of the suite.

    Tests that change it copy it.
    """
    return built_once(tmp_path_factory, "sample", "--corpus", bundled("samples/linkseek-sample.xml.bz2"))


@pytest.fixture(scope="session")
def wikispeedia_index(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """Wikipedia for Schools with all passages and BM25, once for all processes of the suite."""
    corpus = shared_data / "wikispeedia" / "docs.jsonl.zst"
    return built_once(tmp_path_factory, "wikispeedia", "--corpus", corpus, "--min-words", 0, "--no-dense")


def built_once(tmp_path_factory: pytest.TempPathFactory, name: str, *options: object) -> Path:
    """An index in the folder that all processes of the suite share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / f"{name}.lock"):
        if not (folder / name).exists():
            done = run("indexer/build.py", "--index", folder / name, *options)
            assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A tiny linked corpus: 40 documents, some without text, some links to nothing."""
    return write_jsonl(tmp_path / "corpus.jsonl", linked_rows())


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    """Where `build` puts its index."""
    return tmp_path / "index"


@pytest.fixture
def build(index_path: Path, corpus: Path) -> Callable[..., Built]:
    """Build `index_path` from the tiny corpus with the fake encoder, without Lucene.

    Keywords are those of `BuildPlan`; `open_encoder` replaces the fake encoder.
    """

    def build(**options: Any) -> Built:
        open_encoder = options.pop("open_encoder", lambda name, title: FakeEncoder(name, title=title))
        plan = TINY | {"corpus": corpus, "processes": 1, "language": "en"} | options
        return build_index(index_path, BuildPlan(**plan), open_encoder)

    return build


_CLUSTER = RayCluster()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> str:
    """The address of a Ray cluster of two nodes."""
    assert uses_ray(request.path), "add this file to ON_RAY (tests/slowness.py)"
    return _CLUSTER.address()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    _CLUSTER.end_before(nextitem)
    if nextitem and nextitem.path != item.path:
        gc.freeze()  # what the file has imported, which each collection of garbage would go through


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile, files that share a cluster go to the same process."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = unit_of
    return scheduler


@pytest.fixture(scope="session")
def training_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data for every training, see `write_data`."""
    from tests.support.tiny.runs import write_data

    return write_data(tmp_path_factory.mktemp("trainings"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Matrices of tiny models are multiplied before a second thread has woken up."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
