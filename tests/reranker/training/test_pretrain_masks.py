"""Which tokens are predicted: some never, others as often as said, and where it must be, alike in a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.reranker.training.contrast_data import (
    ContrastCollator,
    ContrastTable,
    ContrastTexts,
    by_loss,
    draw_mix,
    open_contrasts,
)
from linkseek.reranker.training.group_data import PairTokenizer
from linkseek.reranker.training.masks import NOT_PREDICTED, Masks
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.models.facts import ModelFacts
from tests.support.tiny.training import WORDS, save_tokenizer, tiny_contrasts

MASK = 4
QUERY = " ".join(WORDS[:6])
DOCUMENT = " ".join(WORDS[20:40])
ANCHOR = (QUERY.index(WORDS[2]), QUERY.index(WORDS[4]) - 1)  # the words 2 and 3


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def shares(tokenizer: Tokenizer, masks: Masks, pair: TextPair, masks_query: bool = True, times: int = 2_000):
    """How often each token of a pair is predicted, [L]; what is seen where one is, and what it is [n]."""
    encoding = tokenizer.encode(pair.query, pair.document)
    generator = np.random.default_rng(1)
    found = [masks.group([encoding], [pair], masks_query, generator)[0] for _ in range(times)]
    seen, labels = (np.array(part) for part in zip(*found, strict=True))  # [times, L]
    ids = np.array(encoding.ids)
    predicted = labels != NOT_PREDICTED
    assert (labels[predicted] == np.broadcast_to(ids, labels.shape)[predicted]).all()
    assert (seen[~predicted] == np.broadcast_to(ids, seen.shape)[~predicted]).all()
    return predicted.mean(axis=0), seen[predicted], labels[predicted]


def test_tokens_are_predicted_as_often_as_said(tokenizer):
    found, seen, own = shares(tokenizer, Masks(MASK, 235), TextPair(QUERY, DOCUMENT, anchors=(ANCHOR,)))
    expected = np.full(len(found), 0.15)
    expected[[0, 7, -1]] = 0  # [CLS], [SEP], [SEP]
    expected[[3, 4]] = 0.5  # the anchor's two words
    np.testing.assert_allclose(found, expected, atol=0.04)
    assert (found[expected == 0] == 0).all()
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=0.01)
    assert (seen == own).mean() == pytest.approx(0.1, abs=0.01)
    others = seen[(seen != MASK) & (seen != own)]
    assert len(set(others.tolist())) > 200 and others.max() < 235


def test_a_set_of_words_is_never_masked(tokenizer):
    pair = TextPair(QUERY, DOCUMENT, anchors=(ANCHOR,))
    found, _, _ = shares(tokenizer, Masks(MASK, 235, share=0.4), pair, masks_query=False)
    assert (found[:8] == 0).all() and found[8:-1].min() > 0.3


def test_a_token_is_in_an_anchor_if_they_share_a_character(tokenizer):
    masks = Masks(MASK, 235, share=0.0, anchors=1.0)
    for spans, tokens in {((0, 1),): [1], ((2, 5),): [1, 2], ((3, 4),): [], ((0, 3), (8, 9)): [1, 3]}.items():
        found, _, _ = shares(tokenizer, masks, TextPair(QUERY, DOCUMENT, anchors=spans), times=2)
        assert np.flatnonzero(found).tolist() == tokens, spans


@pytest.mark.parametrize("alike", [False, True])
def test_scored_pairs_are_masked_so_that_nothing_tells_the_better_one(tokenizer, alike):
    """Also where a query is cut to less tokens."""
    pairs = [
        TextPair(QUERY, DOCUMENT, anchors=(ANCHOR,)),
        TextPair(QUERY, "bam"),
        TextPair(QUERY, DOCUMENT * 2),
    ]
    texts = [(QUERY, DOCUMENT), (QUERY, "bam"), (" ".join(WORDS[:4]), DOCUMENT)]
    encodings = [tokenizer.encode(*text) for text in texts]
    generator, masks = np.random.default_rng(3), Masks(MASK, 235, share=0.3, alike=alike)
    same, anchored = [], np.zeros(3)
    for _ in range(300):
        found = masks.group(encodings, pairs, True, generator)
        queries = [labels[1:5] for _, labels in found]
        shown = [seen[1:5] for seen, _ in found]
        same.append(np.ptp(queries, axis=0).max() == 0 and np.ptp(shown, axis=0).max() == 0)
        anchored += [(labels[3:5] != NOT_PREDICTED).mean() for _, labels in found]
    assert all(same) if alike else np.mean(same) < 0.1
    rates = anchored / 300
    assert rates[0] == pytest.approx(0.5, abs=0.08)
    np.testing.assert_allclose(rates[1:], 0.5 if alike else 0.3, atol=0.08)


# --- rows and batches ------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path):
    def store(*contrasts: list[Contrast]) -> ContrastTable:
        from linkseek.reranker.contrasts import contrast_line
        from linkseek.retriever.mining.pairs import write_lines

        paths = []
        for n, part in enumerate(contrasts):
            write_lines(tmp_path / f"{n}.jsonl", map(contrast_line, part))
            paths.append(tmp_path / f"{n}.jsonl")
        return open_contrasts(paths, tmp_path)[0]

    return store


def test_each_text_is_stored_once_and_contrasts_are_read_as_they_were(rows, tmp_path):
    contrasts = [*tiny_contrasts("php-hp", 20, most=6), *tiny_contrasts("prop", 20)]
    stored = rows(contrasts[:30], contrasts[30:])
    assert [stored[row].record for row in range(40)] == contrasts
    texts = [file.read_bytes() for file in tmp_path.glob("contrasts-*.arrow")]
    for contrast in contrasts:
        for pair in (contrast.better, *contrast.worse):
            assert sum(text.count(pair.document.encode()) for text in texts) == 1


def collator(tokenizer: Tokenizer, masks: Masks | None, negatives: int | None = None, mini_batch: int = 0):
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    facts = ModelFacts(1, 48, 0, tokenizer.to_str(), inputs)
    texts = ContrastTexts(TextFormat(), negatives, seed=5)
    return ContrastCollator(PairTokenizer(facts), texts, masks, mini_batch=mini_batch)


def read(rows: ContrastTable, collate: Any, chosen: list[int], epoch: int = 0) -> dict[str, torch.Tensor]:
    """All pieces as one, padded to the longest."""
    pieces = collate([rows[row] for row in chosen], epoch)["pieces"]
    length = max(piece["input_ids"].shape[1] for piece in pieces)
    blank = {"labels": NOT_PREDICTED}
    return {
        name: torch.cat(
            [
                torch.nn.functional.pad(p[name], (0, length - p[name].shape[1]), value=blank.get(name, 0))
                for p in pieces
            ]
        )
        for name in pieces[0]
    }


def test_a_row_reads_the_same_in_every_batch_and_anew_in_every_epoch(rows, tokenizer):
    stored = rows(tiny_contrasts("php-hp", 9))
    collate = collator(tokenizer, Masks(MASK, 235), negatives=2, mini_batch=4)
    whole = read(stored, collate, [3, 5, 7])
    starts = np.cumsum([0, *(min(len(stored[row].record.worse), 2) + 1 for row in (3, 5, 7))])
    alone = read(stored, collate, [5])
    for name, tensor in alone.items():
        part = whole[name][starts[1] : starts[2], : tensor.shape[1]]
        assert torch.equal(part, tensor), name
    again = read(stored, collate, [5], epoch=1)
    assert not torch.equal(again["labels"], alone["labels"])
    assert (whole["masked_ids"] != whole["input_ids"]).any()
    assert ((whole["masked_ids"] == whole["input_ids"]) | (whole["labels"] != NOT_PREDICTED)).all()


def test_in_one_pass_what_is_scored_is_masked_and_without_masks_nothing_is(rows, tokenizer):
    stored = rows(tiny_contrasts("php-hp", 4))
    one = read(stored, collator(tokenizer, Masks(MASK, 235, alike=True)), [0, 1])
    assert "masked_ids" not in one and (one["input_ids"] == MASK).any()
    assert "labels" not in read(stored, collator(tokenizer, None), [0, 1])


def test_a_word_set_is_read_unmasked_and_its_document_masked(rows, tokenizer):
    stored = rows(tiny_contrasts("prop", 30))
    found = read(stored, collator(tokenizer, Masks(MASK, 235)), list(range(30)))
    is_document = found["token_type_ids"] == 1
    predicted = found["labels"] != NOT_PREDICTED
    assert predicted[is_document].any() and not predicted[~is_document].any()


def test_losses_are_those_of_the_papers():
    names = ("prop", "prop-random", "harp-rdp", "php-hp", "ict")
    assert [CONTRASTS.objectives[name].loss for name in names] == ["hinge"] * 3 + ["lce"] * 2


def test_a_mix_has_its_weights_and_as_many_as_the_scarcest_file_allows(rows):
    stored = rows(tiny_contrasts("prop", 40), [], tiny_contrasts("php-hp", 6), tiny_contrasts("prop", 8))
    files, objectives = stored.files(), stored.objectives()
    assert draw_mix(files, [], 1).tolist() == list(range(54))
    found = draw_mix(files, [2, 9, 1, 1], 1)
    assert np.bincount(files[found]).tolist() == [12, 0, 6, 6]
    assert (
        found.tolist()
        == draw_mix(files, [2, 9, 1, 1], 1).tolist()
        != draw_mix(files, [2, 9, 1, 1], 2).tolist()
    )
    sources = by_loss(objectives, found, None)
    assert {name: set(objectives[own].tolist()) for name, own in sources.items()} == {
        "hinge": {"prop"},
        "lce": {"php-hp"},
    }
    assert sorted(np.concatenate(list(sources.values())).tolist()) == found.tolist()
    assert list(by_loss(objectives, found, "lce")) == ["lce"]
