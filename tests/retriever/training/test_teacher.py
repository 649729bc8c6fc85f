"""Distillation: its losses by hand, its vectors from an index, a file and the teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError
from linkseek.indexer.store.ids import IdTable
from linkseek.retriever.commands.train import main
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.biencoder import TextFormat, open_biencoder
from linkseek.retriever.training.config import TeacherSettings
from linkseek.retriever.training.log import read_log
from linkseek.retriever.training.losses.teacher import (
    Teacher,
    TeacherTexts,
    joined,
    open_teacher,
    teacher_vectors,
)
from linkseek.retriever.training.samples.pair_inputs import context_keys, key_of
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.training import pair_rows, save_normalized, save_static, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")


def teacher_of(vectors: list[list[float]]) -> Teacher:
    """Keys 1, 2, ... of these vectors."""
    keys = IdTable.build(
        np.arange(1, len(vectors) + 1, dtype=np.uint64), np.arange(len(vectors), dtype=np.int32)
    )
    return Teacher(keys, np.array(vectors, np.float16), 0.5)


def test_scores_by_hand():
    """One query; the teacher's scores 1, 0 are divided by .5, the student's 0, 1 multiplied by 3."""
    teacher = teacher_of([[1, 0], [1, 0], [0, 1], [5, 5]])
    queries, passages = torch.tensor([[0.0, 1]]), torch.tensor([[1.0, 0], [0, 1], [9, 9]])
    keys = torch.tensor([1]), torch.tensor([2, 3, 4])
    mask = torch.tensor([[False, False, True]])
    expected, own = np.exp([2, 0]) / np.exp([2, 0]).sum(), np.exp([0, 3]) / np.exp([0, 3]).sum()
    loss = teacher.loss(3 * queries @ passages.T, keys, mask)
    assert loss.item() == pytest.approx((expected * np.log(expected / own)).sum(), rel=1e-5)
    same = teacher.loss(2 * torch.tensor([[1.0, 0]]) @ passages.T, keys, mask)
    assert same.item() == pytest.approx(0, abs=1e-6)


def test_several_teachers_score_as_the_mean_of_their_own_quotients():
    hashes, draw = np.array([11, 5, 8, 20], np.uint64), np.random.default_rng(0)
    rows = np.arange(4, dtype=np.int32)
    vectors = [draw.normal(size=(4, width)).astype(np.float16) for width in (6, 3)]
    others = vectors[1][[2, 0, 3, 1]]  # another order
    first = Teacher(IdTable.build(hashes, rows), vectors[0], 0.5)
    second = Teacher(IdTable.build(hashes[[2, 0, 3, 1]], rows), others, 0.1)
    both = joined([first, second])
    expected = (first.scores(5, [11, 20, 8]) + second.scores(5, [11, 20, 8])) / 2
    np.testing.assert_allclose(both.scores(5, [11, 20, 8]), expected, rtol=5e-3, atol=1e-2)
    assert joined([first]) is first


def test_each_of_several_teachers_has_its_temperature_or_all_have_one():
    settings = TeacherSettings(encoder=["a", "b"], temperature=[0.03, 0.01])
    assert settings.teachers == [("a", 0.03), ("b", 0.01)]
    assert TeacherSettings(encoder=["a", "b"]).teachers == [("a", 0.05), ("b", 0.05)]
    assert TeacherSettings().teachers == []
    with pytest.raises(ValueError, match="2 temperatures for 1 teachers; give one for each"):
        TeacherSettings(encoder="a", temperature=[0.1, 0.2])


def test_vectors_of_a_second_teacher_are_in_a_file_of_their_own(tiny, tmp_path):
    other = save_static(tmp_path / "static")
    texts = TeacherTexts.of([Pair("bam", PairContext("", "bem"))], TextFormat())
    settings = TeacherSettings(encoder=[str(tiny), str(other)], vectors=tmp_path / "t.safetensors")
    teacher = open_teacher(settings, texts, title=True, work=tmp_path)
    assert {path.name for path in tmp_path.glob("*.safetensors")} == {"t.safetensors", "t-2.safetensors"}
    key = context_keys(PairContext("", "bem"))[0]
    quotients = []
    for encoder in map(open_biencoder, (str(tiny), str(other))):
        query, passage = encoder.encode_queries(["bam"])[0], encoder.encode_queries(["bem"])[0]
        quotients.append(query @ passage / 0.05)
    assert teacher.scores(key_of("bam"), [key])[0] == pytest.approx(np.mean(quotients), rel=5e-3)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_normalized(tmp_path_factory.mktemp("teacher") / "normalized")


def test_vectors_are_taken_from_the_index_and_the_file_and_the_others_are_encoded(
    tiny, tmp_path, build, index_path
):
    encoder = open_biencoder(str(tiny))
    rows = [{"id": "d", "title": "T", "text": "bam bem dim", "links": []}]
    build(
        corpus=write_jsonl(tmp_path / "c.jsonl", rows),
        encoders=["other", "normalized"],  # the teacher is not the index's default
        open_encoder=lambda name, title: encoder if name == "normalized" else FakeEncoder(name),
    )
    index = OpenIndex.open(index_path)
    # the index's vector is that of its passage, so a passage of that id with another text shows its origin
    pair = Pair("bam", PairContext("", "gat git", index.passages[0].id), (PairContext("t", "dim dem"),))
    texts = TeacherTexts.of([pair, pair], TextFormat())
    assert (len(texts.queries), len(texts.passages)) == (1, 2)
    keys, vectors = teacher_vectors(encoder, texts, index, tmp_path / "t.safetensors")
    teacher = Teacher(keys, vectors, 1.0)
    own = teacher.of(torch.tensor([key_of("bam"), *(context_keys(c)[0] for c in texts.passages.values())]))
    model = SentenceTransformer(str(tiny), device="cpu")
    expected = model.encode(["bam", "T bam bem dim", "t dim dem"])
    np.testing.assert_allclose(own, expected, atol=2e-3)

    def refuse(*_: object) -> None:
        raise AssertionError("encoded again")

    encoder.encode_queries = refuse
    encoder.encode_tokens = refuse
    _, again = teacher_vectors(encoder, texts, None, tmp_path / "t.safetensors")
    np.testing.assert_array_equal(again, vectors)


def test_vectors_of_another_encoder_are_refused(tiny, tmp_path, build, index_path):
    texts = TeacherTexts.of([Pair("bam", PairContext("", "bem"))], TextFormat())
    stored = tmp_path / "t.safetensors"
    teacher_vectors(open_biencoder(str(tiny)), texts, None, stored)
    other = open_biencoder(str(save_static(tmp_path / "static")))
    with pytest.raises(MismatchError, match="contains vectors of another encoder"):
        teacher_vectors(other, texts, None, stored)
    build(
        corpus=write_jsonl(tmp_path / "c.jsonl", [{"id": "d", "title": "", "text": "bem", "links": []}]),
        encoders=["fake"],
    )
    with pytest.raises(MismatchError, match="contains vectors of another encoder than the teacher, static"):
        teacher_vectors(other, texts, OpenIndex.open(index_path), tmp_path / "new.safetensors")
    stored.write_bytes(b"no vectors")
    with pytest.raises(InputError, match="cannot be read"):
        teacher_vectors(other, texts, None, stored)


@pytest.mark.parametrize("student", ["static", "bert"])
def test_a_student_comes_nearer_to_its_teacher(tiny, tmp_path, student):
    save_static(tmp_path / "static")
    save_normalized(tmp_path / "bert", seed=3)
    pairs = write_pairs(tmp_path / "p.jsonl", pair_rows(48, objectives=("bfs",)))
    (tmp_path / "c.toml").write_text(
        f"""
[stage]
kind = "pretrain"
[model]
base = "{tmp_path / student}"
[data]
pairs = ["{pairs}"]
[texts]
query_tokens = 40
passage_tokens = 40
[teacher]
encoder = "{tiny}"
vectors = "{tmp_path / "taught.safetensors"}"
[training]
batch = 16
epochs = 6
learning_rate = {0.02 if student == "static" else 0.002}
[output]
folder = "{tmp_path / "out"}"
log_steps = 3
"""
    )
    main([str(tmp_path / "c.toml")])
    losses = [line["loss"] for line in read_log(tmp_path / "out" / "log.jsonl")]
    assert losses[-1] < 0.8 * losses[0]
    assert (tmp_path / "taught.safetensors").is_file()
    assert str(tmp_path) not in (tmp_path / "out" / "README.md").read_text()
