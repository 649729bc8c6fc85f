"""The cache of conversions: what is listed, and what is removed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.commands.cache import main, read_cache
from linkseek.retriever.models.backends.conversions import converted
from linkseek.retriever.models.backends.openvino_engine import conversion_version
from linkseek.retriever.models.backends.static_engine import VERSION

OURS = {
    f"0a1b-CrossEncoder-{conversion_version()}": "in use",
    f"0a1b-SentenceTransformer-{VERSION}": "in use",
    "0a1b-SentenceTransformer-0-static": "of another version",
    "0a1b-SentenceTransformer-1-openvino-2020.1.0": "of another version",
    "safetensors-0123456789abcdef": "in use",
    "tmpabcd1234": "left over",
}
OTHERS = ["notes", "thesis-openvino-2020", "tmpabcd12345678", "tmpfresh_ab"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "linkseek"
    for name in (*OURS, *OTHERS):
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "inner" / "model.bin").write_bytes(b"x" * 1000)
    os.utime(folder / "tmpabcd1234", (0, 0))
    (folder / "a-file").write_text("of the user")
    (folder / "0a1b-CrossEncoder-1-openvino-2020.2.0").symlink_to(tmp_path)
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_ours_is_listed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(cache)
    main([])
    *lines, total = capsys.readouterr().out.splitlines()
    found = {line.split()[-1]: " ".join(line.split()[2:-1]) for line in lines}
    old = found.pop("tmpabcd1234")
    assert old.startswith("left over ") and old.endswith(" days ago")
    assert found == {name: f"{kind} today" for name, kind in OURS.items() if name in found}
    assert len(found) == len(OURS) - 1
    assert total.startswith("6 models, 6") and names(cache) == before


def test_only_what_is_never_read_again_is_removed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(cache)
    main(["--clean"])
    assert before - names(cache) == {name for name, kind in OURS.items() if kind != "in use"}
    main(["--clean", "--all"])
    assert before - names(cache) == set(OURS)
    assert "3 models" in capsys.readouterr().out


def test_what_was_not_opened_for_some_days_is_removed(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (name for name, kind in OURS.items() if kind == "in use" and "-" + VERSION not in name)
    three_days_ago = time.time() - 3 * 86_400 - 60
    for name in (old, new):
        os.utime(cache / name, (three_days_ago, three_days_ago))
    assert converted(new, lambda folder: folder.name, str, lambda model, folder: None) == new
    with pytest.raises(UsageError, match="--unused is for --clean"):
        main(["--unused", "3"])
    main(["--clean", "--unused", "4"])
    assert {old, new} < names(cache)
    main(["--clean", "--unused", "3"])
    assert "3 days ago" in capsys.readouterr().out
    assert new in names(cache) and old not in names(cache)


def test_a_folder_is_removed_whole_or_under_a_name_that_is_never_read(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*arguments: object) -> None:
        raise KeyboardInterrupt

    before = names(cache)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", kill)
        with pytest.raises(KeyboardInterrupt):
            main(["--clean"])
    [gone], [left] = before - names(cache), names(cache) - before
    assert gone in OURS and left.startswith("removed-")
    main(["--clean"])
    assert before - names(cache) == {name for name, kind in OURS.items() if kind != "in use"}
    assert names(cache) < before


def test_another_process_may_remove_the_same(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = list(read_cache(cache))
    main(["--clean", "--all"])
    monkeypatch.setattr("linkseek.retriever.commands.cache.read_cache", lambda folder: listed)
    main(["--clean", "--all"])
    assert names(cache) >= set(OTHERS)


def test_no_cache_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    main(["--clean"])
    assert "0 models" in capsys.readouterr().out
    with pytest.raises(UsageError):
        main(["--all"])
