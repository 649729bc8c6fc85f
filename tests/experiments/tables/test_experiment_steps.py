"""Steps of experiments: which a row needs, what they share, and that each is run once."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from experiments.tables import making
from experiments.tables.command import main
from experiments.tables.definition import Experiment, read_experiment
from experiments.tables.making import make_models, make_steps, plan_rows, show_plan, untrained
from experiments.tables.steps import Steps
from linkseek.app.pipelines.catalogue import read_pipelines
from linkseek.indexer.program.errors import InputError, MachineError, UsageError
from linkseek.indexer.program.settings import read_toml
from tests.support.command import ROOT
from tests.support.commands_read import CONFIGS, OPTIONS, read_command

TOML = """
title = "t"
source = "s"
seeds = [1, 2]

[indexes.tiny]
path = "index"
cost_of_encoder = [1, 100]

[[columns]]
test_set = "rivers"
measures = ["nDCG@5"]

[words]
kind = ["ict", "wlp"]
corpus = "{data}/corpus.jsonl"

[scales.small]
pairs = 10

[scales.paper]
pairs = 20_000_000

[steps.corpus]
command = "build --corpus {corpus} --index <>"
costs = { small = [1, 10], paper = [60, 10_000] }

[steps."pairs-{kind}"]
command = "mine --index <corpus> --objective {kind} --pairs {pairs} --output <>.jsonl"
costs.small = [2, 20]

[steps.pairs-wlp]
command = "mine --index <corpus> --objective wlp --pairs 3 --output <>.jsonl"

[steps."model-{kind}-{seed}"]
command = "train small-pretrain --data.pairs <pairs-{kind}>.jsonl --training.seed {seed} --output.folder <>"
costs.small = [4, 40]

[pipelines."dense-{kind}-{seed}"]
searcher = "dense"
encoder = "<model-{kind}-{seed}>"

[[rows]]
name = "ICT"
pipeline = "dense-ict-{seed}"

[[rows]]
name = "WLP"
pipeline = "dense-wlp-{seed}"

[[rows]]
name = "BM25"
pipeline = "bm25"
"""


@pytest.fixture
def steps_of(tmp_path: Path) -> Any:
    """The experiment and its steps, of a file that may be changed."""
    (tmp_path / "corpus.jsonl").write_text("{}\n")

    def read(text: str = TOML, scale: str = "small") -> tuple[Experiment, Steps]:
        (tmp_path / "e.toml").write_text(text)
        experiment = read_experiment(tmp_path / "e.toml")
        return experiment, Steps(experiment, scale, tmp_path, tmp_path / "out" / "steps")

    return read


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are run, which write a file each; one whose words hold "fails" fails."""
    commands: list[str] = []

    def run_step(words: list[str], what: str, log: Path | None = None, jobs: int = 1) -> None:
        commands.append(shlex.join(words))
        if "fails" in words:
            raise InputError("failed", "")
        if words[0] != "build" or "--encoder" not in words:
            Path(words[-1]).write_text("result")

    monkeypatch.setattr(making, "run_step", run_step)
    return commands


def test_a_row_has_its_steps_in_order_and_the_table_with_fewer_words_wins(steps_of, tmp_path):
    experiment, steps = steps_of()
    ict, wlp, bm25 = (steps.of_row(row) for row in experiment.rows)
    assert [*ict] == ["corpus", "pairs-ict", "model-ict-1", "model-ict-2"]
    assert ict["corpus"] is wlp["corpus"] and not bm25
    assert "--pairs 10 " in shlex.join(ict["pairs-ict"].words)
    assert "--pairs 3 " in shlex.join(wlp["pairs-wlp"].words)
    model = ict["model-ict-2"]
    assert f"{ict['pairs-ict'].result}.jsonl" in model.words and model.words[-1] == str(model.result)
    assert model.words[5] == "2"
    assert str(tmp_path / "corpus.jsonl") in ict["corpus"].words


def test_a_change_renames_a_result_and_those_that_are_made_of_it(steps_of, tmp_path):
    def results() -> dict[str, str]:
        experiment, steps = steps_of(text, scale)
        return {name: step.result.name for row in experiment.rows for name, step in steps.of_row(row).items()}

    text, scale = TOML, "small"
    before = results()
    assert results() == before
    text = TOML.replace("--pairs 3", "--pairs 4")
    changed = {name for name, result in results().items() if result != before[name]}
    assert changed == {"pairs-wlp", "model-wlp-1", "model-wlp-2"}
    text, scale = TOML, "paper"
    changed = {name for name, result in results().items() if result != before[name]}
    assert changed == {"pairs-ict", "model-ict-1", "model-ict-2"}
    scale = "small"
    (tmp_path / "corpus.jsonl").write_text("another corpus\n")
    assert not set(results().values()) & set(before.values())


def test_the_plan_counts_what_rows_share_once_and_what_is_made_not_at_all(steps_of, commands, tmp_path):
    experiment, steps = steps_of()
    ict, wlp = plan_rows(steps, experiment)
    assert (ict.minutes, ict.megabytes) == (1 + 2 + 4 * 2 + 2, 10 + 20 + 40 * 2 + 200)
    assert (wlp.minutes, wlp.megabytes) == (4 * 2 + 2, 40 * 2 + 200) and wlp.shared == 1
    make_models(steps, experiment, lambda source: None, tmp_path / "out")
    ict, wlp = plan_rows(steps, experiment)
    assert not ict.steps and not wlp.steps and ict.shared == 2
    seven = TOML.replace("seeds = [1, 2]", "seeds = [1, 2, 3]")
    ict, wlp = plan_rows(steps_of(seven)[1], steps_of(seven)[0])
    assert [step.name for step in ict.steps] == ["model-ict-3"]
    assert ict.megabytes == pytest.approx(300, abs=0.1)  # as large as the two before, and three encoders


def test_a_row_whose_model_is_not_made_says_how_to_make_it(tmp_path):
    experiment = read_experiment(ROOT / "experiments" / "hops.toml", small=True)
    plan = Steps(experiment, "small", None, tmp_path / "steps", is_plan=True)
    assert set(tomllib.loads(plan.pipelines())) == {"control-hop", "hybrid-hop"}  # without training
    hint = "not trained yet: add --train (about 1 min for all rows); --plan shows the steps"
    assert untrained(plan, experiment) == dict.fromkeys(("trees-shuffled-sample", "trees-links-sample"), hint)
    assert "without" not in "".join(row.name for row in experiment.rows)  # its trees learn from its questions


def test_rows_that_do_not_fit_the_disk_are_refused(steps_of, tmp_path):
    experiment, steps = steps_of(TOML.replace("[2, 20]", "[2, 1e12]"))
    with pytest.raises(MachineError, match=r"need about 1,000,000,000,\d+ MB"):
        show_plan(steps, experiment, tmp_path / "out")


def test_each_step_is_run_once_and_after_an_interruption_only_the_others(steps_of, commands, tmp_path):
    experiment, steps = steps_of(TOML.replace("train small-pretrain", "train fails"))
    with pytest.raises(InputError, match="failed"):
        make_models(steps, experiment, lambda source: None, tmp_path / "out")
    assert [line.split()[0] for line in commands] == ["build", "mine", "train"]
    commands.clear()
    experiment, steps = steps_of()
    built = []
    file = make_models(steps, experiment, built.append, tmp_path / "out")
    assert [line.split()[0] for line in commands] == ["train", "train", "mine", "train", "train"]
    folders = [step.result for row in experiment.rows for step in steps.of_row(row).values()]
    models = [folder for folder in folders if folder.name.startswith("model")]
    assert built[0].build == [word for folder in models for word in ("--encoder", str(folder))]
    entries = {name: entry for name, entry in read_toml(file, "").items() if name in read_pipelines(file)}
    assert {entry["encoder"] for entry in entries.values()} == {folder.name for folder in models}
    commands.clear()
    make_models(*reversed(steps_of()), built.append, tmp_path / "out")
    assert not commands


def test_what_finished_steps_needed_is_not_made_again(steps_of, commands, tmp_path):
    experiment, steps = steps_of()
    make_models(steps, experiment, lambda source: None, tmp_path / "out")
    steps.step("corpus").result.unlink()
    commands.clear()
    make_models(steps_of()[1], experiment, lambda source: None, tmp_path / "out")
    assert not commands
    steps.step("pairs-wlp").result.with_name(steps.step("pairs-wlp").result.name + ".jsonl").unlink()
    steps.step("model-wlp-2").result.unlink()
    make_models(steps_of()[1], experiment, lambda source: None, tmp_path / "out")
    assert [line.split()[0] for line in commands] == ["build", "mine", "train"]


def test_only_some_steps_and_those_that_they_need(steps_of, commands, tmp_path):
    experiment, steps = steps_of()
    for _ in range(2):  # finished ones are still known by their names
        make_steps(steps.of_rows(experiment.rows, ["pairs-*"]), tmp_path / "out")
    assert [line.split()[0] for line in commands] == ["build", "mine", "mine"]
    with pytest.raises(UsageError, match='no step matches "pears"'):
        steps.of_rows(experiment.rows, ["pairs-*", "pears"])
    with pytest.raises(UsageError, match="--only is for the steps of --train"):
        main(["hlp-static", "--only", "corpus"])


def test_several_steps_at_a_time_each_after_those_that_it_needs(steps_of, monkeypatch, tmp_path):
    began: list[str] = []
    ended: list[str] = []
    both = Barrier(2)

    def run_step(words: list[str], what: str, log: Path | None = None, jobs: int = 1) -> None:
        name = what.split('"')[1]
        began.append(name)
        assert log == tmp_path / "out" / "logs" / f"{steps.step(name).result.name}.log"
        for need in steps.step(name).needs:
            assert need in ended
        if name.startswith("pairs"):
            both.wait(20)  # both run at once
        if name == "model-wlp-1":
            raise InputError("failed", "")
        Path(words[-1]).write_text("result")
        ended.append(name)

    monkeypatch.setattr(making, "run_step", run_step)
    experiment, steps = steps_of()
    with pytest.raises(InputError, match="failed"):
        make_models(steps, experiment, lambda source: None, tmp_path / "out", jobs=2)
    assert began[0] == "corpus" and set(began[1:3]) == {"pairs-ict", "pairs-wlp"}
    assert {name for name in began if steps.step(name).is_made} == set(ended)


def test_the_log_of_a_step_that_fails_is_repeated(tmp_path, capsys):
    log = tmp_path / "logs" / "step.log"
    with pytest.raises(InputError, match="the step could not be made"):
        making.run_step(["mine", "--objective", "links"], "the step", log)
    said = capsys.readouterr().err
    assert said.endswith(log.read_text()) and "--index: missing" in said


WAITS = "import sys, time; open(sys.argv[1] + '.began', 'w'); time.sleep(60); open(sys.argv[1], 'w')"


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_that_steps_do_not_get_ends_them(steps_of, monkeypatch, tmp_path, jobs):
    monkeypatch.setattr(making, "_command", lambda words: [sys.executable, "-c", WAITS, words[-1]])
    monkeypatch.setattr(making, "_PATIENCE", 0.01)
    experiment, steps = steps_of()
    step = steps.of_rows(experiment.rows)[0]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background

    def interrupt() -> None:
        while not list(step.result.parent.glob("*.began")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        with ThreadPoolExecutor(1) as thread, pytest.raises(KeyboardInterrupt):
            thread.submit(interrupt)
            make_steps([step], tmp_path / "out", jobs=jobs)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not step.is_made and not making._STARTED


def test_an_index_that_needs_no_step_is_built_first_for_steps_may_read_it(steps_of, commands, tmp_path):
    experiment, steps = steps_of(TOML.replace('searcher = "dense"\nencoder', 'of = "bm25"\nrerank'))
    make_models(steps, experiment, lambda source: commands.append(f"index {source.path}"), tmp_path / "out")
    assert [line.split()[0] for line in commands][:3] == ["index", "build", "mine"]


def test_an_index_has_the_vectors_of_models_from_steps_and_of_others_that_a_row_names(
    steps_of, commands, tmp_path
):
    named = '[pipelines.shelf]\nsearcher = "dense"\nencoder = "all-MiniLM-L6-v2"\n\n[[rows]]\nname = "ICT"'
    experiment, steps = steps_of(TOML.replace('[[rows]]\nname = "ICT"', named).replace('"bm25"', '"shelf"'))
    built: list[list[str]] = []
    make_models(steps, experiment, lambda source: built.append(source.build), tmp_path / "out")
    [options] = built
    encoders = options[1::2]
    assert options[::2] == ["--encoder"] * 5 and encoders[-1] == "all-MiniLM-L6-v2"
    assert encoders[:-1] == [
        str(steps.step(f"model-{kind}-{n}").result) for kind in ("ict", "wlp") for n in (1, 2)
    ]


def test_rows_of_one_scale_alone(steps_of):
    text = TOML.replace('name = "WLP"', 'name = "WLP"\nscales = ["paper"]')
    experiment, _ = steps_of(text)
    names = {scale: [row.name for row in experiment.at_scale(scale).rows] for scale in experiment.scales}
    assert names == {"small": ["ICT", "BM25"], "paper": ["ICT", "WLP", "BM25"]}
    with pytest.raises(UsageError, match='row "WLP": no scale "papers"') as caught:
        steps_of(text.replace('["paper"]', '["papers"]'))
    assert "paper" in caught.value.hint


def test_those_steps_are_of_the_commands_with_that_option():
    with_ray = {kind for kind, options in OPTIONS.items() if "ray" in options.model_fields}
    assert with_ray == set(making.ON_RAY)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("<corpus>", "<corpse>", 'no step "corpse"'),
        ("build --corpus {corpus}", "build --corpus <model-ict-1>", "needs itself"),
        ("--pairs {pairs}", "--pairs {pears}", "no single value for {pears}"),
        ("--pairs {pairs}", "--pairs {seed}", "no single value for {seed}"),
        ('"pairs-{kind}"', '"pairs-{kin}"', "no word {kin}"),
    ],
)
def test_mistakes_in_a_file_are_named(steps_of, before, after, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        experiment, steps = steps_of(TOML.replace(before, after, 1))
        steps.of_row(experiment.rows[0])


def test_an_unknown_scale_and_a_table_without_steps(steps_of, tmp_path):
    with pytest.raises(UsageError, match="no such scale"):
        steps_of(scale="large")
    with pytest.raises(UsageError, match="no steps that make its models"):
        main(["wikispeedia", "--plan"])


WITH_FILES = TOML.replace(
    "[steps.corpus]",
    '[files]\n"{data}/corpus.jsonl" = "pack it"\n"{data}/labels" = "ask for it"\n\n[steps.corpus]',
).replace("--objective wlp", "--objective wlp --language {data}/labels")


def test_pipelines_whose_data_are_missing_are_left_and_the_others_made(steps_of, commands, capsys, tmp_path):
    experiment, steps = steps_of(WITH_FILES)
    show_plan(steps, experiment, tmp_path)
    file = make_models(steps, experiment, lambda source: None, tmp_path / "out")
    assert f"missing: dense-wlp-1: {tmp_path}/labels: no such file. ask for it" in capsys.readouterr().err
    assert [line.split()[0] for line in commands] == ["build", "mine", "train", "train"]
    assert {name for name in read_pipelines(file) if name.startswith("dense-")} == {
        "dense-ict-1",
        "dense-ict-2",
    }
    (tmp_path / "labels").touch()
    make_models(steps_of(WITH_FILES)[1], experiment, lambda source: None, tmp_path / "out")
    assert [line.split()[0] for line in commands[4:]] == ["mine", "train", "train"]


def test_a_plan_needs_no_data_and_says_what_to_get(steps_of, capsys, tmp_path):
    experiment, _ = steps_of(WITH_FILES.replace("[2, 20]", "[2, 1e12]"))
    for data in (tmp_path / "elsewhere", None):
        steps = Steps(experiment, "small", data, tmp_path / "out" / "steps", is_plan=True)
        show_plan(steps, experiment, tmp_path)
        plan = capsys.readouterr().err
        assert "ICT: 4 steps" in plan and "WLP: 3 steps" in plan
        folder = data or "DATA"
        assert f"missing: {folder}/corpus.jsonl: pack it" in plan and f"{folder}/labels: ask for it" in plan


def test_words_of_a_scale_in_indexes_and_columns(steps_of):
    text = TOML.replace('path = "index"', 'path = "index/{pairs}"\ncosts_of_encoder.paper = [9, 900]')
    text = text.replace('test_set = "rivers"', 'test_set = "of-{pairs}"\nlabel = "{data} {kind} {pairs}"')
    experiment, _ = steps_of(text)
    small, paper = experiment.at_scale("small"), experiment.at_scale("paper")
    assert [e.indexes["tiny"].path.name for e in (small, paper)] == ["10", "20000000"]
    assert [e.columns[0].test_set for e in (small, paper)] == ["of-10", "of-20000000"]
    assert paper.columns[0].label == "{data} {kind} 20000000"
    assert [e.indexes["tiny"].cost_of_encoder for e in (small, paper)] == [(1, 100), (9, 900)]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("small", [True, False])
def test_the_steps_of_a_bundled_table_are_commands_that_their_programs_understand(path, small, tmp_path):
    if "\n[steps" not in path.read_text():
        assert not read_experiment(path).steps
        return
    for word in re.findall(r'"(\{data\}/[^"]+)"', path.read_text()):
        file = Path(word.replace("{data}", str(tmp_path)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    read = read_experiment(path, small=small)
    settings = tmp_path / "best.toml"
    for scale in read.scales:
        experiment = read.at_scale(scale)
        steps = Steps(experiment, scale, tmp_path, tmp_path / "steps")
        rows = [row for row in experiment.rows if row.pipeline]
        found = {name: step for row in rows for name, step in steps.of_row(row).items()}
        for step in found.values():
            assert not any("{data}" in word for word in step.words)
            word, *words = step.words
            if words[0].endswith("best.toml"):  # which a sweep writes
                settings.write_text(
                    '[stage]\nkind = "finetune"\n[data]\npairs = ["x"]\n[output]\nfolder = "x"\n'
                )
                words[0] = str(settings)
            command = read_command(word, words)
            assert word not in CONFIGS or command.output.folder == step.result
        for name, index in experiment.indexes.items():
            encoders = [encoder for row in rows for encoder in steps.encoders(row, name)]
            assert not encoders or "--no-dense" not in index.build
            assert path.stem != "families" or {"late", "sparse"} <= {e.partition(":")[0] for e in encoders}
        asked = {p for row in rows for c in experiment.columns for p in row.pipelines(c, experiment.seeds)}
        file = tmp_path / "pipelines.toml"
        file.write_text(steps.pipelines())
        assert not re.search(r"\{\w+\}", file.read_text()), "a word is not filled in"
        assert not asked - read_pipelines(file).keys()
