"""Large libraries are imported by what uses them, and by nothing else."""

import pytest

from tests.support.command import python

SERVICE = "import linkseek.app.service, linkseek.app.rendering.views"
LISTING = "from linkseek.app.testsets.registry import test_set_rows; test_set_rows()"


@pytest.mark.parametrize(
    ("code", "most", "absent"),
    [
        ("import linkseek", 150, "torch numpy pydantic"),
        ("from linkseek.__main__ import main; main([])", 300, "torch"),
        ("import linkseek.app.rendering.hosts", None, "streamlit starlette fastapi"),
        (SERVICE, None, "streamlit torch openvino faiss jnius"),
        (LISTING, None, "ir_datasets torch requests"),
    ],
)
def test_what_is_imported(code, most, absent):
    """most: modules, where they are limited."""
    code = f"{code}; import sys; print(len(sys.modules), *{{*{absent.split()}}} & {{*sys.modules}})"
    done = python("-c", code)
    count, *imported = done.stdout.splitlines()[-1].split()
    assert not imported and (most is None or int(count) < most)
