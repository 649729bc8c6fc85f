"""Passages to shards: order, resumption with the same bits, further processes."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.documents import Document
from linkseek.indexer.encoding.batches import Parallel, encode_texts
from linkseek.indexer.encoding.encode import encode_passages
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError, MachineError
from tests.support.tiny.corpus import store_documents, store_passages
from tests.support.tiny.encoder import FakeEncoder

# --- shards --------------------------------------------------------------------------------------

NOISY = {"batch_noise": 0.01, "shard_rows": 7, "token_budget": 40}


@pytest.fixture
def passages(tmp_path: Path) -> PassageStore:
    """45 passages of 1 to 12 words."""
    draw = random.Random(0)
    documents = [
        Document(f"d{n}", f"Title {n}", " ".join(f"word{draw.randrange(99)}" for _ in range(1 + n % 12)))
        for n in range(45)
    ]
    _, ids = store_documents(tmp_path, documents)
    return store_passages(tmp_path, documents, ids, 0)


def encode(passages: PassageStore, folder: Path, **options) -> list[bytes]:
    folder.mkdir(exist_ok=True)
    return [s.path.read_bytes() for s in encode_passages(FakeEncoder(**NOISY | options), passages, folder)]


def test_shards_hold_the_vectors_of_their_passages(passages, tmp_path):
    (tmp_path / "s").mkdir()
    encoder = FakeEncoder(shard_rows=7)
    started = []
    shards = encode_passages(encoder, passages, tmp_path / "s", on_start=lambda *a: started.append(a))
    assert started == [(0, 7, 0)]
    assert [(s.first_row, s.rows) for s in shards] == [(n, min(7, 45 - n)) for n in range(0, 45, 7)]
    stored = np.concatenate([shard.open() for shard in shards])
    tokens = encoder.tokenize_passages([p.title for p in passages], [p.text for p in passages])
    expected = encode_texts(encoder, tokens)
    np.testing.assert_array_equal(stored, expected.astype(np.float16))


def test_the_noise_of_these_tests_makes_other_batches_visible(passages, tmp_path):
    """Not vacuous: with another budget or another shard size the bits differ."""
    same = encode(passages, tmp_path / "a")
    assert encode(passages, tmp_path / "b") == same
    assert encode(passages, tmp_path / "c", token_budget=60) != same
    encode(passages, tmp_path / "d", shard_rows=9)
    other = np.concatenate([np.load(path) for path in sorted((tmp_path / "d").glob("*.npy"))])
    first = np.concatenate([np.load(path) for path in sorted((tmp_path / "a").glob("*.npy"))])
    assert other.shape == first.shape and (other != first).any()


def spoil(folder: Path, number: int, how: str) -> None:
    path = folder / f"{number:05d}.npy"
    match how:
        case "delete":
            path.unlink()
        case "flip":
            content = bytearray(path.read_bytes())
            content[-3] ^= 4
            path.write_bytes(content)
        case "note":
            path.with_suffix(".json").unlink()
        case "other rows":
            note = path.with_suffix(".json")
            note.write_text(note.read_text().replace('"rows": 7', '"rows": 6'))


@pytest.mark.parametrize("how", ["delete", "flip", "note", "other rows"])
def test_only_missing_and_damaged_shards_are_encoded_again_with_the_same_bits(passages, tmp_path, how):
    whole = encode(passages, tmp_path / "s")
    times = [path.stat().st_mtime_ns for path in sorted((tmp_path / "s").glob("*.npy"))]
    for number in (0, 3, 4):
        spoil(tmp_path / "s", number, how)
    started, rows = [], []
    encoder = FakeEncoder(**NOISY)
    shards = encode_passages(
        encoder, passages, tmp_path / "s", on_start=lambda *a: started.append(a), on_rows=rows.append
    )
    assert [shard.path.read_bytes() for shard in shards] == whole
    assert started == [(4, 7, 4 * 7 - 4)]  # the last shard has 3 rows
    assert sum(rows) == sum(map(len, encoder.batches)) == 21
    after = [path.stat().st_mtime_ns for path in sorted((tmp_path / "s").glob("*.npy"))]
    assert [a == b for a, b in zip(times, after, strict=True)] == [n not in (0, 3, 4) for n in range(7)]


@pytest.mark.parametrize("after", [1, 5, 12])
def test_an_encoder_that_fails_leaves_whole_shards(passages, tmp_path, after):
    whole = encode(passages, tmp_path / "whole")

    class Failing(FakeEncoder):
        def encode_tokens(self, batch):
            if len(self.batches) == after:
                raise RuntimeError("out of memory")
            return super().encode_tokens(batch)

    (tmp_path / "s").mkdir()
    with pytest.raises(RuntimeError, match="out of memory"):
        encode_passages(Failing(**NOISY), passages, tmp_path / "s")
    assert encode(passages, tmp_path / "s") == whole


def test_tokenising_is_one_shard_ahead_in_another_thread(passages, tmp_path):
    calls: list[tuple[str, int]] = []

    class Watching(FakeEncoder):
        def tokenize_passages(self, titles, texts):
            calls.append((threading.current_thread().name.rpartition("_")[0] or "main", len(texts)))
            return super().tokenize_passages(titles, texts)

    (tmp_path / "s").mkdir()
    shards = encode_passages(Watching(**NOISY), passages, tmp_path / "s")
    assert [name for name, _ in calls] == ["tokenize"] * 7
    assert [count for _, count in calls] == [7] * 6 + [3]
    tokens = [FakeEncoder().tokenize_passages([p.title], [p.text])[0] for p in passages]
    for number, shard in enumerate(shards):  # and gives the same as tokenising at once
        expected = encode_texts(FakeEncoder(**NOISY), tokens[number * 7 : number * 7 + 7])
        np.testing.assert_array_equal(shard.open(), expected.astype(np.float16))


def test_an_error_while_tokenising_ahead_reaches_the_caller(passages, tmp_path):
    class Failing(FakeEncoder):
        def tokenize_passages(self, titles, texts):
            if titles[0] == "Title 14":
                raise RuntimeError("no tokens")
            return super().tokenize_passages(titles, texts)

    (tmp_path / "s").mkdir()
    with pytest.raises(RuntimeError, match="no tokens"):
        encode_passages(Failing(**NOISY), passages, tmp_path / "s")
    assert (tmp_path / "s" / "00000.json").exists()


def test_a_vector_that_is_not_finite_is_an_error_with_its_passage(passages, tmp_path):
    class Broken(FakeEncoder):
        def encode_tokens(self, batch):
            vectors = super().encode_tokens(batch)
            return vectors * (np.nan if len(self.batches) > 5 else 1)

    (tmp_path / "s").mkdir()
    with pytest.raises(InputError, match=r"texts are not finite; the first is passage \d+, "):
        encode_passages(Broken(**NOISY), passages, tmp_path / "s")


def test_no_passages_make_no_shards(tmp_path):
    _, ids = store_documents(tmp_path, [Document("d", "", "")])
    passages = store_passages(tmp_path, [Document("d", "", "")], ids, 5)
    assert encode_passages(FakeEncoder(), passages, tmp_path) == []


# --- further processes ---------------------------------------------------------------------------


def test_tokenising_in_processes_gives_the_same_bits(passages, tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.indexer.encoding.batches.CHUNK_ROWS", 3)
    whole = encode(passages, tmp_path / "a")
    assert encode(passages, tmp_path / "b", parallel=Parallel(tokenizers=2)) == whole


class Ending(FakeEncoder):
    """Ends the process that tokenises with it."""

    def tokenize_passages(self, titles, texts):
        os._exit(1)


def test_a_tokenising_process_that_ends_is_the_machines_fault(passages, tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.indexer.encoding.batches.CHUNK_ROWS", 3)
    (tmp_path / "s").mkdir()
    with pytest.raises(MachineError, match="a tokenising process died"):
        encode_passages(Ending(**NOISY, parallel=Parallel(tokenizers=1)), passages, tmp_path / "s")
