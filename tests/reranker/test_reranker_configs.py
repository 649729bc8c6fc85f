"""Every re-ranker's file of configs/ takes one step, on tiny data; the documentation names every setting."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from command import ROOT
from tiny_training import pair_rows, save_normalized, write_pairs

from linkseek.indexer.base.settings import read_settings
from linkseek.indexer.index import Index
from linkseek.reranker.commands.finetune import main
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.reranker.training.config import FinetuneConfig

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIGS = sorted((ROOT / "configs").glob("*reranker.toml"))


def test_the_papers_settings_are_there():
    assert {path.stem for path in CONFIGS} >= {
        "harp-reranker",
        "php-reranker",
        "prop-reranker",
        "squad-reranker",
    }
    harp = read_settings(FinetuneConfig, ROOT / "configs" / "harp-reranker.toml")
    assert harp.training.batch * (1 + harp.data.negatives) == 128 and harp.loss.kind == "pointwise"
    assert (harp.training.epochs, harp.training.learning_rate, harp.training.warmup) == (2, 1e-5, 0.1)
    assert harp.texts.url == "after title" and harp.texts.tokens == 512
    php = read_settings(FinetuneConfig, ROOT / "configs" / "php-reranker.toml")
    assert (php.training.batch, php.training.epochs, php.training.warmup) == (32, 1, 0.01)
    linkbert = read_settings(FinetuneConfig, ROOT / "configs" / "linkbert-reranker.toml")
    assert linkbert.model_copy(update={"model": php.model, "output": php.output}) == php
    prop = read_settings(FinetuneConfig, ROOT / "configs" / "prop-reranker.toml")
    assert (prop.folds.count, prop.data.depth, prop.training.batch) == (5, 200, 16)


def test_the_documentation_names_every_setting():
    text = (ROOT / "docs" / "reference" / "training.md").read_text()
    files = (ROOT / "docs" / "how-to" / "re-ranker.md").read_text()
    for table, field in FinetuneConfig.model_fields.items():
        assert f"`[{table}]`" in text
        for key in field.annotation.model_fields:
            assert f"`{key}`" in text, f"{table}.{key}"
    assert all(path.name in files for path in CONFIGS)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_takes_a_step(path, build, index_path, tmp_path):
    save_normalized(tmp_path / "base", max_position_embeddings=512)
    values = tomllib.loads(path.read_text())
    settings = [f"output.folder={tmp_path / 'out'}", "training.steps=1", "training.device=cpu"]
    settings += [f"model.base={tmp_path / 'base'}", "training.batch=2", "data.negatives=2"]
    if "pairs" in values["data"]:
        settings.append(f"data.pairs=['{write_pairs(tmp_path / 'p.jsonl', pair_rows(8, hard=3))}']")
        if "shots" in values["data"]:
            settings.append("data.shots=4")
        if "dev" in values:
            settings.append(f"dev.pairs=['{write_pairs(tmp_path / 'd.jsonl', pair_rows(4, 1, hard=3))}']")
    else:
        build(passage_words=0)
        settings += judged_run(index_path, tmp_path)
    main([str(path), *(word for s in settings for word in ("--set", s))])
    assert (tmp_path / "out" / "training.toml").is_file()
    assert list((tmp_path / "out").rglob("*.safetensors"))
    if path.stem == "harp-reranker":
        scorer = open_scorer(str(tmp_path / "out"), device="cpu")
        assert scorer.text_format.head(Candidate("T", "x", "http://u")) == "T http://u "
        again = [f"output.folder={tmp_path / 'again'}", "texts.url=false", f"model.base={tmp_path / 'out'}"]
        main([str(path), *(word for s in [*settings, *again] for word in ("--set", s))])
        scorer = open_scorer(str(tmp_path / "again"), device="cpu")
        assert scorer.text_format.head(Candidate("T", "x", "http://u")) == "T "  # as it was trained


def judged_run(index_path: Path, folder: Path) -> list[str]:
    ids = [passage.id for passage in Index.open(index_path).passages][:4]
    run, qrels, queries = (folder / name for name in ("run.trec", "qrels.txt", "queries.jsonl"))
    run.write_text("".join(f"q{q} Q0 {d} {n} {9 - n} t\n" for q in range(6) for n, d in enumerate(ids)))
    qrels.write_text("".join(f"q{q} 0 {ids[q % 3]} 1\n" for q in range(6)))
    queries.write_text("".join(json.dumps({"id": f"q{q}", "text": f"ask {q}"}) + "\n" for q in range(6)))
    return [f"data.{name}='{path}'" for name, path in
            {"index": index_path, "run": run, "qrels": qrels, "queries": queries}.items()]  # fmt: skip
