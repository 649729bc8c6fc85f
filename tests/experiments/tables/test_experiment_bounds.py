"""Names, commands and numbers of steps that are refused before anything is made."""

# ruff: noqa: F811 (fixtures of another file)

from __future__ import annotations

import re

import pytest

from experiments.__main__ import COMMANDS
from experiments.tables.command import main
from experiments.tables.steps import STEP_COMMANDS
from linkseek.__main__ import ALL
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.settings import toml_value
from tests.experiments.tables.test_experiment_steps import TOML, commands, steps_of  # noqa: F401


@pytest.mark.parametrize("name", ["../../../escaped", "/abs/x", ". ../x", "..", "a/b", "CON", "x" * 300])
def test_a_step_or_an_index_cannot_be_written_elsewhere(steps_of, tmp_path, name):
    for table in ("steps.corpus", "indexes.tiny", 'pipelines."dense-{kind}-{seed}"'):
        changed = TOML.replace(f"[{table}]", f"[{table.partition('.')[0]}.{toml_value(name)}]")
        (tmp_path / "e.toml").write_text(changed)
        output = tmp_path / "a" / "b" / "o"
        with pytest.raises(UsageError, match="cannot name a file"):
            main([str(tmp_path / "e.toml"), "--output", str(output), "--train", "--only", "*"])
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and "escaped" in path.name]
        assert not (output / "steps").exists()


def test_the_table_of_an_experiment_stays_in_the_folder_of_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "...toml").write_text(TOML)  # whose name without .toml is ".."
    with pytest.raises(UsageError, match=r'the experiment "\.\." cannot name a file'):
        main(["...toml", "--plan"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("export 'a", 'the step "corpus": its command cannot be split into words (No closing quotation)'),
        ("export a\\\\", "No escaped character"),
        ("app --server.port 1", '"app" is not a command for steps'),
        ("experiment e.toml --train --output <>", '"experiment" is not a command'),
        ("biuld --index <>", '"biuld" is not a command for steps'),
        ("--help", '"--help" is not a command'),
        ("", '"" is not a command'),
    ],
)
def test_a_command_that_is_none_of_a_step(steps_of, command, message):
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        experiment, steps = steps_of(TOML.replace("build --corpus {corpus} --index <>", command))
        steps.of_row(experiment.rows[0])
    assert caught.value.hint


def test_every_command_but_those_that_do_not_end_can_be_a_step():
    assert ALL.keys() - STEP_COMMANDS == {"app", "demo", "mcp", "serve"}
    own = {"convert", "cross-validate", "pack", "shrink", "sweep"}
    assert STEP_COMMANDS - ALL.keys() == own <= COMMANDS.keys()


def test_pipelines_that_name_each_other_many_times_over_or_in_a_circle_end(steps_of):
    chain = [f'[pipelines.p{n}]\nfusion = "weighted"\nof = ["p{n + 1}", "p{n + 1}"]\n' for n in range(60)]
    row = '[[rows]]\nname = "P"\npipeline = "p0"\n'
    circle = f'[pipelines.p60]\nfusion = "weighted"\nof = ["p0"]\n{row}'
    experiment, steps = steps_of(TOML + "".join(chain) + circle)
    assert not steps.of_row(experiment.rows[-1])
    heads = [line for line in steps.pipelines().splitlines() if line.startswith('["p')]
    assert len(heads) == len(set(heads)) == 61
