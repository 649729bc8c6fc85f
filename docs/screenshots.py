"""python docs/screenshots.py: take the pictures of the application that the documentation shows.

Needs the sample index (`python indexer/build.py`), Playwright (`pip install playwright`) and a Chromium:
Playwright's own, or the one that CHROMIUM names.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image

from indexer.errors import MachineError, exit_on_error

ROOT = Path(__file__).resolve().parents[1]
QUESTION = "Which sickness killed the lady who foresaw software?"
PICTURES = {"app.png": ("light", 1440, 1000)}  # file: theme, width, height


def main() -> None:
    """Start the application on a free port, take every picture, and stop it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MachineError("Playwright is missing", "Install it: pip install playwright") from None
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    address = f"http://localhost:{port}/?" + urlencode({"q": QUESTION, "k": 5})
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)]
    application = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"] if os.getuid() == 0 else []
            )
            for file, (theme, width, height) in PICTURES.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
                wait_for(page, address)
                save(ROOT / "docs" / file, page.screenshot())
            browser.close()
    finally:
        application.terminate()
        application.wait()


def wait_for(page: Any, address: str) -> None:
    """Open the page twice: the second time everything is loaded, and its milliseconds are fair."""
    for _ in range(30):
        try:
            page.goto(address)
            break
        except Exception:  # the server is starting
            page.wait_for_timeout(1_000)
    for _ in range(2):
        page.wait_for_selector(".ls-answer", timeout=120_000)
        page.wait_for_timeout(2_000)
        page.reload()
    page.wait_for_selector(".ls-answer")
    page.wait_for_timeout(2_000)


def save(path: Path, png: bytes) -> None:
    """Write a picture with 64 colours: a quarter of the bytes, and no difference to see."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    with exit_on_error("screenshots"):
        main()
