"""From a model's name to a folder whose files are known, without a network."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models import locations as models
from linkseek.retriever.models.folders import model_sha256
from linkseek.retriever.models.locations import find_model


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The files that a model's folder must have, without a model."""
    folder = tmp_path / "small"
    (folder / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "1_Pooling/config.json", "tokenizer.json", "README.md"):
        (folder / name).write_text(json.dumps({"of": name}))
    (folder / "modules.json").write_text("[]")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_default_encoder_is_found_by_both_its_names_and_its_files_are_the_pinned_ones():
    folder = find_model(DEFAULT_ENCODER)
    assert find_model("sentence-transformers/all-MiniLM-L6-v2") == folder
    assert all((folder / name).is_file() for name in models._PINNED)


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "1_Pooling/config.json"],
)
@pytest.mark.parametrize("how", ["flip", "missing"])
def test_an_altered_default_encoder_is_refused(tmp_path, monkeypatch, name, how):
    folder, known = tmp_path / "model", find_model(DEFAULT_ENCODER)
    for file in models._PINNED:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).symlink_to(known / file)
    content = bytearray((folder / name).read_bytes())
    (folder / name).unlink()
    if how == "flip":
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
    monkeypatch.setattr(models, "_from_cache", lambda repository: None)
    monkeypatch.setattr(models, "_from_package", lambda: folder)
    with pytest.raises(InputError, match="is missing or not the known file") as caught:
        find_model(DEFAULT_ENCODER)
    assert str(folder / name) in caught.value.message
    assert models._PINNED[name] in caught.value.hint


def test_a_default_encoder_with_a_file_more_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(find_model(DEFAULT_ENCODER), folder, copy_function=os.symlink)
    monkeypatch.setattr(models, "_from_package", lambda: folder)
    for name in ("train_script.py", "pytorch_model.bin", "onnx/model.onnx", "openvino/openvino_model.xml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()  # as the Hub has them
    assert find_model(DEFAULT_ENCODER) == folder
    (folder / "added_tokens.json").write_text('{"hello": 5}')
    with pytest.raises(InputError, match=r"added_tokens\.json is missing or not the known file"):
        find_model(DEFAULT_ENCODER)


def test_without_cache_package_and_network_the_default_encoder_is_named(monkeypatch):
    monkeypatch.setattr(models, "_from_cache", lambda repository: None)
    monkeypatch.setattr(models, "_from_package", lambda: None)
    with pytest.raises(InputError, match="cannot be reached") as caught:
        find_model(DEFAULT_ENCODER)
    assert "HF_HUB_OFFLINE is set" in caught.value.message


def test_a_folder_is_a_model_by_path(small, monkeypatch):
    assert find_model(str(small)) == small
    monkeypatch.chdir(small.parent)
    assert find_model("small").samefile(small)
    assert find_model("./small").samefile(small)


def test_a_folder_without_modules_or_safe_weights_is_refused(small):
    (small / "model.safetensors").rename(small / "pytorch_model.bin")
    with pytest.raises(InputError, match="no safetensors weights") as caught:
        find_model(str(small))
    assert "can run code" in caught.value.hint
    (small / "modules.json").unlink()
    with pytest.raises(InputError, match="not a sentence-transformers model") as caught:
        find_model(str(small))
    assert "save_pretrained" in caught.value.hint


def test_an_empty_name_is_no_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is not a sentence-transformers model"):
        find_model("")


@pytest.mark.parametrize("name", ["./none", "/none", "~/none", "../none", "a/b/c"])
def test_a_path_to_nothing_is_never_looked_up_on_the_hub(name, monkeypatch):
    monkeypatch.setattr(models, "_from_hub", lambda repository: pytest.fail("looked up"))
    with pytest.raises(InputError, match="no such folder"):
        find_model(name)


@pytest.mark.parametrize("name", ["no-such-encoder", "nobody/no-such-encoder", "a b", "ü", "a" * 200])
def test_an_unknown_name_says_that_the_hub_does_not_give_it(name):
    with pytest.raises(InputError, match=r"cannot be reached|not a name of a model") as caught:
        find_model(name)
    assert DEFAULT_ENCODER in caught.value.hint


# --- the hash ------------------------------------------------------------------------------------


def test_a_copy_has_the_same_hash_and_what_decides_nothing_does_not_count(small, tmp_path):
    copy = Path(shutil.copytree(small, tmp_path / "elsewhere"))
    (copy / "README.md").write_text("other")
    (copy / ".cache").mkdir()
    (copy / ".cache" / "notes.txt").touch()
    for name in ("LICENSE", ".gitattributes", "log.jsonl", "picture.png", "events.out.tfevents.1.host"):
        (copy / name).touch()
    assert model_sha256(copy) == model_sha256(small)


@pytest.mark.parametrize(
    "name", ["config.json", "1_Pooling/config.json", "vocab.txt", "2_Dense/model.safetensors", "unheard.of"]
)
def test_every_file_counts_that_may_decide_vectors(small, name):
    (small / name).parent.mkdir(exist_ok=True)
    hashes = [model_sha256(small)]
    for content in (b"a", b"b"):
        (small / name).write_bytes(content)
        hashes.append(model_sha256(small))
    assert len({*hashes}) == 3


def test_a_file_that_moves_to_another_module_counts(small):
    before = model_sha256(small)
    (small / "1_Pooling").rename(small / "2_Pooling")
    assert model_sha256(small) != before


# --- bases of adapters ---------------------------------------------------------------------------


def adapters(folder: Path, base: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    return folder


def test_the_base_of_adapters_counts(small, tmp_path):
    folder = adapters(tmp_path / "adapters", str(small))
    before = model_sha256(folder)
    (small / "vocab.txt").write_text("other")
    assert model_sha256(folder) != before


def test_adapters_that_are_their_own_base(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    with pytest.raises(InputError, match="needs them itself"):
        model_sha256(adapters(one, str(one)))
    adapters(two, str(one))
    with pytest.raises(InputError, match="needs them itself"):
        model_sha256(adapters(one, str(two)))


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("someone/evil", "base of its adapters, someone/evil, is not on this machine"),
        ("/no/such/folder", "no such folder"),
        (5, "is missing"),
        ("a\0b", "not on this machine"),
    ],
)
def test_a_base_that_a_file_names_is_not_downloaded(tmp_path, monkeypatch, base, message):
    monkeypatch.setattr(models, "_from_hub", lambda *_: pytest.fail("asked the Hub"))
    with pytest.raises(InputError, match=message):
        model_sha256(adapters(tmp_path / "adapters", base))
