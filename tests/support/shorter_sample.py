"""The bundled sample with fewer articles, for commands that read it as it is bundled."""

from __future__ import annotations

import bz2
import re
from pathlib import Path

from tests.support.command import ROOT

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


def shorten_sample(bundled: Path) -> None:
    """Keep 25 pages of a copy of the sample, Mercury, Venus and answers to some questions among them."""
    assert bundled.read_bytes() == SAMPLE.read_bytes() and bundled != SAMPLE
    head, *pages = re.split(r"(?=^  <page>\n)", bz2.decompress(SAMPLE.read_bytes()).decode(), flags=re.M)
    bundled.write_bytes(bz2.compress("".join([head, *pages[-95:-90], *pages[-20:]]).encode()))
