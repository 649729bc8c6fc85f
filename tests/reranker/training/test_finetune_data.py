"""From files to groups and what a model reads."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.settings import read_settings
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.reranker.training.config import FinetuneConfig, GroupSettings
from linkseek.reranker.training.group_data import (
    GroupCollator,
    GroupTexts,
    PairTokenizer,
    data_sha256,
    dev_pairs,
    draw_queries,
    open_groups,
    query_numbers,
)
from linkseek.reranker.training.group_loss import DevGroups, mean_reciprocal_rank
from linkseek.reranker.training.run_groups import CandidateTexts, judged_groups
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.training.samples.sample_table import Sample
from tests.support.rankings import judged_files
from tests.support.tiny.corpus import write_jsonl
from tests.support.tiny.models import save_tiny_reranker
from tests.support.tiny.training import pair_rows, write_pairs


def groups(folder: Path, rows: list[dict], **settings) -> list[Sample[Pair]]:
    path = write_pairs(folder / "p.jsonl", rows)
    stored = open_groups(GroupSettings(pairs=[path], **settings), False, folder, "0" * 64)
    return [stored[row] for row in range(len(stored))]


# --- pairs -----------------------------------------------------------------------------------------


def test_pairs_become_groups_with_their_hard_negatives(tmp_path):
    rows = pair_rows(5, hard=3)
    found = groups(tmp_path, rows)
    assert [sample.record.query for sample in found] == [row["question"] for row in rows]
    negatives = [context.text for context in found[2].record.hard_negatives]
    assert negatives == [c["text"] for c in rows[2]["hard_negative_ctxs"]]
    assert found[2].place == "p.jsonl, pair 3"


def test_pairs_without_a_negative_are_skipped_with_a_note_and_alone_are_an_error(tmp_path, capfd):
    rows = pair_rows(4, hard=2) + pair_rows(3, seed=1, negatives=0, hard=0)
    assert len(groups(tmp_path, rows)) == 4
    assert "3 pairs without a negative are skipped" in capfd.readouterr().err
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="none of 3 labelled pairs has a negative") as caught:
        groups(tmp_path / "other", rows[4:])
    assert "linkseek negatives" in caught.value.hint


def test_empty_texts(tmp_path):
    rows = pair_rows(3, hard=2)
    rows[0]["hard_negative_ctxs"][0] |= {"title": "", "text": " "}
    rows[1]["hard_negative_ctxs"][0] |= {"title": "only a title", "text": ""}
    found = groups(tmp_path, rows)
    assert [len(sample.record.hard_negatives) for sample in found] == [1, 2, 2]
    rows[2]["positive_ctxs"][0] |= {"title": "", "text": ""}
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"p\.jsonl, pair 3: its relevant passage is empty"):
        groups(tmp_path / "other", rows)


def test_random_negatives_stand_in_where_there_are_no_hard_ones(tmp_path):
    [sample] = groups(tmp_path, pair_rows(1, negatives=2, hard=0))
    assert len(sample.record.hard_negatives) == 2


# --- a run with judgements -------------------------------------------------------------------------


def test_judged_groups_have_the_most_relevant_first_each_with_results_that_are_not():
    judged = {"a": 1, "b": 3, "c": 0, "z": 2, "n": -1}
    found = list(judged_groups(["c", "b", "x", "a", "n", "y"], judged, 5))
    assert found == [("b", ["c", "x", "n"]), ("z", ["c", "x", "n"]), ("a", ["c", "x", "n"])]
    assert list(judged_groups(["a"], {"a": 0}, 5)) == []


def test_a_run_is_stored_by_rows_which_are_read_when_they_are_drawn(judged, tmp_path, monkeypatch):
    stored = open_groups(judged, False, tmp_path, data_sha256(judged))
    file = next(tmp_path.glob("groups-*.arrow"))
    assert b"ask q0" in file.read_bytes()
    texts = [p.text.encode() for p in OpenIndex.open(judged.index).passages if len(p.text) > 20]
    assert texts and not any(text in file.read_bytes() for text in texts)
    read = []
    monkeypatch.setattr(Candidates, "read", lambda self, row: read.append(row) or Candidate("", "text"))
    pair = stored[0].record
    assert read == [1] and len(pair.hard_negatives) == 2 and read == [1]
    assert [context.text for context in pair.hard_negatives] == ["text"] * 2 and read == [1, 0, 2]


@pytest.fixture
def judged(build, index_path, corpus, tmp_path) -> GroupSettings:
    """Six questions on documents of the tiny corpus, which know their addresses."""
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["url"] = f"http://x/{number}"
    write_jsonl(corpus, rows)
    build(passage_words=0)
    ids = [p.id for p in OpenIndex.open(index_path).passages][:9]
    run = {f"q{q}": [*ids[q:], "gone"] for q in range(6)}
    files = judged_files(tmp_path, run, {f"q{q}": ids[q + 1] for q in range(6)})
    return GroupSettings(index=index_path, **files, depth=3)


def test_a_run_with_judgements_becomes_groups_of_documents_with_or_without_address(judged, tmp_path):
    passages = OpenIndex.open(judged.index).passages
    for url, form in ((False, "T"), (True, r"http://x/\d+ T"), ("after title", r"T http://x/\d+")):
        stored = open_groups(judged, url, tmp_path, data_sha256(judged))
        pair = stored[0].record
        relevant = passages[1]
        assert (pair.query, stored[0].place) == ("ask q0", "r.trec, query q0")
        assert pair.positive.text == relevant.text and pair.positive.id == relevant.id
        assert re.fullmatch(form.replace("T", re.escape(relevant.title)), pair.positive.title)
        assert [c.id for c in pair.hard_negatives] == [passages[0].id, passages[2].id]


def test_judgements_of_empty_texts_are_skipped_and_counted(judged, tmp_path, capfd, monkeypatch):
    """Cranfield judges document 995, which is empty."""
    whole = open_groups(judged, False, tmp_path, "1" * 64)
    assert whole[1].record.query == "ask q1" and len(whole) == 6
    empty = OpenIndex.open(judged.index).passages[2].id
    read = CandidateTexts.__call__
    monkeypatch.setattr(
        CandidateTexts,
        "__call__",
        lambda self, row: (
            PairContext("", " ", empty) if self.candidates.id(row) == empty else read(self, row)
        ),
    )
    table = open_groups(judged, False, tmp_path, "2" * 64)
    pairs = [table[row].record for row in range(len(table))]
    assert [pair.query for pair in pairs] == [f"ask q{n}" for n in (0, 2, 3, 4, 5)]
    assert all(empty != other.id for pair in pairs for other in pair.hard_negatives)
    assert "1 judgements of empty texts are skipped" in capfd.readouterr().err


def test_a_run_of_other_questions_is_an_error(judged, tmp_path):
    judged.queries.write_text('{"id": "other", "text": "what"}\n')
    with pytest.raises(InputError, match=r"the run has none of the questions"):
        open_groups(judged, False, tmp_path, "1" * 64)


# --- shots -------------------------------------------------------------------------------


def test_shots_are_queries_and_fewer_are_a_part_of_more(tmp_path):
    rows = pair_rows(30, hard=1)
    rows += [dict(row, positive_ctxs=rows[0]["positive_ctxs"]) for row in rows[:10]]  # a second label each
    path = write_pairs(tmp_path / "p.jsonl", rows)
    stored = open_groups(GroupSettings(pairs=[path]), False, tmp_path, "0" * 64)
    numbers = query_numbers(stored.queries())
    assert numbers.tolist() == [*range(30), *range(10)]
    drawn = {shots: draw_queries(numbers, shots, 5) for shots in (5, 20)}
    assert set(drawn[5]) <= set(drawn[20])
    assert {len(set(numbers[rows])) for rows in drawn.values()} == {5, 20}
    assert all(set(rows) == set(np.flatnonzero(np.isin(numbers, numbers[rows]))) for rows in drawn.values())
    assert set(draw_queries(numbers, 5, 6)) != set(drawn[5])
    with pytest.raises(InputError, match=r"data\.shots is 31, and there are 30 queries"):
        draw_queries(numbers, 31, 5)


def test_the_limit_on_dev_pairs_counts_queries_not_relevant_documents(tmp_path):
    rows = pair_rows(5, hard=1)  # Robust04 has some 70 relevant documents a topic
    asked = [rows[number]["question"] for number in (4, 2, 4, 0, 2)]
    path = write_pairs(tmp_path / "p.jsonl", [r | {"question": q} for r, q in zip(rows, asked, strict=True)])
    assert [pair.query for pair in dev_pairs([path], 2)] == [asked[n] for n in (0, 1, 2, 4)]
    assert len(dev_pairs([path], 1_000)) == 5 and dev_pairs([], 1) == []


# --- what a model reads ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    folder = save_tiny_reranker(tmp_path_factory.mktemp("models") / "tiny")
    return open_scorer(str(folder), device="cpu", precision="float32")


PAIR = Pair(
    "it\u2019s",
    PairContext("t", "right"),
    hard_negatives=tuple(PairContext(f"t{n}", f"w{n}") for n in range(5)),
)
SAMPLE = Sample(7, "p, pair 8", PAIR)


def test_groups_are_read_as_they_are_scored(scorer):
    texts = GroupTexts(TextFormat(), 2, seed=3)
    pairs = texts.pairs(SAMPLE, 0)
    assert pairs[0] == ("it's", "t right") and len(pairs) == 3
    assert {text for _, text in pairs[1:]} <= {f"t{n} w{n}" for n in range(5)}
    assert texts.pairs(SAMPLE, 0) == pairs
    assert len({tuple(texts.pairs(SAMPLE, epoch)) for epoch in range(20)}) > 5  # drawn anew each epoch
    assert texts.dev_pairs([PAIR]) == [("it's", "t right"), ("it's", "t0 w0"), ("it's", "t1 w1")]
    without_title = GroupTexts(TextFormat(title=False), 1)
    assert without_title.dev_pairs([PAIR])[0] == ("it's", "right")
    long = [("a " * 60, "b " * 60), ("a " * 60, "b"), ("", "b " * 99), *pairs]
    tokenizer = PairTokenizer(scorer.facts)
    for mine, theirs in zip(tokenizer.tokens(long), scorer.tokenize_pairs(long), strict=True):
        assert mine.tolist() == theirs.tolist() and len(mine) <= scorer.max_tokens


@pytest.mark.parametrize(
    ("mini_batch", "pieces"),
    [(0, [9]), (20, [9]), (7, [6, 3]), (5, [4, 5]), (4, [4, 2, 3]), (3, [3, 3, 3]), (1, [1] * 9)],
)
def test_a_batch_is_cut_between_groups_where_they_fit(scorer, mini_batch, pieces):
    pairs = [replace(PAIR, hard_negatives=PAIR.hard_negatives[:n]) for n in (3, 1, 2)]
    collator = GroupCollator(PairTokenizer(scorer.facts), GroupTexts(TextFormat(), 3).pairs, mini_batch)
    batch = collator([replace(SAMPLE, record=pair) for pair in pairs], 0)
    assert batch["mask"].sum(dim=1).tolist() == [4, 2, 3]
    assert [len(piece["input_ids"]) for piece in batch["pieces"]] == pieces


# --- the dev measure -------------------------------------------------------------------------------


def test_reciprocal_ranks_by_hand():
    scores = np.array([3, 1, 2, 1, 2, 3, 0, 0], np.float32)  # ranks 1, 3, and 2 for a tie
    ones = [1, 1, 1]
    assert mean_reciprocal_rank(scores, [3, 3, 2], ones) == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
    assert mean_reciprocal_rank(scores, [3, 3, 2], ones, cut=2) == pytest.approx((1 + 0 + 1 / 2) / 3)
    several = np.array([1, 3, 2, 4], np.float32)  # of two relevant texts the better one counts: rank 2
    assert mean_reciprocal_rank(several, [4], [2]) == pytest.approx(1 / 2)


def test_what_is_no_number_is_never_to_a_models_advantage():
    nan = np.nan
    assert mean_reciprocal_rank(np.array([nan, 1, 2], np.float32), [3], [1]) == pytest.approx(1 / 3)
    assert mean_reciprocal_rank(np.array([5, nan, 2], np.float32), [3], [1]) == pytest.approx(1 / 2)
    assert mean_reciprocal_rank(np.array([nan, nan], np.float32), [2], [1]) == pytest.approx(1 / 2)


def test_dev_texts_of_a_query_are_its_relevant_ones_and_each_negative_once():
    def context(text):
        return PairContext("", text)

    first = Pair("q", context("r1"), hard_negatives=(context("a"), context("b"), context("c")))
    second = Pair("q", context("r2"), hard_negatives=(context("a"), context("r1"), context("d")))
    texts = [text for _, text in GroupTexts(TextFormat(), 3).dev_pairs([first, second])]
    assert texts == ["r1", "r2", "a", "b", "c"]


def test_the_measure_is_that_of_the_models_scores(scorer, tmp_path):
    import torch
    from sentence_transformers import CrossEncoder

    pairs = [sample.record for sample in groups(tmp_path, pair_rows(9, hard=6))]
    texts = GroupTexts(TextFormat(), 5)
    model = CrossEncoder(scorer.location, device="cpu")
    found = DevGroups(model, torch.device("cpu"), pairs, PairTokenizer(scorer.facts), texts)()
    ranks = []
    for pair in pairs:
        scores = model.predict(texts.dev_pairs([pair]), show_progress_bar=False)
        ranks.append(1 / (1 + int((scores[1:] >= scores[0]).sum())))
    assert found == pytest.approx(np.mean(ranks), abs=1e-6) and 0.1 < found < 0.9


# --- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.pairs=[]"], "one of the two"),
        (["data.run='r'"], "one of the two"),
        (["data.pairs=[]", "data.run='r'"], "belong together"),
        (["texts.url=true"], "texts.url needs documents with addresses"),
        (["model.kind=knmr"], "model.kind"),
        (["model.kind=knrm", "model.train=lora"], "is for cross-encoders"),
        (["model.kind=knrm", "model.hidden_dropout=0"], "are for cross-encoders"),
        (["model.embeddings='glove.txt'"], "are for kinds of plug-ins"),
        (["data.negatives=0"], "data.negatives"),
        (["loss.temperature=2"], 'unknown key "temperature" in'),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, settings, message):
    path = tmp_path / "c.toml"
    path.write_text('[data]\npairs = ["p.jsonl"]\n[output]\nfolder = "out"\n')
    assert read_settings(FinetuneConfig, path).loss.kind == "lce"
    with pytest.raises(UsageError, match=re.escape(message)):
        read_settings(FinetuneConfig, path, settings)
