"""The steps of an experiment: commands that make the models of its rows, each once.

    [words]            values for words in braces; [scales.NAME] replaces some of them
    [steps.NAME]       command: of linkseek, or one of `OWN_COMMANDS`; costs: by scale, minutes and megabytes
    [pipelines.NAME]   an entry of pipelines.toml

A NAME with words in braces stands for a table for each combination of their values; a table with fewer words
in its name wins. In a command, <NAME> is the result of another step, <> its own, and {data} the folder of
--data. Results are in FOLDER/NAME-KEY, where KEY is the hash of the command, the keys of the results that it
reads, the settings of its preset in configs/ or experiments/ and the sizes of its files of {data}: rows share
what they have in common, and a step with other settings has another result. NAME-KEY.step.json says that a
step is finished.
"""

from __future__ import annotations

import fnmatch
import glob
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from experiments.tables.definition import Experiment, Row, StepTable
from linkseek import __main__ as linkseek
from linkseek.indexer.program.bundled import bundled
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.paths import check_name, inside
from linkseek.indexer.program.settings import Values, read_toml, toml_value
from linkseek.indexer.program.text import nearest
from linkseek.indexer.store.artifacts import LATE_PREFIX, PREFIXES, read_json, value_sha256

_WORD = re.compile(r"\{(\w+)\}")
_RESULT = re.compile(r"<([^<>]*)>")
_FILE = re.compile(r"([\w.-]+=)?((?:\{data\}|samples/|experiments/).*)")
"""A word of a command that is a file, or a setting that is one."""

_ROOT = Path(__file__).parents[2]

MAX_TABLES = 100_000
"""Tables of steps, or of pipelines, that words in braces stand for."""

OWN_COMMANDS = frozenset(("convert", "cross-validate", "pack", "shrink", "sweep"))
"""Commands of steps that are not Linkseek's."""

STEP_COMMANDS = (OWN_COMMANDS | linkseek.ALL.keys()) - {"app", "demo", "mcp", "serve"}
"""All commands but those that do not end, and the one that runs others."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExperimentStep:
    """One command. pattern: its name in the file; words: of the command; result: how its files begin."""

    name: str
    pattern: str
    words: tuple[str, ...]
    needs: tuple[str, ...]
    result: Path
    minutes: float
    megabytes: float

    @property
    def record(self) -> Path:
        """The file that says that the step is finished."""
        return self.result.with_name(self.result.name + ".step.json")

    @property
    def is_made(self) -> bool:
        """Whether it is finished, and its result still there."""
        return self.record.is_file() and bool(self.files())

    def files(self) -> list[Path]:
        """All files of its result."""
        names = glob.escape(self.result.name) + "*"
        paths = [path for path in self.result.parent.glob(names) if path != self.record]
        return [file for path in paths for file in [path, *path.rglob("*")] if file.is_file()]


class _Table(NamedTuple, Generic[T]):
    """A table of the file under a full name: words have one value each."""

    pattern: str
    content: T
    words: Mapping[str, str]


class Steps:
    """The steps and pipelines of an experiment at one scale."""

    def __init__(
        self,
        experiment: Experiment,
        scale: str,
        data: Path | None,
        folder: Path,
        *,
        is_plan: bool = False,
    ) -> None:
        """is_plan: files of data may be missing. `missing` then has them, and otherwise the reasons why
        pipelines have no steps.

        Raises `UsageError` for an unknown scale or word, a name that no file can have, too many tables.
        """
        if scale not in experiment.scales:
            hint = nearest(scale, experiment.scales)
            raise UsageError(f"--scale {scale}: this experiment has no such scale", hint)
        words = experiment.words | experiment.scales[scale] | {"seed": experiment.seeds}
        self._values = {word: [str(v) for v in _listed(values)] for word, values in words.items()}
        self._experiment, self._scale, self._data, self._folder = experiment, scale, data, folder
        self._tables = self._expanded(experiment.steps)
        self._entries = self._expanded(experiment.pipelines)
        for names, what in ((self._tables, "the step"), (self._entries, "the pipeline")):
            for name in names:
                check_name(name, what)
        self._steps: dict[str, ExperimentStep] = {}
        self._lacking: dict[str, InputError] = {}
        self.is_plan, self.missing = is_plan, dict[str, str]()

    def of_row(self, row: Row) -> dict[str, ExperimentStep]:
        """The steps of a row by name, each after those that it needs, without what finished ones needed."""
        return self._with_needs(self._named(row))

    def of_rows(self, rows: Iterable[Row], patterns: Sequence[str] = ()) -> list[ExperimentStep]:
        """The steps of rows, each once, as `of_row` has them.

        patterns: only steps that match one, such as "pairs-*", and those that they need. Raises `UsageError`
        for a pattern that no step matches.
        """
        names = [name for row in rows for name in self._named(row)]
        if patterns:
            every = self._with_needs(names, of_finished=True)
            names = []
            for pattern in patterns:
                matching = fnmatch.filter(every, pattern)
                if not matching:
                    raise UsageError(f'no step matches "{pattern}"', nearest(pattern, every))
                names += matching
        return [*self._with_needs(names).values()]

    def _named(self, row: Row) -> list[str]:
        """The steps that a row's pipelines name."""
        entries = [_fill(str(entry.content), entry.words) for entry in self._entries_of(row)]
        return _RESULT.findall(" ".join(entries))

    def _with_needs(self, names: Iterable[str], *, of_finished: bool = False) -> dict[str, ExperimentStep]:
        """Steps by name, each after those that it needs. of_finished: also what finished steps needed."""
        found: dict[str, ExperimentStep] = {}

        def add(name: str) -> None:
            step = self.step(name)
            if name not in found and (of_finished or not step.is_made):
                for need in step.needs:
                    add(need)
            found.setdefault(name, step)

        for name in names:
            add(name)
        return found

    def check_corpora(self) -> None:
        """Add the files of indexes that are still to be built to `missing`, in a plan."""
        for name in self._experiment.indexes if self.is_plan else ():
            self.has_corpus(name)

    def processor_hours(self, row: Row) -> float | None:
        """The processor time of a row's steps, shared ones included; None if it was not recorded."""
        steps = self._with_needs(self._named(row), of_finished=True).values()
        seconds = [read_json(step.record).get("processor_seconds") for step in steps if step.is_made]
        if not steps or len(seconds) < len(steps) or None in seconds:
            return None
        return float(sum(seconds)) / 3600

    def encoders(self, row: Row, index: str) -> list[str]:
        """The encoders whose vectors a row's own pipelines search in an index: folders of steps, or names.

        Of those of token vectors, or of term weights, as linkseek build names their kinds.
        """
        values = []
        for _, entry in self._named_entries(self._pipelines_of(row, index)):
            content = entry.content
            kind = PREFIXES.get(content.get("searcher", ""), "")
            names = [kind + content["encoder"]] if content.get("encoder") else []
            names += [name for name in _listed(content.get("rerank", [])) if name.startswith(LATE_PREFIX)]
            values += [_fill(name, entry.words) for name in names]
        return list(dict.fromkeys(map(self._placed, values)))

    def pipelines(self) -> str:
        """The entries of all rows, as a file for --pipelines-file; an encoder has its folder's name.

        A plan has those of the rows without steps.
        """
        tables = {}
        for row in self._experiment.rows:
            if self.is_plan and self.of_row(row):
                continue
            for name, entry in self._named_entries(self._pipelines_of(row)):
                lines = [f"[{toml_value(name)}]"]
                for key, value in entry.content.items():
                    shown = [self._shown(each, entry.words, key) for each in _listed(value)]
                    lines.append(f"{key} = {toml_value(shown if isinstance(value, list) else shown[0])}")
                tables[name] = "\n".join([*lines, ""])
        return "\n".join(tables.values())

    def _shown(self, value: Any, words: Mapping[str, str], key: str) -> Any:
        """A value of an entry; a text with its words, and with the paths of the steps that it names."""
        if not isinstance(value, str):
            return value
        value = _fill(value, words)
        file = self._file(value)
        return str(file[1]) if file else self._placed(value, short=key == "encoder")

    def step(self, name: str) -> ExperimentStep:
        """A step by its full name. Raises `UsageError` for an unknown one."""
        if name in self._lacking:
            raise self._lacking[name]
        if name not in self._steps:
            if name not in self._tables:
                raise UsageError(f'no step "{name}", or it needs itself', nearest(name, self._tables))
            try:
                self._steps[name] = self._resolved(name, self._tables.pop(name))
            except InputError as error:  # data that it or a step before it reads is missing
                self._lacking[name] = error
                raise
        return self._steps[name]

    def _resolved(self, name: str, table: _Table[StepTable]) -> ExperimentStep:
        words = _words_of(name, _fill(table.content.command, table.words))
        needs = tuple(dict.fromkeys(need for word in words for need in _RESULT.findall(word) if need))
        made_from = [self._placed(word, short=True) for word in words]
        key = value_sha256([made_from, [self._input(word) for word in words]])[:8]
        result = inside(self._folder, name, "the step", f"{{}}-{key}")
        files = [self._file(word) for word in words]
        placed = [
            f"{file[0]}{file[1]}" if file else self._placed(word, own=result)
            for word, file in zip(words, files, strict=True)
        ]
        minutes, megabytes = table.content.costs.get(self._scale, (0.0, 0.0))
        return ExperimentStep(name, table.pattern, tuple(placed), needs, result, minutes, megabytes)

    def _placed(self, text: str, *, own: Path | None = None, short: bool = False) -> str:
        """A text with the paths of results, or with their names alone."""

        def place(found: re.Match[str]) -> str:
            path = self.step(found[1]).result if found[1] else own
            return "" if path is None else path.name if short else str(path.absolute())

        return _RESULT.sub(place, text)

    def _file(self, word: str) -> tuple[str, Path] | None:
        """A word that names a file: the text before the name, and the path. None for another word."""
        named = _FILE.fullmatch(word)
        if not named:
            return None
        key, name = named[1] or "", named[2]
        if name.startswith("samples/"):
            return key, bundled(name)
        if name.startswith("experiments/"):
            return key, _ROOT / name
        if self._data is None and not self.is_plan:
            raise InputError(f"{name}: no folder with data", "Say where: --data DIR, or LINKSEEK_DATA.")
        path = Path(name.replace("{data}", str(self._data.absolute()) if self._data else "DATA"))
        if not path.exists():
            what = self._experiment.files.get(name, "A step of this experiment reads it.")
            if not self.is_plan:
                raise InputError(f"{path}: no such file", what)
            self.missing[str(path)] = what
        return key, path

    def _input(self, word: str) -> Values | int | None:
        """The size of a file of data, or the settings of a preset; None for all other words."""
        if word.startswith("experiments/"):
            return read_toml(_ROOT / word, "")
        if file := self._file(word):
            return file[1].stat().st_size if file[1].is_file() else None
        preset = bundled(f"configs/{word}.toml")
        return read_toml(preset, "") if re.fullmatch(r"[\w-]+", word) and preset.is_file() else None

    def _pipelines_of(self, row: Row, index: str | None = None) -> list[str]:
        """The pipelines of a row whose data are here, if the experiment says what to get for the others.

        index: only the pipelines of its columns.
        """
        every = self._experiment.columns
        columns = [c for c in every if index is None or self._experiment.index_of(c) == index]
        if self._experiment.files:
            columns = [column for column in columns if self.has_corpus(self._experiment.index_of(column))]
        names = [name for column in columns for name in row.pipelines(column, self._experiment.seeds)]
        return [name for name in names if not self._experiment.files or self._has_data(name)]

    def has_corpus(self, index: str) -> bool:
        """Whether an index is there or can be built; `missing` says what to get for it."""
        source = self._experiment.indexes[index]
        is_built = (source.path / "manifest.json").exists()
        return is_built or self._found(str(source.path), lambda: [*map(self._file, source.build)])

    def _has_data(self, name: str) -> bool:
        tables = [(entry.content, entry.words) for _, entry in self._named_entries([name])]
        values = [_fill(str(v), words) for content, words in tables for v in content.values()]
        return self._found(
            name,
            lambda: [
                *map(self._file, values),
                self._with_needs(_RESULT.findall(" ".join(values)), of_finished=True),
            ],
        )

    def _found(self, name: str, look: Callable[[], object]) -> bool:
        """Whether all data are here that a name needs; `missing` says what is not."""
        try:
            look()
        except InputError as error:
            self.missing[name] = f"{error.message}. {error.hint}"
            return False
        return True

    def _entries_of(self, row: Row) -> list[_Table[dict[str, Any]]]:
        return [entry for _, entry in self._named_entries(self._pipelines_of(row))]

    def _named_entries(self, names: Iterable[str]) -> Iterator[tuple[str, _Table[dict[str, Any]]]]:
        """The entries of pipelines that the experiment makes, and of their members, each once."""
        waiting, seen = list(names)[::-1], set[str]()
        while waiting:
            name = waiting.pop()
            if name in self._entries and name not in seen:
                seen.add(name)
                entry = self._entries[name]
                yield name, entry
                members = [_fill(str(m), entry.words) for m in _listed(entry.content.get("of", []))]
                waiting += members[::-1]

    def _expanded(self, tables: Mapping[str, T]) -> dict[str, _Table[T]]:
        """Tables by their full names, with the values of all words that have only one there."""
        single = {word: values[0] for word, values in self._values.items() if len(values) == 1}
        expanded: dict[str, _Table[T]] = {}
        for pattern in sorted(tables, key=lambda name: -len(_WORD.findall(name))):
            names = list(dict.fromkeys(_WORD.findall(pattern)))
            unknown = next((name for name in names if name not in self._values), None)
            if unknown:
                raise UsageError(f"[{pattern}]: no word {{{unknown}}}", nearest(unknown, self._values))
            count = len(expanded) + math.prod(len(self._values[name]) for name in names)
            if count > MAX_TABLES:
                raise UsageError(
                    f"[{pattern}]: the combinations of its words would make {count:,} tables, and an "
                    f"experiment can have {MAX_TABLES:,}",
                    "Give its words fewer values, or use fewer words in the name.",
                )
            for values in product(*(self._values[name] for name in names)):
                words = single | dict(zip(names, values, strict=True))
                expanded[_fill(pattern, words)] = _Table(pattern, tables[pattern], words)
        return expanded


def _words_of(step: str, command: str) -> list[str]:
    """The words of a step's command. Raises `UsageError` unless it is one that makes a result, and ends."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        message = f'the step "{step}": its command cannot be split into words ({error}): {command}'
        raise UsageError(message, "Close each quotation, and write a backslash twice.") from None
    word = words[0] if words else ""
    if word not in STEP_COMMANDS:
        message = f'the step "{step}": "{word}" is not a command for steps'
        raise UsageError(message, nearest(word, STEP_COMMANDS))
    return words


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _fill(text: str, words: Mapping[str, str]) -> str:
    """A text with its words replaced. Raises `UsageError` for a word without one value."""

    def value(found: re.Match[str]) -> str:
        if found[1] != "data" and found[1] not in words:
            raise UsageError(f"{text}: no single value for {{{found[1]}}}", nearest(found[1], words))
        return words.get(found[1], found[0])

    return _WORD.sub(value, text)
