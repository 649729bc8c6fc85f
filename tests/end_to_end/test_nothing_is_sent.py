"""No library of ours connects to anything while an index is built, searched and measured."""

from __future__ import annotations

import json

from tests.support.command import python
from tests.support.tiny.models import save_tiny

_PROGRAM = """
import sys

def record(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        print("CONNECTS", event, arguments, file=sys.stderr)

sys.addaudithook(record)
from linkseek.app import evaluate, search
from linkseek.indexer import build

corpus, model, questions = sys.argv[1:]
build.main(["--corpus", corpus, "--index", "index", "--encoder", model, "--no-bm25"])
search.main(["--index", "index", "--pipeline", "dense", "abc"])
evaluate.main(["--index", "index", "--queries", questions, "--pipeline", "dense", "--output", "results"])
import huggingface_hub.constants, openvino.tools.ovc.telemetry_utils as telemetry
print(telemetry.tm.__name__, huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY)
"""


def test_a_build_a_search_and_an_evaluation_connect_to_nothing(corpus, tmp_path):
    """With the conversion of a model, at which OpenVINO would report to Google Analytics."""
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"id": "1", "question": "abc", "answers": ["abc"]}))
    words = "-c", _PROGRAM, corpus, save_tiny(tmp_path / "tiny"), questions
    done = python(*words, cwd=tmp_path, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "CONNECTS" not in done.stderr
    assert done.stdout.endswith("openvino.tools.ovc.telemetry_stub True\n")
    assert list((tmp_path / "cache" / "linkseek").iterdir())  # it was converted
    assert not (tmp_path / "intel").exists()
