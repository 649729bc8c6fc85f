"""The files of deploy/: what they name exists, and their options parse."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from linkseek.__main__ import ALL
from linkseek.app.commands.app import split_options
from linkseek.app.page.context import AppOptions
from linkseek.app.serving.options import ServeOptions
from linkseek.indexer.commands.update import UpdateOptions
from linkseek.indexer.program.options import parse_options, parse_service_options
from tests.support.command import ROOT
from tests.support.commands_read import read_command
from tests.support.served import build_planets, running

DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: word, rest."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    joined = re.sub(r"\\\n\s*", "", "\n".join(line for line in lines if not line.startswith("#")))
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in pairs]


def test_the_image_copies_all_that_the_wheel_is_made_of() -> None:
    copied = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    copied = [name for name in copied if not name.startswith(("-", "/"))]
    assert all((ROOT / name).exists() for name in copied)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied) and "*" in ignored
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["only-include"], *project["project"]["license-files"]]
    assert {name.partition("/")[0] for name in needed} <= set(copied)
    assert {"pyproject.toml", "hatch_build.py", "README.md"} <= set(copied)


def licences_of(card: str) -> dict[str, str]:
    """What a model learned from -> its licence."""
    table = card.partition("| learned from | licence |\n|---|---|\n")[2].partition("\n\n")[0]
    return dict(line.strip("| ").split(" | ") for line in table.splitlines())


def test_every_included_model_names_its_licence_and_those_of_what_it_learned_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expression = {name.lower() for name in project["license"].split(" AND ")}
    texts = [path for glob in project["license-files"] for path in ROOT.glob(glob)]
    assert len(texts) == len(expression) == 3 and all(path.stat().st_size > 5_000 for path in texts)
    readme = (ROOT / "README.md").read_text().partition("## Licence")[2]
    names = {path.parent.name: path for path in ROOT.glob("re*/adapters/*/README.md")}
    assert len(names) == len([*ROOT.glob("re*/adapters/*/*.safetensors")]) == 9
    for name, path in names.items():
        card = path.read_text()
        assert re.findall(r"^license: (\S+)$", card, re.MULTILINE)[0] in expression, name
        learned = licences_of(card)
        assert learned and all(learned.values()), name
        config = path.with_name("adapter_config.json")
        base = json.loads(config.read_text())["base_model_name_or_path"] if config.exists() else ""
        base = names.get(Path(base).name)
        if base:  # a model has also learned from what its base did
            assert licences_of(base.read_text()).items() <= learned.items(), name
        if any("-NC" in licence for licence in learned.values()):
            assert "non-commercial" in card and f"`{name}`" in readme, name
    hops = json.loads((ROOT / "app" / "pipelines" / "hops.json").read_text())["trained"]
    assert hops["licence"] in expression and len(hops["licences of what it learned from"]) == 5


def test_the_image_runs_without_root_and_looks_after_itself() -> None:
    words = [word for word, _ in instructions()]
    of_word = dict(instructions())
    assert of_word["USER"].isdigit() and words.index("USER") < words.index("ENTRYPOINT")
    assert all(word not in words[words.index("USER") :] for word in ("COPY", "ADD"))
    assert "/ready" in of_word["HEALTHCHECK"] and of_word["VOLUME"] == "/indexes"
    assert json.loads(of_word["ENTRYPOINT"]) == ["linkseek"] and json.loads(of_word["CMD"])[0] in ALL
    runs = " ".join(rest for word, rest in instructions() if word == "RUN")
    extras = set(re.findall(r"\[([\w,$]+)\]", runs)[0].split(","))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras - {"$DEVICE"} <= set(known) and {"cpu", "gpu"} <= set(known)


def test_the_options_of_the_image_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = shlex.split(dict(instructions())["ENV"])
    for name, _, value in (variable.partition("=") for variable in variables):
        monkeypatch.setenv(name, value)
    options = parse_service_options(ServeOptions, [], "linkseek serve")
    assert (options.host, options.index, options.port) == ("0.0.0.0", [Path("/indexes/default")], 8000)
    assert options.token_file == Path("/run/secrets/linkseek_token")


def test_the_commands_of_the_image_are_understood_and_its_check_asks_the_service(tmp_path, monkeypatch):
    runs = " && ".join(rest for word, rest in instructions() if word == "RUN").split(" && ")
    commands = [shlex.split(run)[1:] for run in runs if run.startswith("linkseek ")]
    assert [word for word, *_ in commands] == ["build", "search"]
    for word, *words in commands:
        read_command(word, words)
    python, _, check = json.loads(dict(instructions())["HEALTHCHECK"].partition("CMD ")[2])
    assert python == "python"
    with running(index=[build_planets(tmp_path / "planets")], pipeline="bm25") as client:
        monkeypatch.setenv("LINKSEEK_PORT", str(client.address[1]))
        exec(check)
    with pytest.raises(OSError, match="refused"):
        exec(check)


def test_the_compose_file_has_the_page_and_the_service() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        folder = (DEPLOY / service["build"]["context"]).resolve()
        assert folder == ROOT and (folder / service["build"]["dockerfile"]).is_file()
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    pages = {name: compose["services"][name]["command"] for name in ("page", "simple")}
    assert all(command[0] in ALL for command in pages.values())
    options = {
        name: parse_options(AppOptions, split_options(command[1:])[0], "linkseek app")
        for name, command in pages.items()
    }
    assert options["page"].read_only and options["simple"].simple
    assert all(compose["services"][name]["volumes"][0].endswith(":ro") for name in pages)
    assert set(compose["services"]["service"]["secrets"]) == set(compose["secrets"])


def unit(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / name)
    return unit


def test_the_unit_is_confined() -> None:
    service = unit("linkseek.service")["Service"]
    assert service["ExecStart"].split()[1] in ALL and service["DynamicUser"] == "yes"
    assert int(service["TimeoutStopSec"]) > ServeOptions().time_limit


def test_nginx_waits_longer_than_the_service() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    assert text.count("{") == text.count("}")
    assert int(re.findall(r"proxy_read_timeout (\d+)s", text)[0]) > ServeOptions().time_limit
    assert f"client_max_body_size {ServeOptions().max_body}m;" in text


def test_the_timer_runs_a_mirror_of_the_index_that_is_served() -> None:
    served, mirror = unit("linkseek.service")["Service"], unit("linkseek-mirror.service")["Service"]
    program, word, *arguments = mirror["ExecStart"].split()
    options = parse_options(UpdateOptions, arguments, "linkseek update")
    assert (program, word) == (served["ExecStart"].split()[0], "update")
    assert served["Environment"] and str(options.index) == "/srv/indexes/default" and options.mirror
    assert mirror["ReadWritePaths"] == str(options.index.parent) and mirror["Type"] == "oneshot"
    assert unit("linkseek-mirror.timer")["Timer"]["OnCalendar"]
