"""Names from outside: refused, or a path strictly below the folder; and nothing is made elsewhere.

The examples are the same in every run. A longer search: `make fuzz`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linkseek.app.background.uploads import safe_path, save_files
from linkseek.app.evaluation.records import new_folder
from linkseek.indexer.building.workspace import check_place
from linkseek.indexer.files.sources import FolderSource
from linkseek.indexer.program.errors import DamagedIndexError, InputError, UsageError
from linkseek.indexer.program.paths import MAX_NAME, inside, is_inside, name_problem, path_inside
from linkseek.indexer.store.artifacts import vector_part
from linkseek.indexer.store.manifest_files import read_index_manifest, read_part
from linkseek.indexer.store.manifests import PartManifest
from tests.support.accepted import manifest_bytes
from tests.support.fuzzing import examples

HOSTILE = [
    "", ".", "..", "...", " ", " .", ". ..", ".. ", ".\u200b.", "\u2024\u2024", "\u2025", "\uff0e\uff0e",
    "../x", "..\\x", ". ../. ../x", "a/../../x", "a/. ./x", "/abs", "//host/x", "\\\\host\\x", "a//b", "a/",
    "C:x", "c:\\x", "\u212a:x", "CON", "nul.txt", "Aux .md", "com1", "LPT9.tar.gz", "conin$", "com\u00b9",
    "a.", "~/..", "a ", "a\u3000", "a\0b", "a\nb", "a\u202eb", "a\udcffb", "a\u2028b",
    "x" * 201, "\u6771" * 67,
]  # fmt: skip


HARMLESS = [
    "a", "a.md", ".hidden", "..a", "a..b", "a b", "~", "-rf", "x" * 200, "\u6771\u4eac\uff0f\u5927\u962a.md",
    "e\u0301.md", "console.md", "com10", "Category: C.md", "<img src=x onerror=alert(1)>.png", "$(x).md",
]  # fmt: skip

NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from(HARMLESS),
    st.text(max_size=12),
    st.lists(
        st.sampled_from(["..", ".", " ", "/", "\\", "a", "x.md", "\u2024", "\uff0e", "\0", "C:"]), max_size=8
    ).map("".join),
    st.text(st.sampled_from("./\\ a\u200b\u2024\uff0e\uff0f\u00a0\u202e\udc80:"), max_size=12),
)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# --- the function --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_are_refused(name, tmp_path):
    with pytest.raises(UsageError, match="cannot name a file") as caught:
        inside(tmp_path, name)
    with pytest.raises(UsageError, match="cannot name a file"):
        safe_path(name)
    assert caught.value.hint and str(tmp_path) not in caught.value.message


@pytest.mark.parametrize("name", HARMLESS)
def test_names_that_files_can_have(name, tmp_path):
    path = inside(tmp_path, name, pattern="{}.step.json.linkseek-lock")
    path.write_text("x")
    assert path.parent == tmp_path and not name_problem(name)


@examples(200)
@given(NAMES)
def test_any_name_is_refused_or_leads_to_a_path_strictly_below_its_folder(name: str) -> None:
    folder = Path("/folder/of/names")
    for join in (inside, path_inside):
        try:
            path = join(folder, name)
        except UsageError as error:
            assert error.hint and "cannot name a file" in error.message
        else:
            assert folder in path.parents and ".." not in path.parts
            assert folder in Path(str(path)).resolve().parents
            assert max(len(part.encode()) for part in path.parts) <= MAX_NAME


def test_links_are_followed_before_a_path_is_given(tmp_path):
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    for name, target in {"out": outside, "self": folder, "loop": "loop", "file": outside / "new"}.items():
        (folder / name).symlink_to(target)
        with pytest.raises(UsageError, match="a link that leads out of its folder"):
            inside(folder, name)
    with pytest.raises(UsageError, match="a link"):
        path_inside(folder, "out/new")
    (tmp_path / "alias").symlink_to(folder)
    assert is_inside(tmp_path / "alias", folder / "a") and not is_inside(folder, folder)
    assert not is_inside(folder, tmp_path / "folder2" / "a") and not is_inside(folder, folder / "a\0")


# --- where names are used ------------------------------------------------------------------------


def test_any_name_of_an_upload_is_refused_or_written_below_the_folder(tmp_path: Path) -> None:
    written: list[int] = []

    @examples(120)
    @given(st.lists(NAMES, min_size=1, max_size=3))
    @example(["x" * MAX_NAME, "x" * MAX_NAME])
    def run(names: list[str]) -> None:
        folder = tmp_path / f"{len(written)}" / "a" / "b"
        before = tree(tmp_path)
        try:
            files = save_files(
                [(name, io.BytesIO(name.encode("utf-8", "replace"))) for name in names], folder
            )
        except UsageError:
            assert tree(tmp_path) == before  # not even the harmless ones next to it
            written.append(0)
        except Exception as error:  # a file and a folder of one name
            assert "could not be stored" in str(error)
            written.append(0)
        else:
            assert len(set(files)) == len(names) and all(folder in file.resolve().parents for file in files)
            made = {str(path) for path in tree(tmp_path) - before}
            root = str(folder.relative_to(tmp_path))
            assert all(path == root or path.startswith(f"{root}/") or root.startswith(path) for path in made)
            written.append(len(files))

    run()
    assert sum(written) > 5 and written.count(0) > 5


@examples(100)
@given(st.text(max_size=300) | st.sampled_from(HOSTILE))
def test_any_name_of_an_encoder_becomes_a_part(name: str) -> None:
    folder, _, part = vector_part(name).partition("/")
    assert folder == "dense" and not name_problem(part) and vector_part(part) == vector_part(name)


def index_with(folder: Path, part: str, file: str) -> Path:
    """An index folder with one part of one file, as its manifests say."""
    write_json_in(folder, {"format_version": 1, "parts": [part]})
    write_json_in(
        folder / "documents",
        {"format_version": 1, "fingerprint": {}, "files": {file: {"bytes": 6, "sha256": "x"}}},
    )
    return folder


def write_json_in(folder: Path, value: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_bytes(manifest_bytes(value))


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.isprintable()])
def test_names_in_the_manifests_of_a_strangers_index(name, tmp_path):
    folder = index_with(tmp_path / "i", "documents", name)
    (tmp_path / "i" / "x").write_text("secret")
    with pytest.raises(DamagedIndexError, match='"files" is missing or damaged'):
        read_part(folder / "documents", PartManifest)
    with pytest.raises(DamagedIndexError, match='"parts" is missing or damaged'):
        read_index_manifest(index_with(folder, name, "a"))
    with pytest.raises(DamagedIndexError, match='"parts" is missing or damaged'):
        read_index_manifest(index_with(folder, f"dense/{name}", "a"))


@pytest.mark.parametrize(
    "name", ["{}/thesis.txt", "../thesis.txt", "../../i/thesis.txt", "x/../../thesis.txt"]
)
def test_a_manifest_cannot_make_a_file_of_the_user_a_part_of_the_index(name, tmp_path):
    folder = index_with(tmp_path / "i", "documents", name.format(tmp_path / "i"))
    (folder / "thesis.txt").write_text("years\n")
    with pytest.raises(UsageError, match=r"it contains .*, but would be replaced"):
        check_place(folder)


def test_a_file_that_became_a_link_after_the_listing_is_not_opened(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (folder / "a.md").write_text("a")
    source = FolderSource(folder, 1)
    with source.open("a.md") as stream:
        assert stream.read() == b"a"
    (folder / "a.md").unlink()
    (folder / "a.md").symlink_to("../secret.md")
    for name in ("a.md", "../secret.md", str(tmp_path / "secret.md")):
        with pytest.raises(InputError, match="leads outside the folder"), source.open(name):
            pass


def test_a_new_folder_is_one_that_was_not_there(tmp_path):
    folders = [new_folder(tmp_path / "results", "q-1") for _ in range(3)]
    assert [folder.name for folder in folders] == ["q-1", "q-1-2", "q-1-3"]
    (tmp_path / "results" / "q-2").symlink_to("q-1")
    (tmp_path / "results" / "q-3").write_text("")
    assert new_folder(tmp_path / "results", "q-2").name == "q-2-2"
    assert new_folder(tmp_path / "results", "q-3").name == "q-3-2"
    for number, target in ((4, "nowhere"), (5, tmp_path)):
        (tmp_path / "results" / f"q-{number}").symlink_to(target)
        assert new_folder(tmp_path / "results", f"q-{number}").name == f"q-{number}-2"
    with pytest.raises(UsageError, match="cannot name a file"):
        new_folder(tmp_path, "../x")
