"""Passages to shards: order, resumption with the same bits, several devices and machines."""

from __future__ import annotations

import os
import random
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.documents import Document
from linkseek.indexer.encoding.batches import Parallel, encode_texts
from linkseek.indexer.encoding.encode import encode_passages
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError, MachineError
from tests.support.fake_encoder import FakeEncoder
from tests.support.tiny_corpus import store_documents, store_passages

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


# --- further processes, devices and machines -----------------------------------------------------


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


def until_there(path):
    """Wait for a file of another process."""
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def other_device(**options) -> partial:
    return partial(FakeEncoder, **NOISY | options)


def test_several_devices_give_the_files_of_one(passages, tmp_path):
    whole = encode(passages, tmp_path / "one")
    begun = tmp_path / "begun"
    other = other_device(on_batch=partial(Path.touch, begun))
    here = FakeEncoder(**NOISY, on_batch=partial(until_there, begun), parallel=Parallel(devices=[other]))
    told: list[float] = []
    (tmp_path / "two").mkdir()
    shards = encode_passages(here, passages, tmp_path / "two", on_rows=told.append)
    assert [shard.path.read_bytes() for shard in shards] == whole
    assert [shard.first_row for shard in shards] == list(range(0, 45, 7))
    assert sum(told) == 45
    done_here = sum(map(len, here.batches))
    assert 0 < done_here < 45  # the other has done some
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == names


def test_a_single_missing_shard_is_not_worth_another_device(passages, tmp_path):
    whole = encode(passages, tmp_path / "s")
    spoil(tmp_path / "s", 2, "delete")
    started = Parallel(devices=[partial(pytest.fail, "opened")])
    assert encode(passages, tmp_path / "s", parallel=started) == whole


class Unlike(FakeEncoder):
    execution = {"backend": "another"}  # noqa: RUF012


class Ended(FakeEncoder):
    def __init__(self, **options):
        os._exit(3)


class Broken(FakeEncoder):
    def encode_tokens(self, batch):
        super().encode_tokens(batch)
        raise InputError("bad weights", "Use others.")


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (Unlike, MachineError, "devices of this machine differ"),
        (Broken, InputError, "bad weights"),
        (Ended, MachineError, "the process of a device died"),
    ],
)
def test_what_another_device_runs_into_ends_all_and_whole_shards_stay(
    passages, tmp_path, other, error, message
):
    whole = encode(passages, tmp_path / "whole")
    (tmp_path / "s").mkdir()
    begun = tmp_path / "begun"
    devices = [partial(other, **NOISY, on_batch=partial(Path.touch, begun))]
    wait = partial(until_there, begun) if other is Broken else None
    here = FakeEncoder(**NOISY, on_batch=wait, parallel=Parallel(devices=devices))
    with pytest.raises(error, match=message) as caught:
        encode_passages(here, passages, tmp_path / "s")
    assert caught.value.hint
    assert encode(passages, tmp_path / "s") == whole


def test_an_error_here_stops_the_other_devices(passages, tmp_path):
    def stop(rows):
        raise KeyboardInterrupt

    slow = other_device(seconds_a_batch=0.2)
    (tmp_path / "s").mkdir()
    here = FakeEncoder(**NOISY, parallel=Parallel(devices=[slow]))
    with pytest.raises(KeyboardInterrupt):
        encode_passages(here, passages, tmp_path / "s", on_rows=stop)
    assert len(list((tmp_path / "s").glob("*.json"))) < 7


@pytest.mark.parametrize("shares", [1, 2, 3, 9])
def test_the_shares_of_several_machines_make_the_whole(passages, tmp_path, shares):
    whole = encode(passages, tmp_path / "whole")
    (tmp_path / "s").mkdir()
    rows = []
    for number in range(1, shares + 1):
        encoder = FakeEncoder(**NOISY)
        made = encode_passages(encoder, passages, tmp_path / "s", share=(number, shares))
        rows.append(sum(map(len, encoder.batches)))
        assert sum(shard.rows for shard in made) == rows[-1]
    assert sum(rows) == 45
    none = FakeEncoder(**NOISY)
    assert [s.path.read_bytes() for s in encode_passages(none, passages, tmp_path / "s")] == whole
    assert none.batches == []
