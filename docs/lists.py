"""Tables of docs/ that list what there is: commands, objectives, test sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linkseek.__main__ import COMMANDS
from linkseek.app.testsets.registry import all_test_sets
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.objectives.registry import PAIRS

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


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
