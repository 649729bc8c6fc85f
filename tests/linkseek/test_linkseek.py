"""linkseek: a word for every command, the map, names of presets, Streamlit's settings."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from linkseek import __main__ as linkseek
from linkseek.app.commands import app as start
from linkseek.indexer.program.bundled import bundled, find_preset
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.settings import read_toml
from tests.support.command import ROOT, python


def test_each_command_is_a_file_named_after_its_word():
    packages = ("indexer", "retriever", "reranker", "app")
    files = {path.stem for name in packages for path in (ROOT / name / "commands").glob("[!_]*.py")}
    scripts = {"build", "evaluate", "search"}
    assert files | scripts == {word.replace("-", "_") for word in linkseek.ALL} and not files & scripts
    for word, command in linkseek.ALL.items():
        assert command.module.rpartition(".")[2] == word.replace("-", "_")
    assert len(linkseek.ALL) == sum(map(len, linkseek.COMMANDS.values()))


def test_modules_of_a_user_do_not_take_the_place_of_ours(tmp_path):
    """Files called like our folders, in the working folder and on PYTHONPATH."""
    for name in ("app", "indexer", "retriever", "reranker"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the user')")
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "__init__.py").write_text("raise SystemExit('a package of the user')")
    imports = "import sys, linkseek.app.pipelines.catalogue as p; print(p.Pipelines.__module__); import app"
    for path in ("", str(tmp_path / "packages"), str(tmp_path)):
        both = os.pathsep.join(filter(None, [path, str(ROOT)]))
        imported = python("-c", imports, cwd=tmp_path, PYTHONPATH=both)
        assert imported.stdout == "linkseek.app.pipelines.catalogue\n", imported.stderr
        assert "of the user" in imported.stderr  # whose `app` is still theirs
    for command in (["-m", "linkseek", "search"], [ROOT / "app" / "search.py"]):
        done = python(*command, "--help", cwd=tmp_path, PYTHONPATH=both)
        assert done.stdout.startswith("usage: linkseek search"), done.stderr


@pytest.mark.parametrize("argv", [[], ["--help"], ["help"]])
def test_the_map_has_a_line_for_each_command(argv, capsys):
    linkseek.main(argv)
    lines = capsys.readouterr().out.splitlines()
    for word, command in linkseek.ALL.items():
        assert [line.split(None, 1) for line in lines].count([word, command.summary]) == 1


@pytest.mark.parametrize("word", linkseek.ALL)
def test_help_of_a_command_names_it_as_it_was_called(word, capsys):
    with pytest.raises(SystemExit) as caught:
        linkseek.main([word, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: linkseek {word} ")
    meanings = re.findall(r"^  --no-[a-z0-9-]+\s+(.*)", text, re.MULTILINE)  # of switches that are on
    assert len(meanings) == {"build": 3, "evaluate": 1, "train-fusion": 1, "train-hops": 1}.get(word, 0)
    assert all(re.match(r"do not (?!do |not |no )", meaning) for meaning in meanings)


def test_an_unknown_command_suggests_the_nearest():
    for word, meant in (("bild", "build"), ("ask", "search")):
        with pytest.raises(UsageError, match=f"no command {word}\n  Did you mean {meant}?"):
            linkseek.main([word])
    with pytest.raises(UsageError, match="no option --verison\n  Did you mean --version"):
        linkseek.main(["--verison"])
    with pytest.raises(UsageError, match="no command zzz\n  linkseek --help lists"):
        linkseek.main(["zzz"])


def test_help_before_a_command_is_the_help_of_the_command(capsys):
    with pytest.raises(SystemExit):
        linkseek.main(["help", "recall"])
    assert capsys.readouterr().out.startswith("usage: linkseek recall ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["evaluate", "--indx", "i"], "unknown option --indx. Did you mean --index?"),
        (
            ["export", "--model", "c", "--output", "o"],
            "unknown option --model. Omit --model, and give only its value.",
        ),
    ],
)
def test_errors_name_the_command(words, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["linkseek", *words])
    with pytest.raises(SystemExit) as caught:
        linkseek.run()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{words[0]}: error: {told}")
    assert f"linkseek {words[0]} --help" in error


def test_a_preset_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_preset(bundled("configs"), Path("hlp-pretrain")) == ROOT / "configs" / "hlp-pretrain.toml"
    assert find_preset(bundled("configs"), Path("hlp-pretrain.toml")) == Path("hlp-pretrain.toml")
    assert find_preset(bundled("configs"), Path("a/hlp-pretrain")) == Path("a/hlp-pretrain")
    Path("hlp-pretrain").touch()
    assert find_preset(bundled("configs"), Path("hlp-pretrain")) == Path("hlp-pretrain")
    with pytest.raises(UsageError, match="hlp-fine: no such file or preset") as caught:
        find_preset(bundled("configs"), Path("hlp-fine"))
    assert caught.value.hint == "Did you mean hlp-finetune?"


def test_options_of_the_pages_and_of_streamlit():
    argv = ["--index", "i", "--server.port", "8600", "--theme.base=dark", "--results", "r.x"]
    assert start.split_options(argv) == (
        ["--index", "i", "--results", "r.x"],
        ["--server.port", "8600", "--theme.base=dark"],
    )


def test_settings_of_streamlit():
    """What a visitor may see, and what is sent; Streamlit reads the file from the folder of the script."""
    settings = read_toml(ROOT / "app" / ".streamlit" / "config.toml", "")
    assert settings["server"]["address"] == "localhost"
    assert (
        settings["browser"]["gatherUsageStats"] is False and settings["client"]["showErrorDetails"] == "none"
    )
