"""Folders that an index or a file of pipelines names as models: looked at before they are searched."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.open_models import Models
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import read_json
from linkseek.retriever.models.locations import find_base
from tests.support.accepted import alter
from tests.support.tiny.training import save_static


@pytest.mark.parametrize("link", ["nothing", "dead.safetensors"])
def test_a_link_to_nothing_in_a_models_folder_is_no_obstacle(tmp_path, link):
    model = save_static(tmp_path / "model")
    (model / link).symlink_to("nowhere")
    models = Models()
    encoder = models.encoder(str(model))
    assert models.encoder(str(model)) is encoder
    os.utime(model / "modules.json", (2e9, 2e9))
    assert models.encoder(str(model)) is not encoder  # it was written again


@pytest.mark.parametrize("in_index", [True, False])
def test_a_folder_that_holds_no_model_is_not_walked(own_index, tmp_path, monkeypatch, in_index):
    """A stranger's index may name any folder as its encoder, and a file of pipelines any as a re-ranker."""
    folder = tmp_path / "usr"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "dead").symlink_to("nowhere")
    monkeypatch.setattr(Path, "rglob", None)
    monkeypatch.setattr(os, "walk", None)
    if in_index:
        part = own_index / "dense" / "words" / "manifest.json"
        alter(part, encoder=read_json(part)["encoder"] | {"location": str(folder)})
        name, file = "dense", None
    else:
        name, file = "x", tmp_path / "p.toml"
        file.write_text(f'[x]\nrerank = "{folder}"\nof = "bm25"\n')
    with pytest.raises(InputError, match=re.escape(str(folder))) as caught:
        Pipelines(OpenIndex.open(own_index), file).open(name)
    assert "No such file" not in caught.value.message


def test_a_folder_of_too_many_files_is_no_model(tmp_path, monkeypatch):
    model = save_static(tmp_path / "model")
    monkeypatch.setattr("linkseek.retriever.models.checks.only_data.MAX_ENTRIES", 3)
    with pytest.raises(InputError, match="more than 3 files, too many for a model"):
        Models().encoder(str(model))


def test_a_base_that_is_no_model_is_not_walked(tmp_path, monkeypatch):
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    monkeypatch.setattr(Path, "rglob", None)
    monkeypatch.setattr(os, "walk", None)
    with pytest.raises(InputError, match="not the folder of a model"):
        find_base(str(tmp_path / "usr"))
