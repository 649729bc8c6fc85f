"""Tables of docs/ that list what there is: commands, objectives, test sets, rows of the record `hops`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from linkseek.__main__ import COMMANDS
from linkseek.app.report import text
from linkseek.app.testsets.registry import all_test_sets
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.objectives.registry import PAIRS

_RECORDS = Path(__file__).parents[1] / "experiments" / "records"

_PACKING = "; BEIR's packing: CC BY-SA 4.0"
"""What the licences of all collections of BEIR end in; the page says it once."""


def commands() -> str:
    """The map of commands."""
    rows = [
        (group * (not number), f"`linkseek {word}`", command.summary)
        for group, words in COMMANDS.items()
        for number, (word, command) in enumerate(words.items())
    ]
    return _table(("", "command", "purpose"), rows)


def pair_objectives() -> str:
    """The objectives of bi-encoders."""
    rows = [(f"`{name}`", each.query_is, each.positive_is) for name, each in PAIRS.objectives.items()]
    return _table(("objective", "query", "passage to find"), rows)


def contrast_objectives() -> str:
    """The objectives of cross-encoders."""
    rows = [(f"`{name}`", each.better_is, each.worse_is) for name, each in CONTRASTS.objectives.items()]
    return _table(("objective", "better", "worse"), rows)


def contrast_settings() -> str:
    """The settings of the objectives of cross-encoders, as options."""
    rows = [(f"`--{name.replace('_', '-')}`", s.meaning, s.default) for name, s in CONTRASTS.settings.items()]
    return _table(("option", "meaning", "default"), rows)


def test_sets() -> str:
    """The test sets, and their corpora."""
    sets = sorted(all_test_sets().items())
    set_rows = [
        (
            f"`{name}`", s.title, _count(s.queries), f"`{s.corpus.index}`",
            " or ".join(source.needs for source in s.sources), s.licence.removesuffix(_PACKING),
        )
        for name, s in sets
    ]  # fmt: skip
    corpora = {s.corpus.index: s.corpus for _, s in reversed(sets)}
    corpus_rows = [
        (f"`{index}`", corpus.title, _count(corpus.documents), corpus.where, f"`{corpus.build_options}`")
        for index, corpus in sorted(corpora.items())
    ]
    return "\n".join(
        (
            "### Test sets\n",
            _table(("name", "test set", "questions", "index", "needs", "licence"), set_rows),
            "### Corpora\n",
            _table(("index", "corpus", "documents", "where to get it", "options"), corpus_rows),
        )
    )


def hops() -> str:
    """Recall at 5 of every row of the record, and what the rule and the trees add to the others."""
    record = json.loads((_RECORDS / "hops.json").read_text("utf-8"))
    titles = [column["title"] for column in record["columns"]]
    parts = []
    for measure, columns in (("R@5", len(titles)), ("all@5", 3)):  # the latter of the sets' own corpora
        head = ["", *(f"{title}, {text.label(measure)}" for title in titles[:columns])]
        rows = [
            [f"`{row['name']}`" if row["name"] == row["pipeline"] else row["name"]]
            + [text.value(measure, cell["measures"][measure]["mean"]) for cell in row["cells"][:columns]]
            for row in record["rows"]
        ]
        parts.append(f"<!-- figures of hops -->\n{_table(head, rows)}")
    named = {row["pipeline"]: row["name"] for row in record["rows"]}
    rule, trees = named["hybrid-hop"], named["trees-links-{set}"]
    pairs = [(rule, named[name]) for name in ("hybrid-weighted", "control-hop")]
    pairs += [(trees, name) for name in named.values() if name != trees]
    head = ["R@5 in points", *(title.replace("all in one corpus", "one corpus") for title in titles)]
    rows = [[f"{b} - {a}", *(_gain(found, a, b) for found in record["differences"])] for b, a in pairs]
    return "\n".join((*parts, _table(head, rows)))


def _gain(differences: list[dict[str, Any]], a: str, b: str) -> str:
    """What b has over a in points of R@5, with its interval; a star where it is significant."""
    tested = (each for each in differences if each["measure"] == "R@5")
    found = next((each for each in tested if {each["a"], each["b"]} == {a, b}), None)
    if found is None:  # of two groups of rows
        return ""
    sign = 100 if found["b"] == b else -100
    mean, *ends = (sign * found[key] for key in ("difference", "low", "high"))
    star = "\\*" * (found["p_randomisation_holm"] < 0.05)
    return f"{mean:+.1f}{star} ({min(ends):+.1f} to {max(ends):+.1f})"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
