"""The options that both mining commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.options import Options
from linkseek.indexer.store.outputs import check_replaceable


class MiningOptions(Options):
    """Mine training data from an index."""

    index: Path
    """the index folder"""
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 1
    """of all random choices"""
    language: str = "en"
    """of the texts, for sentences and stop words: an ISO 639-1 code"""
    processes: Annotated[int, Field(ge=1, le=1024)] | None = None
    """processes that read texts; default one a core"""
    ray: str | None = None
    """read texts on a Ray cluster, a worker for each of its cores: its address, or local to start one here"""
    stats: bool = False
    """print counts as JSON; without --output, those that need no texts"""
    output: Path | None = None
    """the file to write: a name in .jsonl or .jsonl.zst"""

    def check_output(self) -> None:
        """Raise `UsageError` for a missing or invalid file name, or one that a file of the user has."""
        if self.output is None and not self.stats:
            raise UsageError("--output is missing", "Name a file, or ask for --stats alone.")
        if self.output and not self.output.name.endswith((".jsonl", ".jsonl.zst")):
            raise UsageError(f"--output {self.output}: no JSONL file", "Use a name in .jsonl or .jsonl.zst.")
        if self.output:
            check_replaceable(self.output)
