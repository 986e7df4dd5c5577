"""A cluster of real daemons whose node daemons have fake mirrors and guests: for what the master does with them."""

from __future__ import annotations

import os

from ganeti import objects
from support import configs
from support.realcluster import FollowJob, RealCluster, RealNode

GROUP = "xenvg"
NODED = "ganeti-noded"
_MIB = 1 << 20


class MirrorNode(RealNode):
    """A node whose disks are those of ``support.drivers``."""

    def Program(self, daemon: str) -> str:
        text = super().Program(daemon)
        if daemon != NODED:
            return text
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return (
            f"import sys; sys.path.insert(0, {here!r})\n"
            "from ganeti import storage; from support import drivers; storage.UseDrivers(drivers.STORAGE)\n" + text
        )

    def CutLink(self, cut: bool) -> None:
        """What its mirrors write does not reach other machines any more, or does again."""
        self._Mark("replication-cut", cut)

    def Hang(self, hangs: bool) -> None:
        """What makes its mirrors obey does not end, or ends at last."""
        self._Mark("mirrors-hang", hangs)

    def _Mark(self, name: str, there: bool) -> None:
        path = f"/var/run/ganeti/ext/{name}"
        if there:
            os.makedirs(os.path.dirname(self.Path(path)), exist_ok=True)
            self.Write(path, "")
        else:
            os.unlink(self.Path(path))


class MirrorCluster(RealCluster):
    """``count`` instances that are down, mirrored between the second and the third node; the first is the master.

    The second node is their primary one, the third that of the last ``turned`` instances.
    """

    node_class = MirrorNode

    def __init__(self, count: int, nodes: int = 3, turned: int = 0):
        super().__init__(nodes, candidates=1)
        self._turned = turned
        self.names = [f"inst{number}.example.com" for number in range(count)]
        self._Configure()
        self.MakeOs("empty")
        self.StartNodeDaemons()
        self[0].StartMaster()

    def _Configure(self) -> None:
        root, example = self.config, configs.Example()
        web, disk = example.instances[configs.WEB], example.disks[configs.WEB_DISK]
        pair = [self[1].uuid, self[2].uuid]
        instances, disks = {}, {}
        for number, name in enumerate(self.names):
            uuid, disk_uuid = configs.Uuid(10_000 + number), configs.Uuid(20_000 + number)
            children = [
                child.Replace(
                    uuid=configs.Uuid(30_000 + 2 * number + index), nodes=pair, size=128,
                    logical_id=(GROUP, f"{disk_uuid}.disk0_{part}"),
                )
                for index, (child, part) in enumerate(zip(disk.children, ("data", "meta"), strict=True))
            ]  # fmt: skip
            disks[disk_uuid] = disk.Replace(
                uuid=disk_uuid, nodes=pair, size=128, children=children,
                logical_id=(*pair, 11000 + number, number, number, f"{number:040x}"),
            )  # fmt: skip
            for child in children:
                self._MakeVolume(child)
            nic = web.nics[0].Replace(
                uuid=configs.Uuid(50_000 + number), mac=f"aa:00:00:00:00:{number:02x}", ip="192.0.2.1", network=None,
                nicparams={},
            )  # fmt: skip
            instances[uuid] = web.Replace(
                uuid=uuid, name=name, primary_node=pair[number >= len(self.names) - self._turned],
                hypervisor="fake", hvparams={}, beparams={}, disks=[disk_uuid],
                nics=[nic], admin_state="down", disks_active=False, network_port=None,
            )  # fmt: skip
        templates = ["drbd", "plain", "diskless"]
        cluster = root.cluster.Replace(
            volume_group_name=GROUP, enabled_disk_templates=templates, candidate_pool_size=1, highest_used_port=12000,
            nicparams={"default": {"mode": "routed", "link": "lo", "vlan": ""}}, modify_ssh_setup=False,
            drbd_usermode_helper="/bin/true", ipolicy={**root.cluster.ipolicy, "disk-templates": templates},
        )  # fmt: skip
        self.config = root.Replace(instances=instances, disks=disks, cluster=cluster)
        self[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(self.config), 0o640)

    def _MakeVolume(self, volume: objects.Disk) -> None:
        name = "%".join(["plain", *volume.logical_id])
        for node in self.nodes[1:3]:
            folder = node.Path("/var/lib/ganeti/ext/fake-storage")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "wb") as stream:
                stream.truncate(volume.size * _MIB)

    def Jobs(self, ops: list[dict[str, object]]) -> None:
        """Carry opcodes out as jobs at the same time; all of them succeed."""
        with self[0].Client() as client:
            submitted = client.SubmitManyJobs([[{"reason": [], **op}] for op in ops])
            for fine, job in submitted:
                assert fine, job
                status, log = FollowJob(client, job)
                assert status == "success", (client.QueryJobs([job], ["opresult"]), log)

    def StartAll(self) -> None:
        self.Jobs([{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": name} for name in self.names])
