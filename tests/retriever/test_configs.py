"""Every file of configs/ takes one step, on tiny data and a tiny base."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from command import ROOT
from tiny_training import pair_rows, save_bert, save_normalized, save_static, write_pairs
from tokenizers import Tokenizer

from linkseek.indexer.base.defaults import DEFAULT_ENCODER
from linkseek.indexer.base.settings import read_settings
from linkseek.retriever.commands.mlm import main as train_masked
from linkseek.retriever.commands.train import main as train
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.training.config import TrainConfig

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIGS = sorted(
    path
    for path in (ROOT / "configs").glob("*.toml")
    if "rerank" not in path.name and "stages" not in tomllib.loads(path.read_text())
)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    save_bert(folder / "bert", max_position_embeddings=256)
    save_static(folder / "static")
    save_normalized(folder / "normalized", max_position_embeddings=256)
    write_pairs(folder / "pretrain.jsonl", pair_rows(130, objectives=("dual-link",)))
    write_pairs(folder / "finetune.jsonl", pair_rows(130))
    return folder


def test_the_papers_settings_are_there():
    names = {path.stem for path in CONFIGS}
    assert names >= {"hlp-pretrain", "hlp-finetune", "small-mlm", "small-pretrain", "minilm-lora"}
    config = read_settings(TrainConfig, ROOT / "configs/hlp-pretrain.toml")
    assert (config.training.batch, config.training.epochs, config.loss.mask_duplicates) == (400, 5, "off")


@pytest.mark.parametrize("name", ["hlp-pretrain", "hlp-finetune"])
def test_hlp_reads_title_and_text_as_dpr_does(name):
    separator = read_settings(TrainConfig, ROOT / "configs" / f"{name}.toml").texts.separator
    tokenizer = Tokenizer.from_file(str(find_model(DEFAULT_ENCODER) / "tokenizer.json"))  # BERT's
    title, text = "Apple Remote", "The Apple Remote is a device."
    assert tokenizer.encode(f"{title}{separator}{text}").ids == tokenizer.encode(title, text).ids


def test_the_documentation_names_every_setting():
    text = (ROOT / "docs" / "reference" / "training.md").read_text()
    files = (ROOT / "docs" / "how-to" / "bi-encoder.md").read_text()
    for table, field in TrainConfig.model_fields.items():
        assert f"`[{table}]`" in text
        for key in field.annotation.model_fields:
            assert f"`{key}`" in text, f"{table}.{key}"
    assert all(path.name in files for path in CONFIGS)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_takes_a_step(path, data, build, index_path, tmp_path):
    values = tomllib.loads(path.read_text())
    settings = [f"output.folder={tmp_path / 'out'}", "training.steps=1", "training.device=cpu"]
    if "stage" not in values:
        build()
        settings += [f"data.index={index_path}", f"model.tokenizer={data / 'bert'}", "model.width=64"]
        train_masked([str(path), *(word for s in settings for word in ("--set", s))])
    else:
        kinds = {"MiniLM": "normalized", "static": "static"}
        base = next((base for word, base in kinds.items() if word in values["model"]["base"]), "bert")
        pairs = data / f"{values['stage']['kind']}.jsonl"
        settings += [f"model.base={data / base}", f"data.pairs=['{pairs}']", "training.batch=8"]
        if "teacher" in values:
            build(
                encoders=["normalized"],
                open_encoder=lambda name, title: open_biencoder(str(data / name), title=title),
            )
            named = values["teacher"]["encoder"]  # one teacher or several
            teachers = [str(data / "normalized")] * (len(named) if isinstance(named, list) else 1)
            settings += [f"teacher.encoder={teachers}", f"teacher.index={index_path}"]
            settings += [f"teacher.vectors={tmp_path / 'teacher.safetensors'}"]
        settings += [f"dev.pairs=['{data / 'finetune.jsonl'}']", "dev.most=4"]
        train([str(path), *(word for s in settings for word in ("--set", s))])
    assert (tmp_path / "out" / "training.toml").is_file()
    assert list((tmp_path / "out").rglob("*.safetensors"))
