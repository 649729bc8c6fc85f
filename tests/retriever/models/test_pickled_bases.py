"""Bases that have only pickled weights: opened as if they were safetensors, and nothing in them is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models.bases import open_start
from linkseek.retriever.models import locations
from linkseek.retriever.models.bases import open_base
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.locations import find_base
from tests.support.tiny_models import save_tiny_reranker


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare transformer whose weights are in pytorch_model.bin, two of them the same; and its twin."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = save_tiny_reranker(tmp_path / "base", labels=3)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(tmp_path / "twin.safetensors")
    first = next(iter(weights))
    torch.save({**weights, "tied.weight": weights[first]}, folder / "pytorch_model.bin")
    return folder


def test_weights_are_those_of_the_pickle_for_both_kinds_of_models(base, tmp_path):
    opened = open_base(str(base))[0].model.state_dict()
    twin = {
        name.partition(".")[2]: weight for name, weight in load_file(tmp_path / "twin.safetensors").items()
    }
    assert sum(twin[name].equal(weight) for name, weight in opened.items() if name in twin) > 10
    assert all(twin[name].equal(weight) for name, weight in opened.items() if name in twin)
    assert open_start(str(base), 32).tokenizer.vocab_size > 0
    assert not list(base.glob("*.safetensors"))  # the user's folder stays as it was


def test_the_copy_is_made_once_and_again_when_the_folder_changes(base, tmp_path):
    copy = find_base(str(base))
    before = (copy / "model.safetensors").stat().st_mtime_ns
    assert find_base(str(base)) == copy and (copy / "model.safetensors").stat().st_mtime_ns == before
    assert copy.is_relative_to(tmp_path / "cache") and not list(copy.rglob("*.bin"))
    config = base / "config.json"
    config.write_text(config.read_text().replace("{", '{"note": 1,', 1))
    assert model_sha256(find_base(str(base))) != model_sha256(copy)


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_a_pickle_that_would_run_code_is_refused(base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Hostile()}, base / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: not read, because it holds \w+\.system"):
        open_base(str(base))
    assert not Path("hacked").exists() and not list((tmp_path / "cache").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("held", "message"),
    [([1, 2], "no weights by name"), ({"a": "text"}, '"a" is not a tensor'), ({}, "no weights by name")],
)
def test_other_contents_are_named(base, held, message):
    torch.save(held, base / "pytorch_model.bin")
    with pytest.raises(InputError, match=message):
        find_base(str(base))


def test_a_damaged_file_is_named(base):
    (base / "pytorch_model.bin").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(InputError, match="not a torch file, or damaged"):
        find_base(str(base))


def test_of_the_hub_pickled_weights_are_downloaded_where_there_are_no_others(base, monkeypatch):
    kept = (base / "pytorch_model.bin").rename(base.parent / "on the hub")
    downloaded = []

    def download(name: str, file: str) -> None:
        downloaded.append((name, file))
        kept.rename(base / file)

    def find(name: str) -> Path:
        raise InputError("no sentence-transformers folder", "")

    monkeypatch.setattr(locations, "find_model", find)
    monkeypatch.setattr(locations, "_cached_transformer", lambda name: base)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert (find_base("someone/linkbert") / "model.safetensors").is_file()
    assert downloaded == [("someone/linkbert", "pytorch_model.bin")]
