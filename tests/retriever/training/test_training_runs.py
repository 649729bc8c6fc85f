"""Whole training runs of tiny models: interrupted, damaged, on two processes, with adapters and towers."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from experiments.shrink import main as shrink
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.retriever.training import lifecycle, loop
from linkseek.retriever.training.config import ModelSettings
from linkseek.retriever.training.log import read_log, remove_after
from linkseek.retriever.training.losses.in_batch_loss import PairLoss
from linkseek.retriever.training.pair_models import open_model
from tests.support.command import assert_same_run, run_forked
from tests.support.tiny.runs import LORA, TRAININGS
from tests.support.tiny.runs import undisturbed as complete
from tests.support.tiny.training import pair_rows, write_pairs

pytestmark = pytest.mark.usefixtures("one_thread")

TRAINING = TRAININGS["train"]
train = TRAINING.run


@pytest.fixture
def data(training_data) -> Path:
    return training_data


@pytest.fixture
def config(data, tmp_path):
    def write(kind: str = "pretrain", base: str = "", folder: Path = tmp_path) -> Path:
        path = TRAINING.write(data, folder, base)
        if kind == "finetune":
            text = path.read_text().replace("mined", "labelled")
            path.write_text(text.replace('kind = "pretrain"', 'kind = "finetune"'))
        return path

    return write


@pytest.fixture
def undisturbed(data) -> Path:
    """A run of 18 steps, with copies of its checkpoints: the best one, 16 and 18."""
    return complete("train", data)


# --- going on ------------------------------------------------------------------------------------


def test_a_run_leaves_a_model_its_log_its_settings_and_a_card(undisturbed):
    out = undisturbed / "out"
    log = read_log(out / "log.jsonl")
    assert [line["step"] for line in log if "loss" in line] == [2, 4, 6, 8, 10, 12, 14, 16, 18]
    ranks = {line["step"]: line["average_rank"] for line in log if "average_rank" in line}
    assert list(ranks) == [4, 8, 12, 16, 18]
    assert all(1 <= rank <= 36 for rank in ranks.values())
    assert not (undisturbed / "out.linkseek-training").exists()
    assert 'kind = "pretrain"' in (out / "training.toml").read_text()
    card = (out / "README.md").read_text()
    assert "license: apache-2.0" in card and "20 co-mention, 20 dual-link" in card
    assert str(undisturbed) not in card
    best = min(ranks, key=lambda step: ranks[step])
    assert f"| step | {best} |" in card
    assert SentenceTransformer(str(out), device="cpu").encode(["bam"]).shape == (1, 32)


def test_the_weights_are_those_of_the_best_checkpoint(undisturbed, data):
    ranks = {
        line["step"]: line["average_rank"]
        for line in read_log(undisturbed / "out" / "log.jsonl")
        if "average_rank" in line
    }
    best = min(ranks, key=lambda step: ranks[step])
    checkpoint = undisturbed / "kept" / "checkpoints" / f"step-{best}"
    saved = load_file(checkpoint / "weights.safetensors")
    model = SentenceTransformer(str(undisturbed / "out"), device="cpu")
    ours = dict(model.named_parameters())
    assert len(saved) > 20 and all(torch.equal(ours[name], tensor) for name, tensor in saved.items())
    assert set(ours) - set(saved) == {name for name in ours if "pooler" in name}


def restore(undisturbed: Path, config: Path, steps: list[int]) -> Path:
    """As if a run had been killed after these checkpoints."""
    work = config.parent / "out.linkseek-training"
    work.mkdir()
    for step in steps:
        name = f"checkpoints/step-{step}"
        shutil.copytree(undisturbed / "kept" / name, work / name)
    shutil.copyfile(undisturbed / "kept" / "log.jsonl", work / "log.jsonl")
    return work / "checkpoints"


def test_a_run_killed_after_its_last_step_saves_the_same_files(undisturbed, config):
    path = config()
    kept = [int(p.name[5:]) for p in (undisturbed / "kept" / "checkpoints").iterdir()]
    restore(undisturbed, path, kept)
    train(path)
    made, expected = path.parent / "out", undisturbed / "out"
    names = sorted(p.relative_to(expected) for p in expected.rglob("*") if p.is_file())
    assert len(names) > 8 and names == sorted(p.relative_to(made) for p in made.rglob("*") if p.is_file())
    own = {"log.jsonl", "training.toml", "README.md"}  # times, and paths of the settings
    differ = [n for n in names if (made / n).read_bytes() != (expected / n).read_bytes()]
    assert {str(n) for n in differ} <= own


@pytest.mark.parametrize("spoil", ["cut", "flipped", "missing", "manifest"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(undisturbed, config, capfd, spoil):
    path = config()
    kept = [int(p.name[5:]) for p in (undisturbed / "kept" / "checkpoints").iterdir()]
    newest = restore(undisturbed, path, kept) / "step-18"
    weights = newest / "weights.safetensors"
    if spoil == "cut":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif spoil == "flipped":
        content = bytearray(weights.read_bytes())
        content[-5] ^= 1
        weights.write_bytes(content)
    elif spoil == "missing":
        (newest / "random-0.json").unlink()
    else:
        (newest / "manifest.json").write_text("{")
    train(path)
    said = capfd.readouterr().err
    assert "skipping a damaged checkpoint" in said and "resuming from step 16 of 18" in said
    assert (path.parent / "out/model.safetensors").read_bytes() == (
        undisturbed / "out/model.safetensors"
    ).read_bytes()


def test_checkpoints_of_another_run_are_refused(undisturbed, config):
    path = config()
    restore(undisturbed, path, [16])
    with pytest.raises(UsageError, match=r"training\.learning_rate was 0\.001, and is 0\.002") as caught:
        train(path, "training.learning_rate=2e-3")
    assert "output.folder" in caught.value.hint


def test_nothing_in_a_checkpoint_is_pickled(undisturbed):
    files = [p for p in (undisturbed / "kept").rglob("*") if p.is_file()]
    assert {p.suffix for p in files} <= {".safetensors", ".json", ".jsonl", ".arrow"}
    assert len([p for p in files if p.name.startswith("optimizer")]) >= 2


def test_a_finished_model_is_left_as_it_is(undisturbed, capfd):
    before = (undisturbed / "out" / "model.safetensors").stat().st_mtime_ns
    left = [undisturbed / "out.linkseek-training" / "checkpoints", undisturbed / "out.linkseek-lock"]
    left[0].mkdir(parents=True)  # as a run leaves them that is killed after it has published its model
    left[1].touch()
    train(undisturbed / "c.toml")
    assert not left[0].parent.exists() and not left[1].exists()
    assert "out is finished" in capfd.readouterr().err
    with pytest.raises(UsageError, match="out exists already, and has other settings"):
        train(undisturbed / "c.toml", "training.seed=8")
    assert (undisturbed / "out" / "model.safetensors").stat().st_mtime_ns == before


def test_a_folder_that_no_training_made_is_told_so(undisturbed, tmp_path):
    with pytest.raises(UsageError, match="exists already, and is not a model made by a training"):
        train(undisturbed / "c.toml", f"output.folder={str(tmp_path)!r}")


def test_lines_that_will_be_written_again_are_removed(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step":2}\n{"step":4}\n{"step":6}\n{"st')
    remove_after(log, 4)
    assert read_log(log) == [{"step": 2}, {"step": 4}]


# --- towers and adapters -------------------------------------------------------------------------


def test_tuning_the_query_tower_leaves_the_vectors_of_passages(data, config):
    settings = ['model.towers="two"', 'model.train="query"', "training.steps=4", "training.mini_batch=3"]
    out = train(config("finetune"), *settings)
    base = SentenceTransformer(str(data / "bert"), device="cpu")
    base[1].pooling_mode = "cls"
    model = SentenceTransformer(str(out), device="cpu")
    before, after = (
        m[0].model if m is base else m[0].sub_modules["document"][0].model for m in (base, model)
    )
    for name, parameter in before.named_parameters():
        assert torch.equal(parameter, after.get_parameter(name)), name
    moved = model[0].sub_modules["query"][0].model
    assert not torch.equal(before.embeddings.word_embeddings.weight, moved.embeddings.word_embeddings.weight)


def test_a_share_of_the_adapters_change_is_merged(data, config, tmp_path):
    out = train(config(base="normalized"), *LORA)
    folders = [data / "normalized", tmp_path / "full", tmp_path / "mean"]
    for folder, share in zip(folders[1:], ("1", "0.5"), strict=True):
        shrink([str(out), "--output", str(folder), "--share", share])
    base, full, means = (load_file(folder / "model.safetensors") for folder in folders)
    for name, mean in means.items():
        torch.testing.assert_close(mean, (base[name] + full[name]) / 2, msg=name)
    with pytest.raises(UsageError, match="has no adapters"):
        shrink([str(tmp_path / "full"), "--output", str(tmp_path / "other"), "--share", "0.5"])


def test_adapters_go_on_after_an_interruption_with_a_checkpoint_an_epoch(data, config, tmp_path, monkeypatch):
    lora = ['model.train="lora"', "model.lora_rank=4", "model.lora_dropout=0.1", "training.steps=10"]
    paths = [config(base="normalized", folder=tmp_path / name) for name in ("whole", "broken")]
    for path in paths:
        path.write_text(path.read_text().replace("checkpoint_steps = 4\n", ""))
    whole, path = train(paths[0], *lora), paths[1]
    step = PairLoss.__call__
    steps: list[int] = []

    def fail(*arguments: Any, **keywords: Any) -> Any:
        steps.append(1)
        if len(steps) == 8:
            raise KeyboardInterrupt
        return step(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(PairLoss, "__call__", fail)
        with pytest.raises(KeyboardInterrupt):
            train(path, *lora)
    out = train(path, *lora)
    assert len(steps) == 8  # the rest was not counted: from the end of the first epoch, step 6
    assert_same_run(out, whole, "adapter_model.safetensors")


def test_pooling_and_normalisation_are_the_bases(data, config, tmp_path):
    names = []
    for number, settings in enumerate([["model.base=" + str(data / "normalized")], []]):
        out = train(config(folder=tmp_path / str(number)), "training.steps=1", *settings)
        model = SentenceTransformer(str(out), device="cpu")
        names.append(([type(module).__name__ for module in model], model[1].pooling_mode))
    full = ["Transformer", "Pooling", "Normalize"]
    assert names == [(full, "mean"), (full[:2], "cls")]


def test_dropout_is_that_of_the_base_unless_told_otherwise(data):
    inputs = {"input_ids": torch.arange(5, 25).view(2, 10), "attention_mask": torch.ones(2, 10)}
    for given, shares, alike in (
        ({}, {0.1}, False),
        ({"attention_dropout": 0.0}, {0.0, 0.1}, False),
        ({"attention_dropout": 0.0, "hidden_dropout": 0.0}, {0.0}, True),
    ):
        settings = ModelSettings(base=str(data / "bert"), train="lora", lora_dropout=0.2, **given)
        model = open_model(settings, 16)
        assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == shares | {0.2}
        for name, module in model.named_modules():
            if "lora_dropout" in name and isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        model.train()
        first, second = (model(dict(inputs))["sentence_embedding"] for _ in range(2))
        assert torch.equal(first, second) == alike


def test_bfloat16_differs_by_its_precision_alone(config, tmp_path, monkeypatch):
    monkeypatch.setattr(lifecycle, "cpu_multiplies_bfloat16", lambda: True)
    losses, weights = [], []
    for precision, keeps in (("float32", True), ("bfloat16", True), ("bfloat16", False)):
        monkeypatch.setattr(torch, "is_autocast_cache_enabled", lambda keeps=keeps: keeps)
        path = config(base="normalized", folder=tmp_path / f"{precision}{keeps}")
        out = train(path, f"training.precision={precision}", "training.steps=2", "training.mini_batch=3")
        losses.append(read_log(out / "log.jsonl")[0]["loss"])
        weights.append(load_file(out / "model.safetensors")["embeddings.word_embeddings.weight"])
        assert weights[-1].dtype == torch.float32
    assert 0 < abs(losses[0] - losses[1]) < 0.1
    assert torch.equal(weights[1], weights[2])  # copies of the weights, made once or for each forward pass


def test_on_a_processor_without_bfloat16_it_is_float32(config, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(lifecycle, "cpu_multiplies_bfloat16", lambda: False)
    logs = []
    for precision in ("float32", "bfloat16"):
        path = config(base="normalized", folder=tmp_path / precision)
        out = train(path, f"training.precision={precision}", "training.steps=2")
        logs.append([line["loss"] for line in read_log(out / "log.jsonl") if "loss" in line])
    assert logs[0] == logs[1] != []
    assert "training in float32: this processor has no instructions for bfloat16" in capfd.readouterr().err
    assert "| precision | float32 |" in (out / "README.md").read_text()


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_gradient_that_is_no_number_stops_before_a_checkpoint(config, monkeypatch):
    """The loss is finite, and this is the last step: none after it looks."""
    step = PairLoss._loss

    def broken(*arguments: Any) -> tuple[torch.Tensor, ...]:
        value, *rest = step(*arguments)
        return value + (value - value.detach()).abs().sqrt(), *rest  # plus 0, whose slope is infinite

    monkeypatch.setattr(PairLoss, "_loss", broken)
    path = config()
    with pytest.raises(
        InputError, match=r"the gradient's length of step 1 is nan; .*mined\.jsonl, pair \d+; "
    ):
        train(path, "training.steps=1")
    assert not [*path.parent.rglob("model.safetensors")]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_what_a_step_frees_is_kept_for_the_next_one_until_it_is_given_back():
    """Pages that the kernel has to clear anew, for the same tensor again and again, and pages in memory."""
    script = """
import psutil, resource, torch
from linkseek.retriever.training.loop import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(16 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first, give_back, process = faults(), keep_freed_memory(), psutil.Process()
print(first, min(faults() for _ in range(8)), process.memory_info().rss)  # the heap settles after a few
give_back()
print(process.memory_info().rss)
"""
    done = run_forked(["-c", script])
    before, after, kept, left = map(int, done.stdout.split())
    assert after < before / 10 and left <= kept - (64 << 20)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("x"), RuntimeError("not enough memory: you")],
)
def test_too_little_memory_names_the_setting(error):
    with (
        pytest.raises(MachineError, match="too little memory") as caught,
        loop.too_little_memory("training.mini_batch"),
    ):
        raise error
    assert "training.mini_batch" in caught.value.hint


def test_another_error_of_torch_stays_what_it_is():
    with pytest.raises(RuntimeError, match="shapes"), loop.too_little_memory("x"):
        raise RuntimeError("shapes")


def test_negatives_that_no_pair_has_are_an_error_and_those_that_some_lack_a_note(
    config, data, tmp_path, capfd
):
    path = tmp_path / "few.jsonl"
    write_pairs(path, pair_rows(8, objectives=("ict",), negatives=0, hard=0))
    with pytest.raises(InputError, match=r"data\.negatives is 1, and no pair has any") as caught:
        train(config(), f"data.pairs=['{path}']")
    assert "--negatives random" in caught.value.hint
    rows = pair_rows(8, objectives=("ict",), negatives=0) + pair_rows(4, 3, objectives=("ict",))
    train(config(folder=tmp_path / "some"), f"data.pairs=['{write_pairs(path, rows)}']", "training.steps=1")
    assert "8 of 12 pairs have fewer than 1 negatives" in capfd.readouterr().err
