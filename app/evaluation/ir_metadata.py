"""`ir_metadata` at the head of a run: its origin, as comments (Breuer et al., SIGIR 2022; schema 0.2).

    # ir_metadata.start
    # schema version: '0.2'
    # ...
    # ir_metadata.end

trec_eval before version 10 takes no comments, so runs have this head only on request; `read_run` skips it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from linkseek.app.evaluation.provenance import Provenance
from linkseek.retriever.search.runs import METADATA_END, METADATA_START


def metadata_lines(origin: Provenance, pipeline: str, description: str, topics: str) -> Iterator[bytes]:
    """The head of a run of a pipeline. topics: the name of the file of questions."""
    machine = origin.machine
    facts: dict[str, Any] = {
        "schema version": "0.2",
        "platform": {
            "hardware": {
                "cpu": {"model": machine.processor, "number of cores": machine.cores},
                "ram": f"{machine.memory_gb} GB",
            },
            "operating system": {"kernel": machine.system},
            "software": {
                "libraries": {"python": [f"{name}=={version}" for name, version in origin.versions.items()]},
                "retrieval toolkit": ["linkseek"],
            },
        },
        "implementation": {"executable": {"cmd": origin.command}, "source": {"lang": "python"}},
        "test collection": {"topics": topics},
        "method": {"automatic": "true", "retrieval": [{"name": pipeline, "method": description}]},
    }
    if origin.revision:
        facts["implementation"]["source"]["commit"] = origin.revision.commit
    yield METADATA_START + b"\n"
    text = yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=10_000)
    yield from (f"# {line}\n".encode() for line in text.splitlines())
    yield METADATA_END + b"\n"
