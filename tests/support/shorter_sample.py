"""The bundled sample with fewer articles, for commands that read it as it is bundled."""

from __future__ import annotations

import bz2
import re
from pathlib import Path

from tests.support.command import ROOT

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


def shorten_sample(bundled: Path, pages: int = 100) -> None:
    """Keep the last pages of a copy of the sample, which Mercury and Venus are among."""
    assert bundled.read_bytes() == SAMPLE.read_bytes() and bundled != SAMPLE
    head, *all_pages = re.split(r"(?=^  <page>\n)", bz2.decompress(SAMPLE.read_bytes()).decode(), flags=re.M)
    bundled.write_bytes(bz2.compress("".join([head, *all_pages[-pages:]]).encode()))
