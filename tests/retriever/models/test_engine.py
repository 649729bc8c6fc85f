"""The model in torch without padding, on a CPU in the place of a GPU: against the padded model."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling
from torch.profiler import ProfilerActivity, profile

from linkseek.indexer.encoding.batches import Parallel, encode_texts
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.retriever.models import biencoder
from linkseek.retriever.models.backends import torch_engine
from linkseek.retriever.models.biencoder import BiEncoder, load_tower, open_biencoder
from linkseek.retriever.models.engine import Opened, torch_forward
from linkseek.retriever.models.facts import padded
from linkseek.retriever.models.locations import find_model
from tests.support.command import python
from tests.support.tiny.models import BACK_TO_BACK, save, save_tiny

DRAW = random.Random(0)
TEXTS = [" ".join(DRAW.choices(ascii_lowercase, k=n)) for n in range(60)]


def open_in_torch(folder: Path, precision: str, batches: int = 1) -> BiEncoder:
    """What `open_biencoder` does where there is a GPU, on the CPU."""
    chain, facts = load_tower(folder, folder.name)
    forward = torch_forward(chain, facts, "cpu", precision)
    return BiEncoder(Opened(str(folder), "0" * 64, facts, forward, Parallel(batches=batches)))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def packed(tiny) -> BiEncoder:
    encoder = open_in_torch(tiny, "float32")
    assert encoder.execution["attention"] == "blocks, packed"
    return encoder


def encode(encoder: BiEncoder, texts=TEXTS) -> np.ndarray:
    return encode_texts(encoder, encoder.tokenize_passages([""] * len(texts), texts))


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    kept = {n: a for n, a in torch_engine.PACKINGS.items() if n not in names}
    monkeypatch.setattr(torch_engine, "PACKINGS", kept)


def test_packed_vectors_are_those_of_sentence_transformers(packed, tiny):
    expected = SentenceTransformer(str(tiny), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encode(packed), expected, atol=1e-5)


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
def test_packed_back_to_back_vectors_are_those_of_sentence_transformers(tmp_path, monkeypatch, mode):
    """As on a GPU: pooled while packed where that is possible, and one product in place of three."""
    monkeypatch.setattr(torch_engine, "PACKINGS", {"back to back": BACK_TO_BACK})
    model = SentenceTransformer(str(save_tiny(tmp_path / "tiny")), device="cpu")
    model[1] = Pooling(32, pooling_mode=mode)
    save(model, tmp_path / mode)
    encoder = open_in_torch(tmp_path / mode, "float32")
    assert encoder.execution["attention"] == "back to back"
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        vectors = encode(encoder)
    counts = Counter(event.name for event in watched.events())
    batches = counts["aten::cumsum"]
    assert counts["aten::index_copy"] == (batches if mode == "max" else 0)
    assert counts["aten::chunk"] == 2 * batches > 0  # layers
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler on a CPU")
def test_compiled_parts_of_layers_have_the_vectors_of_plain_ones(packed, tiny, monkeypatch):
    monkeypatch.setenv(torch_engine.COMPILE, "1")
    compiled = open_in_torch(tiny, "float32")
    assert compiled.execution == {**packed.execution, "compiled": True}
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        vectors = encode(compiled)
    assert not any(event.name == "aten::gelu" for event in watched.events())
    np.testing.assert_allclose(vectors, encode(packed), atol=1e-5)


def test_parts_that_cannot_be_compiled_are_told(tiny, monkeypatch):
    monkeypatch.setenv(torch_engine.COMPILE, "1")
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **_: setattr(self, "forward", None))
    with pytest.raises(MachineError, match=r"torch.compile does not work here"):
        open_in_torch(tiny, "float32")


def test_packed_and_padded_agree_and_the_padded_says_why(packed, tiny, monkeypatch, capsys):
    without(monkeypatch, *torch_engine.PACKINGS)
    plain = open_in_torch(tiny, "float32")
    assert plain.execution["attention"] == "padded"
    assert "attention is padded" in capsys.readouterr().err
    np.testing.assert_allclose(encode(packed), encode(plain), atol=1e-5)


def test_openvino_and_torch_agree(packed, tiny):
    np.testing.assert_allclose(
        encode(open_biencoder(str(tiny), precision="float32")), encode(packed), atol=1e-5
    )


INTERRUPTED = """
import gc, os, signal, sys, threading, time
from linkseek.retriever.models.biencoder import open_biencoder

opened = [open_biencoder(sys.argv[1])]
closing = threading.Thread(target=lambda: (opened.clear(), gc.collect()))
closing.start()
closing.join()
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background may lack
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_model_that_changes_while_it_is_opened_is_refused_and_not_kept(tmp_path, monkeypatch):
    """Or its numbers would be served for the files that were hashed, for good."""
    folder, cache = save_tiny(tmp_path / "model"), tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    def replaced_first(folder: Path, name: str):
        config = folder / "config.json"
        config.write_text(config.read_text("utf-8") + " ", "utf-8")
        return load_tower(folder, name)

    monkeypatch.setattr(biencoder, "load_tower", replaced_first)
    with pytest.raises(InputError, match="changed while it was opened"):
        open_biencoder(str(folder), device="cpu")
    assert not [*cache.glob("**/facts.json")]
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    open_biencoder(str(folder), device="cpu")
    assert len([*cache.glob("**/facts.json")]) == 1


def test_a_model_that_another_thread_closes_leaves_no_broken_signals(tiny):
    done = python("-c", INTERRUPTED, tiny)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_the_default_encoder_is_packed_too():
    folder = find_model(DEFAULT_ENCODER)
    encoder = open_in_torch(folder, "bfloat16")
    assert encoder.execution["attention"] == "blocks, packed"
    texts = ["The river flows. " * n for n in (1, 2, 40)]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts)
    assert (1 - (encode(encoder, texts) * expected).sum(axis=1)).max() < 1e-3


def test_the_rest_of_a_batch_does_not_matter(packed):
    """Not vacuous: sequences that see each other would change, and so would lost positions."""
    tokens = packed.tokenize_passages([""] * len(TEXTS), TEXTS)
    alone = np.concatenate([packed.encode_tokens([t]) for t in tokens])
    np.testing.assert_allclose(packed.encode_tokens(tokens), alone, atol=1e-5)
    assert np.abs(alone[:40] - alone[1:41]).max(axis=1).min() > 0.01


def test_several_threads_get_the_bits_of_one(tiny):
    one, three = (open_in_torch(tiny, "bfloat16", batches) for batches in (1, 3))
    expected = encode(one)
    assert encode(three).tobytes() == expected.tobytes()
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(encode(one).tobytes())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected.tobytes()] * 3


# --- what a model reads --------------------------------------------------------------------------


def test_tokens_are_padded_to_a_multiple_of_eight_with_the_models_token(packed):
    facts = packed.facts
    features = padded([[2, 3], [2, 5, 6, 7, 8, 9, 5, 6, 3]], facts)
    assert set(features) == {"input_ids", "attention_mask"}
    assert features["input_ids"].tolist() == [[2, 3] + [0] * 14, [2, 5, 6, 7, 8, 9, 5, 6, 3] + [0] * 7]
    assert features["attention_mask"].sum(axis=1).tolist() == [2, 9]
    assert all(array.dtype == np.int64 for array in features.values())
    assert padded([[5] * 47], facts)["input_ids"].shape == (1, 48)
    assert padded([[5] * 50], facts)["input_ids"].shape == (1, 50)  # longer than the model: not cut here


def test_devices_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert cuda_devices("auto") == cuda_devices("cpu") == []
    for device in ("cuda", "cuda:3", "tpu"):
        with pytest.raises(UsageError, match=f"device {device}: torch finds no CUDA device"):
            cuda_devices(device)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_vectors_are_near(tiny, packed):
    encoder = open_biencoder(str(tiny), device="cuda")
    assert (1 - (encode(encoder) * encode(packed)).sum(axis=1)).max() < 1e-3
