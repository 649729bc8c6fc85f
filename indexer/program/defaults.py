"""Defaults of the commands and settings of all packages."""

from __future__ import annotations

from pathlib import Path

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
"""The encoder of builds, queries and new models; "auto" chooses one by the size of the corpus instead."""
MULTILINGUAL = "multilingual-e5-small"
"""The encoder for other languages than English."""
SAMPLE_INDEX = Path("index/sample")
"""The index of the bundled sample, which `linkseek build` makes without arguments."""
