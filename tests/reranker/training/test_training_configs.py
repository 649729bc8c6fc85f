"""Every training's file of configs/ takes one step, on tiny data; the documentation names every setting."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError
from tokenizers import Tokenizer

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.settings import Settings, read_settings
from linkseek.reranker.commands.finetune import main as finetune
from linkseek.reranker.commands.pretrain import main as pretrain
from linkseek.reranker.models.scoring import open_scorer
from linkseek.reranker.pair_texts import Candidate
from linkseek.reranker.training.config import FinetuneConfig, PretrainConfig, RerankerStageSettings
from linkseek.retriever.commands.mlm import main as train_masked
from linkseek.retriever.commands.train import main as train
from linkseek.retriever.models.biencoder import open_biencoder
from linkseek.retriever.models.locations import find_model
from linkseek.retriever.training.config import MlmConfig, TrainConfig
from linkseek.retriever.training.log import read_log
from tests.support.command import ROOT, train_here
from tests.support.rankings import judged_files
from tests.support.tiny.training import (
    pair_rows,
    save_bert,
    save_normalized,
    save_static,
    write_pairs,
    write_tiny_contrasts,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def kind_of(path: Path) -> type[Settings]:
    """The settings that a file of configs/ is for."""
    tables = tomllib.loads(path.read_text())
    if "stages" in tables:
        return PretrainConfig
    if "rerank" in path.name:
        return FinetuneConfig
    return TrainConfig if "stage" in tables else MlmConfig


KINDS = {path: kind_of(path) for path in sorted((ROOT / "configs").glob("*.toml"))}
"""The files of configs/."""


def of_kind(*kinds: type[Settings]) -> list[Path]:
    return [path for path, kind in KINDS.items() if kind in kinds]


def each(*kinds: type[Settings]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", of_kind(*kinds), ids=lambda path: path.stem)


def read(name: str) -> Settings:
    path = ROOT / "configs" / f"{name}.toml"
    return read_settings(KINDS[path], path)


# --- the papers' settings ---------------------------------------------------------------------------


def test_rivals_of_php_are_trained_as_it_is():
    php, tuned = read("php-pretrain"), read("php-reranker")
    assert (
        read("linkbert-reranker").model_copy(update={"model": tuned.model, "output": tuned.output}) == tuned
    )
    for rival in map(read, ("ict-pretrain", "wlp-pretrain")):  # as PHP's first stage
        assert (rival.training, rival.texts) == (php.training, php.texts)
        assert {stage.negatives for stage in (*php.stages, *rival.stages)} == {24}
    assert read("prop-pretrain").training.batch * 2 == read("harp-pretrain").training.batch * 2 == 128
    harp = read("harp-reranker")
    assert harp.training.batch * (1 + harp.data.negatives) == 128


@pytest.mark.parametrize("name", ["hlp-pretrain", "hlp-finetune"])
def test_hlp_reads_title_and_text_as_dpr_does(name):
    separator = read(name).texts.separator
    tokenizer = Tokenizer.from_file(str(find_model(DEFAULT_ENCODER) / "tokenizer.json"))  # BERT's
    title, text = "Apple Remote", "The Apple Remote is a device."
    assert tokenizer.encode(f"{title}{separator}{text}").ids == tokenizer.encode(title, text).ids


# --- their documentation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "page"),
    [
        ([TrainConfig, MlmConfig], "bi-encoder.md"),
        ([FinetuneConfig], "re-ranker.md"),
        ([PretrainConfig], "re-ranker.md"),
    ],
)
def test_the_documentation_names_every_setting(kinds, page):
    text = (ROOT / "docs" / "reference" / "training.md").read_text()
    files = (ROOT / "docs" / "how-to" / page).read_text()
    for table, field in kinds[0].model_fields.items():
        found = [field.annotation, *get_args(field.annotation)]  # a table, or a list of tables
        [settings] = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Settings)]
        assert f"`[{table}]`" in text or f"`[[{table}]]`" in text
        for key in settings.model_fields:
            assert f"`{key}`" in text, f"{table}.{key}"
    assert all(path.name in files for path in of_kind(*kinds)) and len(of_kind(*kinds)) >= 7


@pytest.mark.parametrize("name", [".", "..", "...", "x" * 300, "nul", "a/b", "../x", "a."])
def test_the_name_of_a_stage_is_that_of_a_folder(name):
    with pytest.raises(ValidationError, match="name"):
        RerankerStageSettings(name=name, contrasts=["x"])


# --- one step of each -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    save_bert(folder / "bert", max_position_embeddings=256)
    save_static(folder / "static")
    save_normalized(folder / "normalized", max_position_embeddings=512)
    write_pairs(folder / "pretrain.jsonl", pair_rows(130, objectives=("dual-link",)))
    write_pairs(folder / "finetune.jsonl", pair_rows(130))
    write_pairs(folder / "hard.jsonl", pair_rows(8, hard=3))
    return folder


@pytest.fixture
def common(tmp_path) -> list[str]:
    return [f"output.folder={tmp_path / 'out'}", "training.steps=1", "training.device=cpu"]


def check(out: Path) -> None:
    assert (out / "training.toml").is_file() and list(out.rglob("*.safetensors"))


@each(MlmConfig)
def test_a_masked_training_takes_a_step(path, data, build, index_path, tmp_path, common):
    build()
    settings = [f"data.index={index_path}", f"model.tokenizer={data / 'bert'}", "model.width=64"]
    train_here(train_masked, path, *common, *settings)
    check(tmp_path / "out")


@each(TrainConfig)
def test_a_training_on_pairs_takes_a_step(path, data, build, index_path, tmp_path, common):
    values = tomllib.loads(path.read_text())
    kinds = {"MiniLM": "normalized", "static": "static"}
    base = next((base for word, base in kinds.items() if word in values["model"]["base"]), "bert")
    pairs = data / f"{values['stage']['kind']}.jsonl"
    settings = [f"model.base={data / base}", f"data.pairs=['{pairs}']", "training.batch=8"]
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
    train_here(train, path, *common, *settings)
    check(tmp_path / "out")


@each(FinetuneConfig)
def test_a_fine_tuning_takes_a_step(path, data, build, index_path, tmp_path, common):
    values = tomllib.loads(path.read_text())
    settings = [*common, f"model.base={data / 'normalized'}", "training.batch=2", "data.negatives=2"]
    if "pairs" in values["data"]:
        settings.append(f"data.pairs=['{data / 'hard.jsonl'}']")
        settings += ["data.shots=4"] if "shots" in values["data"] else []
        settings += [f"dev.pairs=['{data / 'hard.jsonl'}']"] if "dev" in values else []
    else:
        build(passage_words=0)
        settings += judged_run(index_path, tmp_path)
    train_here(finetune, path, *settings)
    check(tmp_path / "out")
    if path.stem == "harp-reranker":
        scorer = open_scorer(str(tmp_path / "out"), device="cpu")
        assert scorer.text_format.head(Candidate("T", "x", "http://u")) == "T http://u "
        again = [f"output.folder={tmp_path / 'again'}", "texts.url=false", f"model.base={tmp_path / 'out'}"]
        train_here(finetune, path, *settings, *again)
        scorer = open_scorer(str(tmp_path / "again"), device="cpu")
        assert scorer.text_format.head(Candidate("T", "x", "http://u")) == "T "  # as it was trained


def judged_run(index_path: Path, folder: Path) -> list[str]:
    ids = [passage.id for passage in OpenIndex.open(index_path).passages][:4]
    questions = [f"q{q}" for q in range(6)]
    qrels = {q: ids[n % 3] for n, q in enumerate(questions)}
    files = {"index": index_path} | judged_files(folder, dict.fromkeys(questions, ids), qrels)
    return [f"data.{name}='{path}'" for name, path in files.items()]


@each(PretrainConfig)
def test_a_pre_training_takes_a_step_a_stage(path, data, tmp_path, common):
    stages = tomllib.loads(path.read_text())["stages"]
    settings = [f"model.base={data / 'normalized'}", "mlm.warmup_steps=1", "training.batch=2"]
    for number, stage in enumerate(stages, start=1):
        files = []
        for name in stage["contrasts"]:
            objective = Path(name).name.partition(".")[0]
            objective = "harp-rqp" if objective == "harp" else objective  # of which it is a mix
            files.append(str(write_tiny_contrasts(tmp_path / f"{objective}.jsonl", objective, 4)))
        settings += [f"stages.{number}.contrasts={files}", f"stages.{number}.steps=1"]
    train_here(pretrain, path, *common, *settings)
    check(tmp_path / "out")
    found = [(line["stage"], line["step"]) for line in read_log(tmp_path / "out" / "log.jsonl")]
    assert found == [(name, 1) for name in ("head", *(stage["name"] for stage in stages))]
