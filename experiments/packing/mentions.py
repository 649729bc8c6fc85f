"""Links by mention, for collections that are published without the links of their paragraphs.

A paragraph links to another where it first mentions its title as whole words, the longest title first. A
title of one word must be capitalised in the text, and be in few paragraphs; a title without its parenthesis
counts where one paragraph alone has it; a mention of several paragraphs of one title leads to each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

_WORD = re.compile(r"\w+")
_MAX_WORDS = 8  # of a title
_MAX_SHARE = 0.003  # of the paragraphs that may have a title of one word
_MAX_TARGETS = 10
_PARENTHESIS = re.compile(r"\s*\([^)]*\)$")


def place_mentions(documents: Sequence[dict[str, Any]]) -> None:
    """Put links into documents {"id", "title", "text", "links"}, which have none."""
    names = _names(documents)
    frequency = Counter(word for row in documents for word in set(_WORD.findall(row["text"])))
    most = max(_MAX_SHARE * len(documents), 3)
    for row in documents:
        words = [(match.start(), match.end()) for match in _WORD.finditer(row["text"])]
        linked: set[str] = {row["id"]}
        place = 0
        while place < len(words):
            for length in range(min(_MAX_WORDS, len(words) - place), 0, -1):
                start, end = words[place][0], words[place + length - 1][1]
                anchor = row["text"][start:end]
                if length == 1 and not (anchor[0].isupper() and frequency[anchor] <= most):
                    continue
                targets = [id_ for id_ in names.get(_key(anchor), ()) if id_ not in linked]
                if targets:
                    linked.update(targets)
                    row["links"] += [{"start": start, "end": end, "target": id_} for id_ in targets]
                    place += length - 1
                    break
            place += 1


def _names(documents: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Documents by the names under which they are mentioned; ambiguous names are skipped."""
    whole: dict[str, list[str]] = {}
    short: dict[str, dict[str, list[str]]] = {}  # without the parenthesis: name -> title -> ids
    for row in documents:
        whole.setdefault(_key(row["title"]), []).append(row["id"])
        if plain := _PARENTHESIS.sub("", row["title"]):
            short.setdefault(_key(plain), {}).setdefault(row["title"], []).append(row["id"])
    names = {
        name: ids for by_title in short.values() if len(by_title) == 1 for name, ids in _single(by_title)
    }
    names |= whole
    return {name: ids for name, ids in names.items() if name and len(ids) <= _MAX_TARGETS}


def _single(by_title: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return [(_key(_PARENTHESIS.sub("", title)), ids) for title, ids in by_title.items()]


def _key(name: str) -> str:
    return " ".join(_WORD.findall(name)).casefold()
