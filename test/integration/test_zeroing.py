"""Free space is zeroed by a helper that a real QEMU boots (doc/design-transfers.rst)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.test_backup import Create, DiskPaths, Export, FillDisks, Run
from support import lab
from support.realcluster import RealCluster

from ganeti.params import exported

pytestmark = pytest.mark.lab

GUEST = "web.example.com"
_SECTOR = 512


class ZeroingCluster(RealCluster):
    """Two nodes with disks in files, and the image of a helper that everybody may read."""

    def __init__(self) -> None:
        self.public = tempfile.mkdtemp(prefix="gnt-", dir="/tmp")
        os.chmod(self.public, 0o755)
        self.image = os.path.join(self.public, "helper.img")
        source = Path(__file__).parent / "zeroer.asm"
        subprocess.run(["nasm", "-f", "bin", "-o", self.image, str(source)], check=True, timeout=50)
        os.truncate(self.image, 1 << 20)
        super().__init__(2)
        self.StartNodeDaemons()
        self[0].StartMaster()

    def _WriteFiles(self) -> None:
        cluster = self.config.cluster
        kvm = lab.TcgParams(direct=False)
        self.config = self.config.WithObject(
            cluster.Replace(
                enabled_hypervisors=["kvm"],
                hvparams={**cluster.hvparams, "kvm": kvm},
                volume_group_name=None,
                zeroing_image=self.image,
            )
        )
        super()._WriteFiles()

    def Close(self) -> None:
        super().Close()
        shutil.rmtree(self.public)


@pytest.fixture
def cluster() -> Iterator[ZeroingCluster]:
    with ZeroingCluster() as made:
        yield made


def test_what_the_helper_zeroes_is_zero_in_the_export_and_the_rest_is_as_it_was(cluster: ZeroingCluster) -> None:
    Run(cluster, **Create(cluster, GUEST, 0, os_type=None, no_install=True, hypervisor="kvm", disks=[{"size": 4}]))
    [before] = FillDisks(cluster, GUEST)
    [disk] = DiskPaths(cluster, GUEST)
    Run(cluster, **Export(GUEST, cluster[1].name, compress="gzip", zero_free_space=True, zeroing_timeout_fixed=120))
    begin, end = 8 * _SECTOR, 16 * _SECTOR
    wanted = before[:begin] + bytes(end - begin) + before[end:]
    folder = Path(cluster[1].Path(f"/srv/ganeti/export/{GUEST}"))
    [dumped] = exported.Parse((folder / "config.ini").read_text()).disks
    assert dumped.dump is not None
    assert (folder / dumped.dump).read_bytes() == wanted == Path(disk).read_bytes()
    assert DiskPaths(cluster, GUEST) == [disk], "nothing is left of the helper"
