"""The package for a helper that installs an operating system: what it holds, how it comes to a disk, what comes back (doc/design-install.rst)."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.virtual import MakeDisk
from unit.backend.test_osrun import System, system

from ganeti import errors, objects
from ganeti.backend.guestos import package
from ganeti.storage import tree

__all__ = ["system"]

MIB = 1 << 20
ENV = {"OS_SCRIPT": "create_untrusted", "DISK_0_PATH": "/dev/vdb", "DISK_0_URI": "rbd:pool/secret"}


@pytest.fixture
def extra(system: System) -> objects.Disk:
    """One more disk of 2 MiB, which was in use before."""
    disk = MakeDisk("file", ["loop", f"{system.base}/disks/extra"])
    tree.Create(disk, 2, "x", True)
    Path(disk.logical_id[1]).write_bytes(b"\x55" * 2 * MIB)
    return disk


def _Read(data: bytes) -> tuple[dict[str, tarfile.TarInfo], dict[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        text = archive.extractfile("environment")
        assert text is not None
        lines = text.read().decode().splitlines()
        return {member.name: member for member in archive}, dict(line.split("=", 1) for line in lines)


def _Write(system: System, disk: objects.Disk, **changes: Any) -> bytes:
    package.Write(system.Data(**changes), ENV, disk.ToDict(runtime=True))
    return Path(disk.logical_id[1]).read_bytes()


def test_the_file_of_3_1_is_compressed_and_only_root_reads_it(system: System) -> None:
    path = package.Export(system.Data(), ENV)
    assert Path(path).stat().st_mode & 0o777 == 0o600 and path.endswith(".tgz")
    data = Path(path).read_bytes()
    assert data[:2] == b"\x1f\x8b" and "os/create" in _Read(data)[0]


def test_it_holds_definition_and_environment(system: System, extra: objects.Disk) -> None:
    (system.path / "lib").mkdir()
    (system.path / "lib" / "link").symlink_to(system.path / "create")
    members, env = _Read(_Write(system, extra))
    assert {"os/create", "os/lib/link", "environment", "os/parameters.list"} <= set(members)
    assert members["os/create"].mode == 0o755 and all(member.isreg() for member in members.values())
    assert (env["OS_SCRIPT"], env["DISK_0_PATH"], env["OSP_FS_TYPE"]) == ("create_untrusted", "/dev/vdb", "ext4")
    assert env["NIC_0_MAC"] == system.instance.nics[0].mac and "DISK_0_URI" not in env


def test_what_was_in_its_way_on_the_disk_is_gone(system: System, extra: objects.Disk) -> None:
    size = package.Size("tiny+two")
    data = _Write(system, extra)
    assert size == 2 * MIB and len(data) == 2 * MIB
    assert b"\x55" * 512 not in data[:MIB] and data[MIB:] == b"\x55" * MIB
    assert not [name for name in os.listdir(system.base) if name.endswith(".tgz")]


def test_its_size_is_that_of_the_definition(system: System, extra: objects.Disk) -> None:
    (system.path / "big").write_bytes(b"x" * (2 * MIB))
    assert package.Size("tiny+two") == 4 * MIB
    with pytest.raises(errors.RpcCallError, match=rf"the package of tiny\+two has {3 * MIB} bytes, which is too much"):
        _Write(system, extra)


def test_a_definition_that_leads_round_in_circles(system: System, extra: objects.Disk) -> None:
    (system.path / "again").symlink_to(system.path)
    with pytest.raises(errors.RpcCallError, match=r"OS tiny: .* cannot be packed: Too many levels of symbolic links"):
        _Write(system, extra)


@pytest.mark.parametrize(
    ("written", "report"),
    [
        (b"ganeti-install: exit 0\nwell\n\0os/create", "ganeti-install: exit 0\nwell\n"),
        (b"\0", ""),
        (b"\xff\xfe\0", "��"),
        (b"x" * MIB, "x" * 65536),
    ],
)
def test_what_the_helper_says(system: System, extra: objects.Disk, written: bytes, report: str) -> None:
    _Write(system, extra)
    with open(extra.logical_id[1], "r+b") as device:
        device.write(written)
    assert package.Report(extra.ToDict(runtime=True)) == report


def test_a_package_that_nobody_has_touched_is_no_report(system: System, extra: objects.Disk) -> None:
    _Write(system, extra)
    assert not package.Report(extra.ToDict(runtime=True)).startswith("ganeti-install")


def test_it_may_fill_the_disk(system: System, extra: objects.Disk) -> None:
    (system.path / "big").write_bytes(b"x" * MIB)
    assert package.Size("tiny+two") == 3 * MIB and "os/big" in _Read(_Write(system, extra))[0]


@pytest.mark.parametrize("sizes", [(257,), (129, 129)])
def test_a_definition_that_is_too_large_for_memory(system: System, sizes: tuple[int, ...]) -> None:
    for number, mib in enumerate(sizes):
        (system.path / f"big{number}").touch()
        os.truncate(system.path / f"big{number}", mib * MIB)
    with pytest.raises(errors.RpcCallError, match=r"^OS tiny: .*"):
        package.Size("tiny+two")


def test_a_disk_that_does_not_work(
    system: System, extra: objects.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dd").write_text("#!/bin/sh\necho 'Input/output error' >&2\nexit 1\n")
    (tmp_path / "bin" / "dd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with pytest.raises(errors.RpcCallError, match=r"the package of tiny\+two cannot be written: .*Input/output error"):
        _Write(system, extra)
    with pytest.raises(errors.RpcCallError, match=r"cannot be read: .*Input/output error"):
        package.Report(extra.ToDict(runtime=True))
