"""Permissions of files that libraries wrote for one user alone."""

import os
import stat

import pytest

from linkseek.indexer.files.sharing import share


@pytest.mark.parametrize(("umask", "folder", "file"), [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600)])
def test_permissions_are_those_of_new_files(tmp_path, umask, folder, file):
    model = tmp_path / "model"
    (model / "inner").mkdir(parents=True, mode=0o700)
    weights = model / "inner" / "model.safetensors"
    weights.touch(mode=0o600)
    (model / "link").symlink_to("nowhere")
    before = os.umask(umask)
    try:
        share(model)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (model, model / "inner", weights)]
    assert modes == [folder, folder, file]
