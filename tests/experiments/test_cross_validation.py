"""Cross-validation of re-rankers: folds, and who trains, chooses and is ranked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import cross_validation
from experiments.cross_validation import fold_of_each, fold_split, main, read_folds
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.training import finetuning
from linkseek.retriever.search.runs import read_run
from linkseek.retriever.training.loop import train_steps
from tests.support.command import train_here
from tests.support.rankings import judged_files
from tests.support.tiny.training import pair_rows, save_bert, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

cross_validate = partial(train_here, main)

CONFIG = """
model = {{ base = "{folder}/bert" }}
data = {{ pairs = ["{folder}/pairs.jsonl"], negatives = 3 }}
texts = {{ tokens = 28 }}
training = {{ batch = 8, learning_rate = 1e-3, seed = 7, device = "cpu" }}
output = {{ folder = "{folder}/out" }}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tiny base, pairs and settings."""
    save_bert(tmp_path / "bert")
    write_pairs(tmp_path / "pairs.jsonl", pair_rows(32, hard=5))
    (tmp_path / "c.toml").write_text(CONFIG.format(folder=tmp_path))
    return tmp_path / "c.toml"


def test_in_folds_each_query_is_ranked_by_a_model_that_has_not_seen_it(
    config, build, index_path, tmp_path, monkeypatch
):
    build(passage_words=0)
    from linkseek.indexer.index import OpenIndex

    ids = [passage.id for passage in OpenIndex.open(index_path).passages][:6]
    names = [f"q{n}" for n in range(7)]  # the last one without a judgement
    qrels = {f"q{n}": ids[n % 3] for n in range(6)}
    judged = judged_files(tmp_path, dict.fromkeys(names, ids), qrels)
    files = [f"data.{key}='{path}'" for key, path in ({"index": index_path} | judged).items()]
    seen: list[set[str]] = []

    def spy(task: Any, *rest: Any) -> Any:
        seen.append({task.samples[row].record.query for batch in task.batches.epoch(0) for row in batch})
        return train_steps(task, *rest)

    monkeypatch.setattr(finetuning, "train_steps", spy)
    settings = [*files, "data.pairs=[]", "folds.count=3", "training.epochs=1"]
    out = cross_validate(config, *settings, "data.depth=4", "output.checkpoint_steps=1")
    folds = dict(line.split("\t")[::-1] for line in (out / "folds.tsv").read_text().splitlines())
    assert sorted(folds) == [f"ask q{n}" for n in range(6)]
    before, found = read_run(judged["run"]), read_run(out / "run.trec")
    assert list(found) == names
    for query, results in found.items():
        assert sorted(results) == sorted(before[query])
        assert list(results)[4:] == list(before[query])[4:]  # below the depth
    assert any(list(found[q]) != list(before[q]) for q in names)
    for fold in range(3):
        held_out = [query for query, number in folds.items() if number == str(fold)]
        assert len(held_out) == 2 and not seen[fold] & set(held_out)
        scorer = open_scorer(str(out / f"fold-{fold}"), device="cpu")
        passages = {p.id: p for p in OpenIndex.open(index_path).passages}
        for query in held_out:
            best = ids[:4]
            texts = [f"{passages[d].title} {passages[d].text}" for d in best]
            own = scorer.score([query] * 4, texts)
            order = [best[place] for place in np.argsort(-own, kind="stable")]
            assert list(found[query.removeprefix("ask ")])[:4] == order
    assert not (tmp_path / "out.linkseek-training").exists()


def test_folds_of_a_file_decide_who_trains_chooses_and_is_ranked(config, tmp_path, monkeypatch):
    queries = [row["question"] for row in pair_rows(32, hard=5)]
    folds = [set(queries[:5]), set(queries[5:20]), set(queries[20:])]
    official = tmp_path / "official.tsv"
    official.write_text("".join(f"{n}\t{query}\n" for n, fold in enumerate(folds) for query in fold))
    trained: list[tuple[list[str], list[str]]] = []

    def spy(_: Any, run: Any, table: Any, chosen: Any, dev_pairs: Any, sha256: str) -> None:
        rows = [table[row].record.query for row in chosen.tolist()]
        trained.append((rows, [pair.query for pair in dev_pairs]))

    monkeypatch.setattr(cross_validation, "train_on_groups", spy)
    out = cross_validate(config, f"folds.file='{official}'")
    parts = [(set(rows), set(dev)) for rows, dev in trained]
    assert parts == [(folds[2], folds[1]), (folds[0], folds[2]), (folds[1], folds[0])]
    assert sorted((out / "folds.tsv").read_text().splitlines()) == sorted(official.read_text().splitlines())


def test_folds_part_the_queries_evenly_and_never_the_rows_of_one():
    queries = [f"q{n % 12}" for n in range(40)]
    fold_of = fold_of_each(queries, 5, seed=1)
    assert sorted(np.bincount(list(fold_of.values())).tolist()) == [2, 2, 2, 3, 3]
    folds = np.array([fold_of[query] for query in queries])
    tested = []
    for held_out in range(5):
        parts = [{queries[row] for row in rows} for rows in fold_split(folds, held_out, 5)]
        rest = {query for query, fold in fold_of.items() if fold == held_out}
        assert not parts[0] & parts[1] and not rest & (parts[0] | parts[1])
        assert parts[0] | parts[1] | rest == set(queries)
        tested += sorted(rest)
    assert sorted(tested) == sorted(fold_of)  # each query is ranked once
    assert fold_of_each(queries, 5, seed=2) != fold_of
    with pytest.raises(InputError, match=r"folds\.count is 5, and there are 2 queries"):
        fold_of_each(["a", "b", "a"], 5, 1)


def test_folds_are_read_by_id_or_text(tmp_path):
    path = tmp_path / "folds.tsv"
    path.write_text("0\t301\n1\twho wrote it\n2\tWhat  is it?\n1\t302\n7\tof another collection\n")
    text_of = {"301": "international crime", "302": "who  wrote it", "303": "What is\u2028it?"}
    queries = ["who  wrote it", "international crime", "What is\u2028it?", "international crime"]
    expected = {"international crime": 0, "who  wrote it": 1, "What is\u2028it?": 2}
    assert read_folds(path, queries, text_of) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0 a\n", r"line 1: not a query of a fold"),
        ("0\ta\n-1\tb\n", r"line 2: not a query of a fold"),
        ("0\ta\n1\tb\n2\ta\n", r"line 3: 'a' is also in fold 0"),
        ("0\ta\n1\tb\n", r"no fold for the query 'c'"),
        ("0\ta\n1\tb\n1\tc\n", r"the judged queries are in the folds \[0, 1\]"),
        ("1\ta\n2\tb\n3\tc\n", r"the judged queries are in the folds \[1, 2, 3\]"),
        ("0\ta\n1\tb\n2\tc\n3\tunjudged\n", r"the judged queries are in the folds \[0, 1, 2\]"),
    ],
)
def test_invalid_files_of_folds_are_refused(tmp_path, lines, message):
    path = tmp_path / "folds.tsv"
    path.write_text(lines)
    with pytest.raises(InputError, match=message):
        read_folds(path, "abca", {"9": "unjudged"})


@pytest.mark.parametrize("setting", ["folds.count=2", "dev.pairs=['d']"])
def test_settings_that_do_not_fit_are_refused(config, setting):
    with pytest.raises(UsageError, match=setting.partition("=")[0]):
        cross_validate(config, setting)
