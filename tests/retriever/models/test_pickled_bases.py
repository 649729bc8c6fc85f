"""Bases that have only pickled weights are refused, and the error says how to save them."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from linkseek.indexer.program.errors import InputError
from linkseek.reranker.models.bases import open_start
from linkseek.retriever.models import locations
from linkseek.retriever.models.bases import open_base
from linkseek.retriever.models.locations import find_base
from tests.support.tiny.training import save_bert


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A bare transformer whose weights are in pytorch_model.bin, which no test unpickles."""
    folder = save_bert(tmp_path / "base")
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"")
    return folder


def test_a_folder_is_refused_until_it_is_saved_as_the_error_says(base, tmp_path):
    for open_it in (lambda: open_base(str(base)), lambda: open_start(str(base), 32)):
        with pytest.raises(InputError, match="contains no safetensors weights") as caught:
            open_it()
    (tmp_path / "model.safetensors").rename(base / "model.safetensors")
    assert "AutoModel.from_pretrained(NAME).save_pretrained(FOLDER), and AutoTokenizer" in caught.value.hint
    for kind in (AutoModel, AutoTokenizer):
        kind.from_pretrained(base).save_pretrained(tmp_path / "again")
    assert open_base(str(tmp_path / "again"))[0].model.num_parameters() > 0


def test_so_is_a_model_of_the_hub_that_has_no_others(base, monkeypatch):
    def find(name: str) -> Path:
        raise InputError("no sentence-transformers folder", "")

    monkeypatch.setattr(locations, "find_model", find)
    monkeypatch.setattr(locations, "_cached_transformer", lambda name: base)
    with pytest.raises(InputError, match=r"base someone/linkbert: .* contains no safetensors weights"):
        find_base("someone/linkbert")
