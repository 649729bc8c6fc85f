"""Settings, the two stages, batches and the few pairs of few-shot training."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.settings import read_settings, settings_text
from linkseek.retriever.mining.pairs import Pair, PairContext
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.training.config import TrainConfig
from linkseek.retriever.training.samples.pair_inputs import PairCollator
from linkseek.retriever.training.samples.sample_table import (
    Batches,
    PairTable,
    Sample,
    SampleTable,
    open_pairs,
)
from tests.support.tiny.training import pair_rows, write_pairs

# --- settings ------------------------------------------------------------------------------------

SMALL = '[stage]\nkind = "{}"\n[data]\npairs = ["p.jsonl"]\n[output]\nfolder = "out"\n'


@pytest.fixture
def write(tmp_path):
    def run(text: str) -> Path:
        (tmp_path / "c.toml").write_text(text)
        return tmp_path / "c.toml"

    return run


def test_the_stages_have_the_papers_defaults(write):
    pretrain, finetune = (
        read_settings(TrainConfig, write(SMALL.format(kind))) for kind in ("pretrain", "finetune")
    )
    for config, towers, tokens, title, batch, epochs, given in (
        (pretrain, "shared", (150, 256), False, 400, 5, (1, 0)),
        (finetune, "two", (256, 256), True, 256, 40, (0, 1)),
    ):
        assert config.model.towers == towers and config.texts.title is title
        assert (config.texts.query_tokens, config.texts.passage_tokens) == tokens
        assert (config.training.batch, config.training.epochs) == (batch, epochs)
        assert (config.data.negatives, config.data.hard_negatives) == given
        assert (config.training.learning_rate, config.training.warmup) == (2e-5, 0.1)
        assert (config.training.clip, config.training.seed) == (2.0, 12345)


def test_what_is_written_beside_a_model_is_what_was_read(write, tmp_path):
    config = read_settings(TrainConfig, write(SMALL.format("finetune")), ["loss.scale=3", "data.shots=16"])
    (tmp_path / "again.toml").write_text(settings_text(config))
    assert read_settings(TrainConfig, tmp_path / "again.toml") == config
    assert tomllib.loads(settings_text(config))["training"]["adam_epsilon"] == 1e-8


def test_single_settings_are_set_on_the_command_line(write):
    path = write(SMALL.format("pretrain"))
    config = read_settings(
        TrainConfig, path, ["training.seed=2", "output.folder=else where", 'data.pairs=["a", "b"]']
    )
    assert (config.training.seed, config.output.folder) == (2, Path("else where"))
    assert config.data.pairs == [Path("a"), Path("b")]


PAGE = "docs/reference/training.md"


@pytest.mark.parametrize(
    ("text", "override", "message", "hint"),
    [
        ("", "", "stage.kind: missing", PAGE),
        (SMALL.format("train"), "", "stage.kind: needs pretrain or", PAGE),
        (SMALL.format("pretrain") + "[trainig]\n", "", 'unknown table "trainig"', "Did you mean training"),
        (SMALL.format("pretrain"), "training.bach=3", r'"bach" in \[training\]', "Did you mean batch"),
        (SMALL.format("pretrain"), "training.batch=x", "number of at least 1 .given: 'x'", PAGE),
        (SMALL.format("pretrain"), f"training.seed={1 << 32}", "seed: .* and below 4,294,967,296", PAGE),
        (SMALL.format("pretrain"), "batch", "expected TABLE.KEY=VALUE", "training.seed"),
        (SMALL.format("pretrain"), "stage.kind.x=1", "kind is not a table", "TABLE.KEY"),
        (SMALL.format("finetune"), "model.train=lora", "needs model.towers", PAGE),
        (SMALL.format("pretrain"), "model.train=query", "needs model.towers", PAGE),
        ('[stage]\nkind = "pretrain"\n', "", "data.pairs: missing", PAGE),
        ("[stage", "", "not TOML", PAGE),
    ],
)
def test_settings_that_do_not_fit_are_named(write, text, override, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        read_settings(TrainConfig, write(text), filter(None, [override]))
    assert hint in caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such file\n  Check the path"):
        read_settings(TrainConfig, tmp_path / "none.toml")


# --- the two stages ------------------------------------------------------------------------------


def stored(tmp_path: Path, rows, kind: str) -> PairTable:
    return open_pairs([write_pairs(tmp_path / "p.jsonl", rows)], kind, tmp_path / "p.arrow")


def test_each_stage_refuses_the_others_pairs(tmp_path):
    mined, labelled = pair_rows(2, objectives=("dual-link",)), pair_rows(2)
    with pytest.raises(InputError, match=r"p\.jsonl, pair 2: no \"objective\", .*labelled") as caught:
        stored(tmp_path, mined[:1] + labelled, "pretrain")
    assert 'kind = "finetune"' in caught.value.hint
    with pytest.raises(InputError, match=r"pair 3: mined by the objective \"dual-link\"") as caught:
        stored(tmp_path, labelled + mined, "finetune")
    assert 'kind = "pretrain"' in caught.value.hint
    assert not (tmp_path / "p.arrow").exists()


def test_a_line_that_is_no_pair_is_named(tmp_path):
    with pytest.raises(InputError, match=r"p\.jsonl, line 2: no positive passage"):
        stored(tmp_path, [*pair_rows(1), {"question": "q"}], "finetune")


def test_rows_are_what_the_file_holds(tmp_path):
    rows = pair_rows(5, objectives=("a", "b"), negatives=3, hard=0)
    found = stored(tmp_path, rows, "pretrain")
    assert len(found) == 5
    sample = found[3]
    assert (sample.row, sample.place) == (3, "p.jsonl, pair 4")
    assert (sample.record.query, sample.record.objective) == (rows[3]["question"], "b")
    assert [c.text for c in sample.record.negatives] == [c["text"] for c in rows[3]["negative_ctxs"]]
    assert {name: r.tolist() for name, r in found.sources().items()} == {"a": [0, 2, 4], "b": [1, 3]}
    assert (found.count("negatives"), found.count("hard_negatives")) == ({3: 5}, {0: 5})


@dataclass(frozen=True)
class Inner:
    text: str
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Record:
    name: str
    number: int
    fact: bool
    inner: Inner
    more: tuple[Inner, ...]
    left: str = "default"


class Records(SampleTable[Record]):
    record = Record
    fields = "name", "number", "fact", "inner", "more"
    shared = "name", "text"


def test_a_table_follows_from_its_record_and_stores_shared_texts_once(tmp_path):
    inner = Inner("a text that is shared", ((0, 1), (2, 6)))
    records = [Record(f"r{n % 2}", -n, n == 1, inner, (inner, Inner("")) * (n % 2)) for n in range(4)]
    table = Records.open(
        tmp_path / "t.arrow", ((record, {"place": f"row {n}"}) for n, record in enumerate(records)), "rows"
    )
    assert [table[row].record for row in range(4)] == records
    again = Records(tmp_path / "t.arrow")
    assert [again[row] for row in (3, 1)] == [Sample(3, "row 3", records[3]), Sample(1, "row 1", records[1])]
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert stored.count(b"a text that is shared") == 1


# --- few shots -----------------------------------------------------------------------------------


def chosen(rows: PairTable, shots: int, seed: int) -> set[int]:
    return set(np.concatenate(list(rows.sources(shots, seed).values())).tolist())


def test_few_shots_are_the_same_for_the_same_seed_and_a_part_of_more(tmp_path):
    rows = stored(tmp_path, pair_rows(200), "finetune")
    many, few = chosen(rows, 128, 1), chosen(rows, 16, 1)
    assert (len(many), len(few)) == (128, 16)
    assert few < many and few == chosen(rows, 16, 1)
    assert chosen(rows, 16, 2) != few
    with pytest.raises(InputError, match=r"data\.shots is 201, and there are 200 pairs"):
        rows.sources(201)


# --- batches -------------------------------------------------------------------------------------

SOURCES = {"dual-link": np.arange(0, 23), "co-mention": np.arange(100, 111)}


def test_a_batch_has_one_source_and_an_epoch_every_row_once():
    batches = list(Batches(SOURCES, 4, seed=1).epoch(0))
    assert len(batches) == len(Batches(SOURCES, 4, seed=1)) == 6 + 3
    assert sorted(chain.from_iterable(batches)) == [*range(23), *range(100, 111)]
    assert all(len({row >= 100 for row in batch}) == 1 for batch in batches)
    assert sorted(map(len, batches)) == [3, 3, 4, 4, 4, 4, 4, 4, 4]
    sources = [batch[0] >= 100 for batch in batches]
    assert sources != sorted(sources)  # shuffled among each other


def test_batches_depend_on_seed_and_epoch_alone():
    one, same, other = Batches(SOURCES, 4, 1), Batches(SOURCES, 4, 1), Batches(SOURCES, 4, 2)
    first = list(one.epoch(0))
    assert first == list(one.epoch(0)) == list(same.epoch(0)) != list(other.epoch(0))
    assert list(one.epoch(1)) == list(same.epoch(1)) != first


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_the_batches_of_one(processes):
    parts = [list(Batches(SOURCES, 4, 1, process=n, processes=processes).epoch(0)) for n in range(processes)]
    whole = list(Batches(SOURCES, 4, 1).epoch(0))
    joined = [list(chain.from_iterable(batch)) for batch in zip(*parts, strict=True)]
    full = sorted(batch for batch in whole if len(batch) == 4)
    assert full == sorted(batch for batch in joined if len(batch) == 4)
    assert all(len({len(part) for part in batch}) == 1 for batch in zip(*parts, strict=True))


def test_a_batch_that_processes_cannot_share_is_an_error():
    with pytest.raises(InputError, match="3 processes cannot divide equally"):
        Batches(SOURCES, 4, 1, processes=3)
    with pytest.raises(InputError, match="less data than processes"):
        Batches({"ict": np.arange(3)}, 4, 1, processes=4)


# --- negatives of a pair -------------------------------------------------------------------------


def test_negatives_are_drawn_anew_each_epoch_and_alike_in_another_run():
    names = [PairContext("", str(n)) for n in range(9)]
    pair = Pair("q", names[0], tuple(names[1:3]), tuple(names[3:]))
    collator = PairCollator(None, TextFormat(), 8, 8, negatives=2, hard_negatives=2, seed=1)

    def texts(row: int, epoch: int) -> list[str]:
        return [context.text for context in collator.contexts(Sample(row, "", pair), epoch)]

    drawn = [texts(4, epoch) for epoch in range(20)]
    assert all(d[:3] == ["0", "1", "2"] and len(set(d[3:])) == 2 for d in drawn)
    assert {text for d in drawn for text in d[3:]} == set("345678")
    assert [texts(4, epoch) for epoch in range(20)] == drawn
    assert [texts(5, epoch) for epoch in range(20)] != drawn
