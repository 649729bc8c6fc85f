"""python -m experiments ...: tables, collections, sweeps and studies.

A word that is not a command is a table: its file, or the name of one in experiments/. Linkseek's own commands
are here as well, with the formats and re-rankers of the papers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from linkseek import __main__ as linkseek
from linkseek.indexer.program.errors import exit_on_error
from linkseek.indexer.program.plugins import PLUGINS

_ROOT = Path(__file__).parents[1]

COMMANDS = {
    "pack": ("packing.pack", "write a test collection from its publishers' files"),
    "shrink": ("shrink", "make a static encoder smaller, or keep a share of what adapters change"),
    "sweep": ("sweep", "train with several settings and choose one"),
    "convert": ("convert", "convert a checkpoint of DPR or HLP to a folder"),
    "cross-validate": ("cross_validation", "fine-tune a re-ranker for each fold of the queries"),
    "collections": ("studies.collection_table", "pipelines over many collections, from reports"),
    "fusions": ("studies.fusions", "a learned fusion on collections that it has not seen"),
    "known-items": ("studies.known_items", "whether an index's own questions order pipelines as people's do"),
    "late-head": ("studies.late_head", "train a layer over an encoder's token vectors"),
    "links-field": ("studies.links_field", "what links say of an article, as a field of the index"),
    "neighbours": ("studies.neighbours", "neighbours as candidates of a bi-encoder"),
    "agents": ("studies.agents", "calls and tokens that an agent needs for an answer"),
    "supporting-links": (
        "studies.supporting_links",
        "how many links of supporting passages lead to the others",
    ),
    "overlap": ("studies.overlap", "test questions that training questions hold, and results without them"),
}
"""Word -> module of this package, and its line on the map."""


def command_map() -> str:
    """All commands with a line each."""
    lines = ["The laboratory of Linkseek.", "", "python -m experiments ..."]
    lines += [f"  {'TABLE':<16} make a table of a paper: a file, or the name of one in experiments/"]
    lines += [f"  {word:<16} {summary}" for word, (_, summary) in COMMANDS.items()]
    lines += [f"  {'WORD':<16} a command of linkseek, with the papers' formats and re-rankers", ""]
    return "\n".join([*lines, "python -m experiments TABLE --help explains a command and its options."])


def main(argv: Sequence[str]) -> None:
    """Run the command, table or study that the first word names."""
    word, *rest = argv or ["--help"]
    if word in ("-h", "--help", "help"):
        print(command_map())
    elif word in COMMANDS:
        import_module(f"experiments.{COMMANDS[word][0]}").main(rest)
    elif word in linkseek.ALL:
        linkseek.main(argv)
    else:
        from experiments.tables import command

        command.main(argv)


def inherit_plugins() -> None:
    """Let the processes that commands start import this package, and add what it adds."""
    others = (os.environ.get("PYTHONPATH", ""), os.environ.get(PLUGINS, ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), others[0])))
    os.environ[PLUGINS] = ",".join(filter(None, (__package__, others[1])))


def run() -> None:
    """The entry point."""
    inherit_plugins()
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    resumes = linkseek.ALL[word].resumes if word in linkseek.ALL else word != "pack"
    with exit_on_error(word if word in COMMANDS or word in linkseek.ALL else "experiments", resumes=resumes):
        main(sys.argv[1:])


if __name__ == "__main__":
    run()
