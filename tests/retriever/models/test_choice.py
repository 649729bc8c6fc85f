"""The encoder that a build chooses by itself."""

from __future__ import annotations

import pytest

from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.defaults import DEFAULT_ENCODER, MULTILINGUAL
from linkseek.retriever.models import biencoder
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import STATIC_ENCODER
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.training import save_static


@pytest.mark.parametrize(
    ("passages", "language", "gpus", "shipped", "expected"),
    [
        (54 * 2 * 3_600, "en", [], [STATIC_ENCODER], DEFAULT_ENCODER),  # an hour, to the second
        (54 * 2 * 3_600 + 1, "en", [], [STATIC_ENCODER], STATIC_ENCODER),
        (21_000_000, "en", ["cuda:0"], [STATIC_ENCODER], DEFAULT_ENCODER),
        (21_000_000, "en", [], ["hlp"], DEFAULT_ENCODER),
        (27 * 2 * 3_600, "ar", [], [STATIC_ENCODER], MULTILINGUAL),
        (27 * 2 * 3_600 + 1, "ar", [], [STATIC_ENCODER], STATIC_ENCODER),
        (9, "mul", [], [STATIC_ENCODER], MULTILINGUAL),
    ],
)
def test_a_large_corpus_without_a_gpu_gets_the_static_encoder(
    passages, language, gpus, shipped, expected, monkeypatch, capfd
):
    monkeypatch.setattr(biencoder, "is_here", lambda name: True)
    monkeypatch.setattr(biencoder.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(biencoder, "cuda_devices", lambda device: gpus)
    monkeypatch.setattr(biencoder, "shipped_models", lambda: shipped)
    assert biencoder.encoder_for(passages, language) == expected
    assert f"encoder: {expected}" in capfd.readouterr().err


def test_other_languages_get_the_default_encoder_where_no_other_is_on_this_machine(monkeypatch):
    monkeypatch.setattr(biencoder, "is_here", lambda name: False)
    assert biencoder.encoder_for(9, "ar") == DEFAULT_ENCODER


def test_a_build_takes_the_encoder_that_is_chosen(build, index_path, tmp_path):
    encoder = open_biencoder(str(save_static(tmp_path / "small")))
    rows = [{"id": str(n), "title": "T", "text": "bam bem dim", "links": []} for n in range(3)]
    counts: list[int] = []
    build(
        corpus=write_jsonl(tmp_path / "c.jsonl", rows),
        encoders=["auto"],
        choose_encoder=lambda count, language: counts.append((count, language)) or "small",
        open_encoder=lambda name, title: {"small": encoder}[name],
    )
    assert (counts, OpenIndex.open(index_path).encoders) == ([(3, "en")], ["small"])


def test_auto_is_replaced_once_the_passages_are_counted(tmp_path):
    plan = BuildPlan(
        tmp_path,
        encoders=("a", "auto", "b"),
        choose_encoder=lambda count, language: "b" if count > 9 else "c",
    )
    assert plan.decided(10).encoders == ("a", "b")
    assert plan.decided(9).encoders == ("a", "c", "b")
    assert BuildPlan(tmp_path, encoders=("a",), choose_encoder=plan.choose_encoder).decided(10).encoders == (
        "a",
    )
