"""The memory that a process may use, by the limits of its control groups and its own."""

import resource

import pytest

from linkseek.indexer.machine import devices
from linkseek.indexer.machine.devices import memory_bytes


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/box/inner\n", "box/memory.max"),
        ("0::/\n", "memory.max"),
        ("9:cpu:/x\n4:memory:/box/inner\n0::/\n", "memory/box/memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_of_a_control_group_counts(tmp_path, monkeypatch, groups, file):
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(devices, "_CGROUP", tmp_path / "groups")
    monkeypatch.setattr(devices, "_CGROUPS", tmp_path / "fs")
    whole = memory_bytes()
    (tmp_path / "fs" / file).parent.mkdir(parents=True)
    (tmp_path / "fs" / file).write_text("max\n")
    assert memory_bytes() == whole
    (tmp_path / "fs" / file).write_text("123456789\n")
    assert memory_bytes() == 123456789


def test_a_limit_on_the_addresses_of_this_process_counts(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1000, -1) if kind == resource.RLIMIT_AS else 0)
    assert memory_bytes() == 1000
