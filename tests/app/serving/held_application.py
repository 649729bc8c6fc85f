"""A service of two processes whose replacements are held: FOLDER, and at "import" or at "create"."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER, WHERE = Path(sys.argv[1]), sys.argv[2]


def hold(where: str) -> None:
    """Stay here while FOLDER/hold exists."""
    if where == WHERE and (FOLDER / "hold").exists():
        (FOLDER / "held").write_text(str(os.getpid()))
        while (FOLDER / "hold").exists():
            time.sleep(0.1)


def create() -> Any:
    """Called by each process."""
    hold("create")
    return answer


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the process, /slow when FOLDER/go exists."""
    import asyncio

    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
            (FOLDER / f"started {os.getpid()}").touch()
        return
    pid = str(os.getpid())
    if scope["path"] == "/slow":
        (FOLDER / "taken").write_text(pid)
        while not (FOLDER / "go").exists():
            await asyncio.sleep(0.05)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(pid))]}
    )
    await send({"type": "http.response.body", "body": pid.encode()})


if __name__ == "__main__":
    from linkseek.app.serving import server
    from linkseek.app.serving.options import ServeOptions

    server._START_SECONDS = 3600  # the wait itself must not end in the time of a test
    options = ServeOptions(port=0, time_limit=600)
    listening = server.listen(options)
    print(server.address(listening), flush=True)
    server.run(create, listening, options, workers=2)
else:
    hold("import")
