"""An operating system that no node trusts is installed by a Linux in a real QEMU, with the example of a helper (doc/design-install.rst)."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.test_backup import Create, DiskPaths, Fail, Run
from lab.files import MakeBootable
from support import lab
from support.programs import Load
from support.realcluster import RealCluster

pytestmark = pytest.mark.lab

GUEST = "web.example.com"
# Run by the kernel in place of the image's system.
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
for module in $(cat /modules/order); do
  insmod "/modules/$module" 2>/dev/null
done
exec /install-helper > /dev/ttyS0 2>&1
"""
_CREATE = """#!/bin/sh
echo "$OS_SCRIPT of $INSTANCE_NAME in $(pwd)"
# What it leaves running is not waited for.
sleep 3000 &
[ -e variants.list ] || exit 9
[ -z "${HOME+x}" ] || exit 8
for disk in "$DISK_0_PATH" "$DISK_1_PATH"; do
  printf 'I am %s, %s\\n' "$disk" "$OSP_WORDS" | dd of="$disk" conv=notrunc,fsync 2>/dev/null
done
[ "$OSP_WORDS" != wrong ] || { printf 'no such \\033[1mwords\\n'; exit 3; }
"""


class InstallingCluster(RealCluster):
    """A node with disks in files, a definition with a script ``create_untrusted``, and an image for the helper."""

    def __init__(self) -> None:
        self.public = tempfile.mkdtemp(prefix="gnt-", dir="/tmp")
        os.chmod(self.public, 0o755)
        self.image = Path(self.public, "helper.img")
        initrd = Path(self.public, "initrd.gz")
        self._MakeInitrd(initrd)
        MakeBootable(self.image, lab.GuestFiles() / "vmlinuz", initrd, "quiet no_timer_check rdinit=/helper-init")
        super().__init__(1)
        self._PutDefinition(Path(self.MakeOs("guest")))
        self.StartNodeDaemons()
        self[0].StartMaster()

    def _MakeInitrd(self, path: Path) -> None:
        """Add our own files to the ramdisk of the definition "mini": of one name, the last one counts."""
        maker = Load(lab.TREE / "os" / "mini" / "make-files")
        helper = (lab.TREE / "build" / "examples" / "install-helper").read_bytes()
        own = [
            maker.Entry("helper-init", maker.FILE_MODE | 0o755, _INIT.encode()),
            maker.Entry("install-helper", maker.FILE_MODE | 0o755, helper),
        ]
        path.write_bytes((lab.GuestFiles() / "initrd.gz").read_bytes() + gzip.compress(maker.Cpio(own)))

    def _PutDefinition(self, folder: Path) -> None:
        texts = {"ganeti_api_version": "20\n", "variants.list": "default\n", "parameters.list": "words what to write\n"}
        for name, text in texts.items():
            (folder / name).write_text(text)
        for name, text in (("create_untrusted", _CREATE), ("verify", "#!/bin/sh\n")):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "create").unlink()

    def _WriteFiles(self) -> None:
        cluster = self.config.cluster
        # The guests' own kernel, which the helper must not boot, and a CD, which it must not have.
        kvm = lab.TcgParams(cdrom_image_path=str(self.image), boot_order="disk")
        self.config = self.config.WithObject(
            cluster.Replace(
                enabled_hypervisors=["kvm"],
                hvparams={**cluster.hvparams, "kvm": kvm},
                volume_group_name=None,
                install_image=str(self.image),
            )
        )
        super()._WriteFiles()

    def Close(self) -> None:
        super().Close()
        shutil.rmtree(self.public)


@pytest.fixture
def cluster() -> Iterator[InstallingCluster]:
    with InstallingCluster() as made:
        yield made


def _Request(cluster: RealCluster, words: str) -> dict[str, Any]:
    more = {"hypervisor": "kvm", "os_type": "guest+default", "osparams": {"words": words}}
    return Create(cluster, GUEST, 0, disks=[{"size": 4}, {"size": 4}], **more)


def _Begins(cluster: RealCluster) -> list[bytes]:
    """Return the first line on each disk; there are no files but those of the instance's disks."""
    paths = [Path(path) for path in DiskPaths(cluster, GUEST)]
    assert sorted(path for folder in {path.parent for path in paths} for path in folder.iterdir()) == sorted(paths)
    return [path.read_bytes().partition(b"\n")[0] for path in paths]


def test_the_script_installs_what_its_environment_names(cluster: InstallingCluster) -> None:
    Run(cluster, **_Request(cluster, "at your service"))
    assert _Begins(cluster) == [b"I am /dev/vdb, at your service", b"I am /dev/vdc, at your service"]
    said = Fail(cluster, OP_ID="OP_INSTANCE_REINSTALL", instance_name=GUEST, osparams={"words": "wrong"})
    assert "Script create_untrusted of OS guest+default failed with exit code 3 in the helper" in said
    assert f"create_untrusted of {GUEST} in /tmp/install-helper/os\\nno such \\\\x1b[1mwords" in said, said
    assert _Begins(cluster) == [b"I am /dev/vdb, wrong", b"I am /dev/vdc, wrong"]
