"""Contrasts of the words of `tiny_training`, which its bases can learn from."""

from __future__ import annotations

import random
from pathlib import Path

from linkseek.reranker.contrasts import Contrast, TextPair, contrast_line
from linkseek.retriever.mining.pairs import write_lines
from tests.support.tiny_training import WORDS


def tiny_contrasts(objective: str, count: int, seed: int = 0, most: int = 4) -> list[Contrast]:
    """Word sets of a document against others, or queries with an anchor against documents without it."""
    draw = random.Random(f"{objective} {seed}")
    found = []
    for n in range(count):
        words = draw.choices(WORDS, k=9)
        document, title = " ".join(words), f"t{n}"
        query = " ".join(draw.sample(words, 3))
        if objective.startswith(("prop", "harp")):
            others = " ".join(draw.choices(WORDS, k=3))
            better, worse = TextPair(query, document, title), [TextPair(others, document, title)]
        else:
            better = TextPair(query, document, title, ((0, query.index(" ")),))
            others = [" ".join(draw.choices(WORDS, k=9)) for _ in range(draw.randint(1, most))]
            worse = [TextPair(query, text, f"o{n}") for text in others]
        found.append(Contrast(better, tuple(worse), objective))
    return found


def write_tiny_contrasts(path: Path, objective: str, count: int, seed: int = 0, most: int = 4) -> Path:
    """The same as a file."""
    write_lines(path, map(contrast_line, tiny_contrasts(objective, count, seed, most)))
    return path
