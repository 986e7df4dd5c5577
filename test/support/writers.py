"""A ConfigWriter on a real store: nodes with stores of their own in this process, the first one the master."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import objects, pathutils
from ganeti.config import ConfigWriter, VotersOf
from ganeti.rpc.resolver import SnapshotResolver
from ganeti.store import Member, Row
from support import configs
from support.store_nodes import Cluster


class Setup:
    """``cfg`` works on ``store``; ``nodes[n]`` is the uuid of the configuration's node n, a machine of ``cluster``.

    The last ``spare`` machines of the cluster's are no nodes.
    """

    def __init__(
        self,
        folder: str,
        count: int = 1,
        candidates: int = 1,
        root: objects.Snapshot | None = None,
        spare: int = 0,
    ):
        self.cluster = Cluster(folder, count + spare)
        self.nodes = [member.uuid for member in self.cluster.members[:count]]
        start = root if root is not None else ExampleOn(self.cluster.members[:count], candidates)
        rows = [Row(*row) for row in start.ToRows()]
        # Nodes that do not vote are found by the configuration.
        resolve = SnapshotResolver(lambda: self.cfg.Snapshot())
        self.store = self.cluster.Found(0, *rows, candidates=candidates, resolve=resolve)
        self.cfg = ConfigWriter(self.store)
        self.cluster.wanted = VotersOf(self.cfg.Snapshot())

    def Stored(self) -> objects.Snapshot:
        """What the master's own database holds."""
        rows = self.cluster[0].store.database.GetRows()
        return objects.Snapshot.FromRows((row.kind, row.id, row.value) for row in rows if row.value is not None)

    def Close(self) -> None:
        self.cluster.Close()


def ExampleOn(members: Sequence[Member], candidates: int) -> objects.Snapshot:
    """Return the example with these machines as its nodes; its instance lives on the first two."""
    root = configs.Example()
    base = root.nodes[configs.NODE1]
    web_disk, web = root.disks[configs.WEB_DISK], root.instances[configs.WEB]
    pair = ([member.uuid for member in members] * 2)[:2]
    nodes: dict[str, Any] = {}
    for number, member in enumerate(members):
        nodes[member.uuid] = base.Replace(
            uuid=member.uuid,
            name=member.name,
            primary_ip=member.address,
            secondary_ip=f"198.51.100.{number + 1}",
            master_candidate=number < candidates,
        )
    moved = web_disk.Replace(
        nodes=pair,
        logical_id=[*pair, *web_disk.logical_id[2:]],
        children=[child.Replace(nodes=pair) for child in web_disk.children],
    )
    cluster = root.cluster.Replace(master_node=members[0].uuid, candidate_certs={}, candidate_pool_size=candidates)
    return root.Replace(
        cluster=cluster,
        nodes=nodes,
        instances={web.uuid: web.Replace(primary_node=pair[0])},
        disks={moved.uuid: moved},
    )


def InFiles(root: objects.Snapshot) -> objects.Snapshot:
    """Return the example with its instance's disk in a file on the first node."""
    disk, web = root.disks[configs.WEB_DISK], root.instances[configs.WEB]
    path = f"{pathutils.DEFAULT_FILE_STORAGE_DIR}/{web.name}/disk0"
    cluster = root.cluster.Replace(
        enabled_disk_templates=["file", "drbd", "plain", "diskless"],
        ipolicy={**root.cluster.ipolicy, "disk-templates": ["file", "drbd", "plain", "diskless"]},
    )
    filed = disk.Replace(dev_type="file", logical_id=["loop", path], nodes=[web.primary_node], children=[], params={})
    return root.Replace(cluster=cluster, disks={filed.uuid: filed})
