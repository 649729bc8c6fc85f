"""Wikipedia for Schools 2007 with its links, from the archives of Wikispeedia (West and Leskovec 2012).

The articles are plain text and the links are pairs of articles, so a link's place in the text is the first
mention of the target: its title, or else a variant such as "British" for United Kingdom (`variants.toml`).
"""

from __future__ import annotations

import re
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from experiments.packing.originals import Originals

_LONGEST_HEADING = 120
_SHORTEST_FOLDED = 4
"""Shorter titles are matched with their case, as variants are: "Art" must not match "art"."""
_SHORTEST_LOWERED = 5
"""Shorter names by rule are not tried with a small first letter."""


def wikispeedia(originals: Originals) -> list[dict[str, Any]]:
    """The articles as documents {"id", "title", "text", "links"}, in the order of their ids."""
    targets: dict[str, set[str]] = {}
    for line in _text(originals, "wikispeedia_paths-and-graph.tar.gz", "links.tsv").splitlines():
        if line and not line.startswith("#"):
            source, target = map(unquote, line.split("\t"))
            targets.setdefault(source, set()).add(target)
    with Path(__file__).with_name("variants.toml").open("rb") as file:
        variants: dict[str, list[str]] = tomllib.load(file)
    documents = []
    for id_, raw in sorted(_articles(originals)):
        text = article_text(raw)
        links = place_links(text, targets.get(id_, set()) - {id_}, variants)
        documents.append({"id": id_, "title": id_.replace("_", " "), "text": text, "links": links})
    return documents


def _articles(originals: Originals) -> Iterator[tuple[str, str]]:
    with tarfile.open(originals.path("wikispeedia_articles_plaintext.tar.gz")) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".txt") and (file := archive.extractfile(member)):
                yield unquote(Path(member.name).stem), file.read().decode()


def _text(originals: Originals, name: str, member: str) -> str:
    with tarfile.open(originals.path(name)) as archive:
        for info in archive:
            if Path(info.name).name == member and (file := archive.extractfile(info)):
                return file.read().decode()
    raise originals.damaged(name, f"no {member} in it")


def article_text(raw: str) -> str:
    """The text of an article: paragraphs and list items on one line each, headings as `== HEADING ==`.

    Its title, its subjects, and the paragraph with its source and all that follows are removed.
    """
    blocks: list[str] = []
    title_seen = False
    for block in re.split(r"\n\s*\n", raw):
        joined = " ".join(block.split())
        if not joined or joined == "#copyright" or joined.startswith("2007 Schools Wikipedia Selection."):
            continue
        if "Retrieved from" in block:
            break
        if not title_seen:
            title_seen = True
            continue
        lines = [line for line in block.split("\n") if line.strip()]
        if not lines[0].startswith("   ") and len(joined) <= _LONGEST_HEADING:
            blocks.append(f"== {joined} ==")
        else:
            items: list[str] = []
            for line in (" ".join(line.split()) for line in lines):
                if line.startswith("* ") or not items:
                    items.append(line)
                else:
                    items[-1] += f" {line}"
            blocks.append("\n".join(items))
    return re.sub(r"\( +", "(", "\n\n".join(blocks)).strip()


def place_links(text: str, targets: Iterable[str], variants: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Links {"start", "end", "target"} at the first mentions of their targets, which do not overlap.

    Longer titles are placed first, and all titles before any variant. Targets without a mention get no link.
    """
    lower = text.replace("İ", "I").lower()  # İ becomes two characters in lower case
    taken: list[tuple[int, int]] = []
    links: list[dict[str, Any]] = []
    waiting = sorted(targets, key=lambda target: (len(target), target), reverse=True)
    for by_title in (True, False):
        for target in list(waiting):
            title = target.replace("_", " ")
            names = [title] if by_title else [*_shorter(title), *variants.get(title, [])]
            folded = by_title and len(title) >= _SHORTEST_FOLDED
            spans = (_first_mention(name, text, lower, taken, folded) for name in names)
            span = next(filter(None, spans), None)
            if span:
                taken.append(span)
                links.append({"start": span[0], "end": span[1], "target": target})
                waiting.remove(target)
    return sorted(links, key=lambda link: int(link["start"]))


def _first_mention(
    name: str, text: str, lower: str, taken: list[tuple[int, int]], folded: bool
) -> tuple[int, int] | None:
    """The first place of a name or its plural that overlaps with none of the places taken."""
    if name.lower() not in lower:
        return None
    flags = re.IGNORECASE if folded else 0
    for match in re.finditer(rf"(?<!\w){re.escape(name)}(?:s|es)?(?!\w)", text, flags):
        start, end = match.span()
        if all(end <= first or start >= last for first, last in taken):
            return start, end
    return None


def _shorter(title: str) -> list[str]:
    """Names by rule: without brackets, the part before a comma, without "language" or "River", in -ies."""
    names = [re.sub(r" \(.*?\)$", "", title), title.split(",")[0]]
    names += [title.removesuffix(" language"), title.removesuffix(" River")]
    names += [f"{name[:-1]}ies" for name in (title, names[0]) if name.endswith("y")]
    both: list[str] = []
    for name in names:
        if name != title:
            both += [name, name[0].lower() + name[1:]] if len(name) >= _SHORTEST_LOWERED else [name]
    return list(dict.fromkeys(both))
