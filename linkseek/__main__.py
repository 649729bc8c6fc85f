"""linkseek WORD: the entry point of all commands, also as `python -m linkseek WORD`.

`linkseek --help` lists them by purpose, `linkseek WORD --help` explains one. A command's code is imported
when the command runs, so the list appears at once. Each command is a file named after its word in a folder
`commands`; the scripts `indexer/build.py`, `app/search.py` and `app/evaluate.py` are commands, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from linkseek.indexer.program.errors import UsageError, exit_on_error


class Word(NamedTuple):
    """A command: the module of `linkseek` whose `main` it calls, and its line in the list."""

    module: str
    summary: str
    resumes: bool = False
    """whether the same command resumes after an interruption"""


COMMANDS = {
    "Try it": {
        "demo": Word("app.commands.demo", "index the bundled sample and measure four pipelines on it", True),
    },
    "Index": {
        "build": Word("indexer.build", "build an index from a corpus, or add to one", True),
        "update": Word("indexer.commands.update", "add documents to an index and remove some", True),
        "partition": Word("indexer.commands.partition", "join indexes as partitions of one, or split one"),
        "recall": Word("indexer.commands.recall", "compare an index with exact search, choose its settings"),
    },
    "Search": {
        "search": Word("app.search", "ask an index a question, or all of a file for a run"),
        "app": Word("app.commands.app", "open the search pages in a browser"),
        "serve": Word("app.commands.serve", "answer programs over HTTP"),
        "mcp": Word("app.commands.mcp", "give language models search and links as tools"),
    },
    "Measure": {
        "evaluate": Word("app.evaluate", "measure pipelines on a test set and write a report"),
        "compare": Word("app.commands.compare", "find where two pipelines disagree, to judge them"),
        "asked": Word("app.commands.asked", "list what people asked, from logs, and forget it"),
        "rerank": Word("reranker.commands.rerank", "re-rank a run file of any system"),
    },
    "Train a retriever": {
        "mine": Word("retriever.commands.mine", "mine training pairs from an index's links"),
        "mlm": Word("retriever.commands.mlm", "train a small BERT on an index's passages", True),
        "train": Word("retriever.commands.train", "pre-train or fine-tune a bi-encoder on pairs", True),
        "distill": Word("retriever.commands.distill", "make a static encoder, for machines without a GPU"),
        "negatives": Word("retriever.commands.negatives", "label questions, add hard negatives from a run"),
        "score": Word("reranker.commands.score", "add a re-ranker's scores to pairs, to be learned from"),
        "export": Word("reranker.commands.export", "merge adapters into a full model, or take one tower"),
    },
    "Train a fusion": {
        "train-fusion": Word("app.commands.train_fusion", "learn to join pipelines, from questions or links"),
        "train-hops": Word(
            "app.commands.train_hops", "learn to follow links, from questions of several steps"
        ),
    },
    "Train a re-ranker": {
        "mine-contrasts": Word("reranker.commands.mine_contrasts", "mine contrasts from texts and links"),
        "pretrain": Word("reranker.commands.pretrain", "pre-train a cross-encoder on contrasts", True),
        "finetune": Word("reranker.commands.finetune", "fine-tune a cross-encoder on labelled pairs", True),
    },
}
"""In the order of use: group, word, command."""

LABORATORY = ("experiment", "pack", "sweep")
"""Commands of the laboratory, which is not part of the package."""

_OTHER_WORDS = {
    **dict.fromkeys(("index", "ingest", "create", "install"), "build"),
    **dict.fromkeys(("query", "ask", "find"), "search"),
    **dict.fromkeys(("add", "delete", "remove", "upgrade", "refresh"), "update"),
    **dict.fromkeys(("ui", "web", "gui"), "app"),
    **dict.fromkeys(("server", "api"), "serve"),
}
"""What people call commands."""

ALL = {word: command for group in COMMANDS.values() for word, command in group.items()}


def command_map() -> str:
    """All commands, one per line."""
    lines = [
        "Search over documents that link to each other: a wiki, a documentation site, a Wikipedia dump, in",
        "any language. It runs on one ordinary machine, sends nothing anywhere, and can learn from the links",
        "themselves.\n",
    ]
    for group, commands in COMMANDS.items():
        lines += [f"{group}:", *(f"  {word:<16} {command.summary}" for word, command in commands.items()), ""]
    return "\n".join([*lines, "linkseek COMMAND --help explains a command and its options."])


def main(argv: Sequence[str]) -> None:
    """Run the command that the first word names. Raises `UsageError` for an unknown word."""
    word, *rest = argv or ["--help"]
    if word == "help" and rest:
        main([*rest, "--help"])
    elif word in ("-h", "--help", "help"):
        print(command_map())
    elif word == "--version":
        from importlib.metadata import version

        print(version("linkseek"))
    elif word not in ALL:
        from linkseek.indexer.program.text import nearest

        kind, known = ("option", ("--help", "--version")) if word.startswith("-") else ("command", ALL)
        hint = nearest(word, known)
        if hint.startswith("Known"):
            hint = "linkseek --help lists the commands."
        if word in _OTHER_WORDS:
            hint = f"Did you mean {_OTHER_WORDS[word]}?"
        if word in LABORATORY:
            hint = "It is in the checkout: python -m experiments --help"
        raise UsageError(f"no {kind} {word}", hint)
    else:
        import_module(f"linkseek.{ALL[word].module}").main(rest)


def run() -> None:
    """The entry point `linkseek`."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    with exit_on_error(word if word in ALL else "linkseek", resumes=word in ALL and ALL[word].resumes):
        main(sys.argv[1:])


if __name__ == "__main__":
    run()
