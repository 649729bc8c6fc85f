"""PHP: a worked example, and its three stages against the groups."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.base import ContrastSource
from linkseek.reranker.objectives.php import (
    HyperlinkPrediction,
    MostRelevantDocumentSelection,
    SymmetricHyperlinkPrediction,
)
from tests.support.tiny.linked import document, make_index, rows_of

# Passages of eight words. Of what Jobs#0 names, Apple and NeXT link back from their first passage (D1),
# Pixar from its second (D2), company not at all (D3). Zen, Gates and Void are named elsewhere in Jobs (D4),
# although Gates links back.
JOBS = [
    document(
        "Jobs",
        "He led [Apple], [Pixar], [NeXT] and a [company]. "
        "Later he liked [Zen] and also knew [Gates]. "
        "Then [Apple] and the [Void].",
    ),
    document("Apple", "[Jobs] founded it."),
    document("Pixar", "It made many films about toys and cars. [Steve|Jobs] owned it."),
    document("NeXT", "A computer by [Jobs]."),
    document("company", "It sells."),
    document("Zen", "A school."),
    document("Gates", "He met [Jobs] once."),
    document("Wozniak", "He built the [Apple] and left the [company]."),
    document("Lone", "No links here."),
    document("Void", ""),
]
STAGES = [HyperlinkPrediction, SymmetricHyperlinkPrediction, MostRelevantDocumentSelection]
Stage = HyperlinkPrediction | SymmetricHyperlinkPrediction | MostRelevantDocumentSelection


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> ContrastSource:
    return ContrastSource(make_index(tmp_path_factory.mktemp("jobs"), JOBS, words=8))


def mined(source: ContrastSource, stage: Stage, seed: int = 1) -> list[Contrast | None]:
    rows = rows_of(stage, source)
    return list(stage.read(source, rows, np.random.default_rng(seed).integers(0, 2**62, len(rows))))


def told(contrasts: list[Contrast | None]) -> set[tuple[str, str, frozenset[str]]]:
    """(passage, better document, worse documents)"""
    return {
        (c.evidence["link"]["passage_id"], c.better.title, frozenset(pair.title for pair in c.worse))
        for c in contrasts
        if c is not None
    }


def test_the_groups_of_the_example(source: ContrastSource) -> None:
    titles = [[source.title(row) for row in group] for group in source.link_groups.of_segment(0)]
    assert titles == [["Apple", "NeXT"], ["Pixar"], ["company"], ["Zen", "Gates", "Void"]]
    assert source.link_groups.counts() == {"segments": 8, "d1": 7, "d2": 2, "d3": 5, "d4": 13}


def test_hyperlink_prediction(source: ContrastSource) -> None:
    contrasts = mined(source, HyperlinkPrediction())
    elsewhere = frozenset({"Zen", "Gates"})
    first = frozenset({"Apple", "Pixar", "NeXT", "company"})
    assert told(contrasts) == {
        ("Jobs#0", "Apple", elsewhere),
        ("Jobs#0", "Pixar", elsewhere),
        ("Jobs#0", "NeXT", elsewhere),
        ("Jobs#0", "company", elsewhere),
        ("Jobs#1", "Zen", first),
        ("Jobs#1", "Gates", first),
        ("Jobs#2", "Apple", first - {"Apple"} | elsewhere),
    }
    assert len(contrasts) == 7


def test_symmetric_hyperlink_prediction(source: ContrastSource) -> None:
    contrasts = mined(source, SymmetricHyperlinkPrediction())
    assert told(contrasts) == {
        ("Jobs#0", "Apple", frozenset({"company"})),
        ("Jobs#0", "Pixar", frozenset({"company"})),
        ("Jobs#0", "NeXT", frozenset({"company"})),
        ("Jobs#1", "Gates", frozenset({"Zen"})),
    }
    # Jobs#2 names Apple and Void: all that is worse is without text.
    assert contrasts.count(None) == 1 and len(contrasts) == 5


def test_most_relevant_document_selection(source: ContrastSource) -> None:
    contrasts = mined(source, MostRelevantDocumentSelection())
    assert told(contrasts) == {
        ("Jobs#0", "Apple", frozenset({"Pixar"})),
        ("Jobs#0", "NeXT", frozenset({"Pixar"})),
    }
    assert len(contrasts) == 2


def test_texts_anchors_and_evidence(source: ContrastSource) -> None:
    contrast = mined(source, SymmetricHyperlinkPrediction(negatives=2))[1]
    assert contrast is not None
    better = contrast.better
    assert better.query == "He led Apple, Pixar, NeXT and a company."
    assert [better.query[start:end] for start, end in better.anchors] == ["Pixar"]
    assert (better.title, better.document) == ("Pixar", JOBS[2]["text"])
    assert [(pair.title, pair.document) for pair in contrast.worse] == [("company", "It sells.")] * 2
    assert [[pair.query[s:e] for s, e in pair.anchors] for pair in contrast.worse] == [["company"]] * 2
    assert contrast.objective == "php-shp"
    assert contrast.evidence == {
        "link": {"passage_id": "Jobs#0", "start": 14, "end": 19, "anchor": "Pixar", "target": "Pixar"},
        "group": "D2",
        "back": {"passage_id": "Pixar#1", "start": 0, "end": 5, "anchor": "Steve", "target": "Jobs"},
        "worse": ["company", "company"],
    }


def test_documents_of_d4_have_no_anchors(source: ContrastSource) -> None:
    for contrast in mined(source, HyperlinkPrediction()):
        assert contrast is not None and contrast.better.anchors
        assert {pair.anchors for pair in contrast.worse} == {()}
        assert {pair.query for pair in contrast.worse} == {contrast.better.query}


def test_all_anchors_to_a_document_are_carried(tmp_path: Path) -> None:
    rows = [document("a", "To [bee|b] and [b] and [c]. And [d]."), *(document(x, "Text.") for x in "bcd")]
    contrasts = mined(ContrastSource(make_index(tmp_path, rows, words=6)), HyperlinkPrediction())
    spans = [[c.better.query[start:end] for start, end in c.better.anchors] for c in contrasts if c]
    assert spans == [["bee", "b"], ["c"], ["d"]]


@pytest.mark.parametrize("negatives", [1, 2, 5, 6, 24])
def test_worse_documents_are_drawn_again_when_scarce(source: ContrastSource, negatives: int) -> None:
    for contrast in mined(source, HyperlinkPrediction(negatives)):
        assert contrast is not None and len(contrast.worse) == negatives
        times = Counter(pair.title for pair in contrast.worse)
        available = 2 if contrast.evidence["link"]["passage_id"] == "Jobs#0" else None
        if available:
            assert len(times) == min(available, negatives)
        assert max(times.values()) - min(times.values()) <= 1
        assert contrast.better.title not in times


def test_worse_documents_are_drawn_at_random(source: ContrastSource) -> None:
    stage = HyperlinkPrediction(negatives=1)
    drawn = Counter(mined(source, stage, seed)[0].worse[0].title for seed in range(200))  # type: ignore[union-attr]
    assert set(drawn) == {"Zen", "Gates"}
    assert 60 < drawn["Zen"] < 140


def test_every_contrast_is_of_neighbouring_groups(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [
        document(
            f"d{n}", " ".join(f"w [x|d{draw.randrange(25)}] w" for _ in range(draw.randrange(16))) + " end"
        )
        for n in range(25)
    ]
    source = ContrastSource(make_index(tmp_path, rows, words=6))
    seen = 0
    for stage, better, worse in zip(STAGES, ({0, 1, 2}, {0, 1}, {0}), (3, 2, 1), strict=True):
        expected = set()
        for segment in range(len(source.index.passages)):
            groups = [
                {source.title(row) for row in group} for group in source.link_groups.of_segment(segment)
            ]
            if groups[worse]:
                expected |= {(segment, title) for n in better for title in groups[n]}
        found = {}
        for contrast in mined(source, stage()):
            assert contrast is not None
            row = int(source.index.passages.rows_of([contrast.evidence["link"]["passage_id"]])[0])
            found[row, contrast.better.title] = contrast
            groups = [{source.title(d) for d in group} for group in source.link_groups.of_segment(row)]
            assert {pair.title for pair in contrast.worse} <= groups[worse]
        assert set(found) == expected
        seen += len(found)
    assert seen > 150


def test_no_symmetric_links(tmp_path: Path) -> None:
    rows = [document("a", "To [b] and [c]. Also to [d] here."), *(document(x, "Text.") for x in "bcd")]
    source = ContrastSource(make_index(tmp_path, rows, words=4))
    assert len(rows_of(HyperlinkPrediction(), source)) == 3
    for stage in (SymmetricHyperlinkPrediction(), MostRelevantDocumentSelection()):
        assert len(rows_of(stage, source)) == 0
        assert "(documents by group: D1 0, D2 0, D3 3, D4 3)" in stage.why_none(source)


def test_documents_shorter_than_a_segment(tmp_path: Path) -> None:
    rows = [
        document("a", "To [b], [c], [d]."), document("b", "To [a]."), document("c", "One. Two. To [a]."),
        document("d", "Text."),
    ]  # fmt: skip
    source = ContrastSource(make_index(tmp_path, rows, words=4))
    assert len(rows_of(HyperlinkPrediction(), source)) == 0
    assert told(mined(source, SymmetricHyperlinkPrediction())) == {
        ("a#0", "b", frozenset({"d"})),
        ("a#0", "c", frozenset({"d"})),
    }
