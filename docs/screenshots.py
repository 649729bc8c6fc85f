"""python -m docs.screenshots [NAME ...]: take the pictures of the application that the documentation shows.

Each page in light and dark, 1440 and 390 wide, into docs/pictures/NAME-THEME-WIDTH.png. Names are those of
`PAGES`; without any, all are taken. Needs the sample's index and report (`make demo`), Playwright (`pip
install playwright`) and a Chromium: Debian's, Playwright's own, or the one that CHROMIUM names.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image

from benchmarks.sessions import running_application
from linkseek.indexer.program.errors import MachineError, exit_on_error

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
QUESTION = "Which sickness killed the lady who foresaw software?"
ARTICLE = {"id": "Ada_Lovelace", "index": "sample"}
TWO = {"q": QUESTION, "pipelines": ["bm25", "hybrid-weighted"], "k": 10, "index": "sample"}

# name: page, parameters of its address, and a selector of what is there when it is complete
PAGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "search": ("", TWO, ".ls-answer"),
    "four": ("", TWO | {"pipelines": ["bm25", "dense", "hybrid-weighted", "best"]}, ".ls-answer"),
    "why": ("", TWO | {"why": "Ada_Lovelace#2"}, ".ls-opened"),
    "start": ("", {"index": "sample"}, ".ls-invitation"),
    "article": ("article", ARTICLE, ".ls-text"),
    "evaluation": ("evaluation", {"index": "sample"}, "table"),
    "report": ("evaluation", {"report": "sample", "index": "sample"}, "table"),
    "questions": ("evaluation", {"report": "sample", "index": "sample", "part": "questions"}, "table"),
    "index": ("index", {"index": "sample"}, "table"),
}
EMPTY = "no-index"
THEMES = ("light", "dark")
SIZES = {1440: 1000, 390: 844}  # width: height
MAX_BYTES = 250_000


def main(names: Sequence[str]) -> None:
    """Take the pictures of some pages, or of all."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MachineError("Playwright is missing", "Install it: pip install playwright") from None
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"] if os.getuid() == 0 else [],
        )
        with running_application(ROOT / "index" / "sample") as address:
            for name in PAGES:
                if not names or name in names:
                    page, params, selector = PAGES[name]
                    take(browser, f"http://{address}/{page}?{urlencode(params, doseq=True)}", selector, name)
        if not names or EMPTY in names:
            index = Path(tempfile.mkdtemp()) / "sample"
            with running_application(index) as address:
                take(browser, f"http://{address}", ".ls-invitation", EMPTY)
        browser.close()


def take(browser: Any, address: str, selector: str, name: str) -> None:
    """One page in both themes and widths."""
    for theme in THEMES:
        page = browser.new_page(color_scheme=theme)
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.goto(address)
            page.wait_for_selector(selector, timeout=180_000)
            page.wait_for_selector('.stApp[data-test-script-state="notRunning"]', timeout=180_000)
            page.wait_for_timeout(1_000)  # what fades in has done so
            if width == max(SIZES):  # models are loaded now, and the second time's milliseconds are fair
                page.reload()
                page.wait_for_selector(selector, timeout=180_000)
                page.wait_for_selector('.stApp[data-test-script-state="notRunning"]', timeout=180_000)
                page.wait_for_timeout(1_000)
            save(PICTURES / f"{name}-{theme}-{width}.png", page.screenshot())
        page.close()


def save(path: Path, png: bytes) -> None:
    """Write a picture with 64 colours, fewer if it is too large: a quarter of the bytes, and no worse."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    for colours in (64, 32, 16):
        picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= MAX_BYTES:
            break
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    with exit_on_error("screenshots"):
        main(sys.argv[1:])
