"""The choices of a build about reading its corpus, and the options for them.

Each format uses the choices that concern it and ignores the others. They are part of the fingerprint of the
documents, so another choice reads the corpus again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.program.options import Options
from linkseek.indexer.program.settings import read_toml

Dialect = Literal[
    "", "mkdocs", "hugo", "jekyll", "mdx", "docusaurus", "vitepress", "myst", "obsidian", "logseq", "plain"
]  # fmt: skip
"""The values of --markdown."""

_RULES = 'Write NAME = "1" (the argument that is shown), or NAME = "{1} {unit}", one a line.'


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices; their defaults read what a corpus says itself."""

    namespaces: tuple[int, ...] = (0,)
    """of a wiki: the namespaces whose pages are documents"""
    skip_disambiguation: bool = False
    templates: tuple[tuple[str, str], ...] = ()
    """rules for templates, by name in lower case; see `wikitext.templates`"""
    exclude: tuple[str, ...] = ()
    """patterns of files that are not read"""
    site: str = ""
    """the address or the path of a folder's root"""
    markdown: str = ""
    """a `Dialect`; empty: recognised by its config files"""
    limit: int | None = None
    """the number of documents after which nothing more is read"""
    min_title: int = 0
    """documents with fewer characters in their title are skipped and counted"""
    on_error: str = "stop"
    """"stop" raises at the first bad record, "skip" counts it"""
    guessed: tuple[tuple[str, str], ...] = ()
    """(name, value) of choices as an earlier reading has guessed them, for those that are not made"""

    def to_json(self) -> dict[str, Any]:
        """Those that are not the default, for a fingerprint."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: _listed(value) for name, (value, default) in values.items() if value != default}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`, which ignores other keys."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: frozen(value) for name, value in values.items() if name in names})


def _listed(value: Any) -> Any:
    """Tuples as lists, as JSON gives them back."""
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


DEFAULT = Choices()


class ReadingOptions(Options):
    """The options of commands that read a corpus."""

    exclude: list[str] = Field([])
    """patterns of files in a folder to skip, such as drafts/* or _*.md; may be repeated"""
    site: str = ""
    """the address of the folder's root, https://docs.example.org/guide/, or its path, /guide/, to resolve
    full addresses and links from the root of the site; default: guessed from the links, else /
    """
    markdown: Dialect = ""
    """the dialect of Markdown: mkdocs, hugo, jekyll, mdx, docusaurus, vitepress, myst, obsidian, logseq or
    plain; by default recognised by configuration files and marks
    """
    namespace: list[Annotated[int, Field(ge=0, le=9_999)]] = Field([0])
    """for a wiki: the numbers of the namespaces to read, such as 0,12,100"""
    skip_disambiguation: bool = False
    """skip pages that only list the meanings of a title, and count them"""
    on_error: Literal["stop", "skip"] = "stop"
    """at a damaged record (of an update, also at an unknown id): stop, or skip and count it"""
    templates: Path | None = None
    """for a wiki: a TOML file of templates to show, one per line: NAME = "1" (an argument) or NAME = "{1}
    {unit}"
    """

    @property
    def choices(self) -> Choices:
        """Raises `UsageError` for a file of templates that cannot be read, or is not as it should be."""
        return Choices(
            tuple(sorted({*self.namespace})) or (0,),
            self.skip_disambiguation,
            read_rules(self.templates) if self.templates else (),
            tuple(self.exclude),
            self.site.strip(),
            self.markdown,
            on_error=self.on_error,
        )

    def choices_over(self, earlier: Choices) -> Choices:
        """Those of an earlier reading, with the options that are given replaced."""
        given = {"namespaces" if name == "namespace" else name for name in self.model_fields_set}
        names = given & {field.name for field in fields(Choices)}
        return replace(earlier, **{name: getattr(self.choices, name) for name in names})


def read_rules(path: Path) -> tuple[tuple[str, str], ...]:
    """The rules of a file of templates. Raises `UsageError` naming the file and the rule."""
    rules = []
    for name, rule in read_toml(path, _RULES).items():
        if isinstance(rule, int) and not isinstance(rule, bool):
            rule = str(rule)
        if not isinstance(rule, str):
            raise UsageError(f"{path}: {name} is {type(rule).__name__}, expected text", _RULES)
        rules.append((" ".join(name.replace("_", " ").split()).lower(), rule))
    return tuple(sorted(rules))
