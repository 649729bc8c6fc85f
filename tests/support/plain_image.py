"""deploy/Dockerfile without Docker: its instructions, and their steps in a plain folder.

A folder is the root of each stage: absolute paths of instructions lie below it. All steps run as they stand,
with these replacements: base images are this machine's programs; the sample has fewer articles; pip installs
the wheel alone, next to the libraries of this environment; `useradd` makes a folder and `chown` nothing; the
user stays the same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.command import ROOT
from tests.support.shorter_sample import shorten_sample

DOCKERFILE = ROOT / "deploy" / "Dockerfile"

_ABSOLUTE = re.compile(r"(?<![\w:/.$})])/(?=\w)")
"""The slash that begins an absolute path, not one of an address or within a path."""
_PIP = "--no-index --no-deps --disable-pip-version-check"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: word, rest."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(word, rest.strip()) for word, _, rest in pairs]


class PlainImage:
    """The image in a folder: `build` runs its steps, `start` and `is_healthy` are a container's."""

    def __init__(self, folder: Path) -> None:
        self.commands: dict[str, list[str]] = {}
        """The words of ENTRYPOINT, CMD and HEALTHCHECK."""
        self._folder = self._root = self._working = folder
        self._environment: dict[str, str] = {}
        self._stages: dict[str, Path] = {}

    def build(self) -> None:
        """Run all instructions. Raises `CalledProcessError` if one fails, `ValueError` if it is unknown."""
        for word, rest in instructions():
            match word:
                case "FROM":
                    self._begin(rest.partition(" AS ")[2] or str(len(self._stages)))
                case "ARG":
                    name, _, value = rest.partition("=")
                    self._environment.setdefault(name, value)
                case "ENV":
                    pairs = (pair.partition("=") for pair in shlex.split(rest))
                    self._environment |= {name: self._inside(value) for name, _, value in pairs}
                case "WORKDIR":
                    self._working = self._working / self._inside(rest)
                    self._working.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(shlex.split(rest))
                case "RUN":
                    command = ["sh", "-c", self._inside(rest)]
                    subprocess.run(command, cwd=self._working, env=self._environment, check=True)
                case "ENTRYPOINT" | "CMD":
                    self.commands[word] = json.loads(rest)
                case "HEALTHCHECK":
                    self.commands[word] = json.loads(rest.partition(" CMD ")[2] or rest.partition("CMD ")[2])
                case "VOLUME":
                    assert self.path(rest).is_dir()
                case "USER" | "EXPOSE":
                    pass
                case _:
                    raise ValueError(f"no step is known for {word}")

    def path(self, inside: str) -> Path:
        """Where an absolute path of the image lies."""
        return Path(self._inside(inside))

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """`docker run` with these variables; the output is a pipe."""
        command = self.commands["ENTRYPOINT"] + self.commands["CMD"]
        return subprocess.Popen(
            command,
            cwd=self._working,
            env=self._environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_healthy(self, **environment: str) -> bool:
        """Whether the health check of that container succeeds."""
        command, variables = self.commands["HEALTHCHECK"], self._environment | environment
        return not subprocess.run(command, cwd=self._working, env=variables, capture_output=True).returncode

    def _begin(self, name: str) -> None:
        """A stage, which has nothing of the others but what is copied from them."""
        self._root = self._working = self._stages[name] = self._folder / name
        programs, libraries, home = (self._root / name for name in ("bin", "libraries", "home/linkseek"))
        for folder in (programs, libraries, self._root / "tmp"):
            folder.mkdir(parents=True)
        python = shlex.quote(sys.executable)
        for program, line in {
            "python": f'exec {python} "$@"',
            "pip": f'word=$1; shift; exec {python} -m pip "$word" {_PIP} "$@"',
            "useradd": f"mkdir -p {shlex.quote(str(home))}",
            "chown": "true",
        }.items():
            (programs / program).write_text(f"#!/bin/sh\n{line}\n")
            (programs / program).chmod(0o755)
        self._environment = {
            "PATH": os.pathsep.join(map(str, (programs, libraries / "bin", "/usr/bin", "/bin"))),
            "PYTHONPATH": str(libraries),
            "PIP_TARGET": str(libraries),
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as the value of --build-isolation
            "HOME": str(home),
        }

    def _copy(self, words: list[str]) -> None:
        source = ROOT
        if words[0].startswith("--from="):
            source = self._stages[words.pop(0).removeprefix("--from=")]
        *names, target = words
        into = self._working / self._inside(target)
        for name in names:
            copied = source / name.removeprefix("/")
            if copied.is_dir():
                shutil.copytree(copied, into, symlinks=True, dirs_exist_ok=True)
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy2(copied, into)
        if "samples" in names:
            shorten_sample(into / "linkseek-sample.xml.bz2")

    def _inside(self, text: str) -> str:
        """A text whose absolute paths are those of the folder."""
        return _ABSOLUTE.sub(f"{self._root}/", text)
