"""Changes of a configuration of any size, without a store: for benchmarks and for tests of what a change costs."""

from __future__ import annotations

from typing import Any

from ganeti import objects
from ganeti.config import ConfigWriter
from ganeti.store import Change
from support import configs


class MemoryStore:
    """The part of a store that the configuration needs; acknowledges at once."""

    def __init__(self, root: objects.Snapshot):
        self._rows: dict[str, dict[str, str]] = {}
        for kind, uuid, value in root.ToRows():
            self._rows.setdefault(kind, {})[uuid] = value

    def Rows(self, kind: str) -> dict[str, str]:
        return self._rows.get(kind, {})

    def Commit(self, change: Change, patient: bool = False) -> None:
        del patient
        change.Prepare()
        change.Publish()


class Work:
    """Changes of one configuration."""

    def __init__(self, instances: int):
        store: Any = MemoryStore(configs.Large(instances, 150))
        self.cfg = ConfigWriter(store)
        self._base = next(iter(self.cfg.Snapshot().instances.values()))
        self._disk = self.cfg.Snapshot().disks[self._base.disks[0]]
        self._number = 0

    def Switch(self) -> None:
        """The state of an instance changes."""
        up = self.cfg.Snapshot().instances[self._base.uuid].admin_state == "up"
        (self.cfg.MarkInstanceDown if up else self.cfg.MarkInstanceUp)(self._base.uuid)

    def Add(self) -> str:
        """An instance with a DRBD disk comes, its values taken as a job takes them."""
        cfg = self.cfg
        self._number += 1
        job = self._number
        pair = list(cfg.Snapshot().nodes)[:2]
        uuid, disk_uuid, nic_uuid = (cfg.GenerateUniqueID(job) for _ in range(3))
        minors = cfg.AllocateDRBDMinor(pair, disk_uuid, job)
        # 5000 DRBD disks use more ports than the cluster's range has.
        logical_id = [*pair, 20000 + job, *minors, cfg.GenerateDRBDSecret(job)]
        children = [
            child.Replace(uuid=cfg.GenerateUniqueID(job), logical_id=["xenvg", f"{disk_uuid}_{part}"], nodes=pair)
            for part, child in enumerate(self._disk.children)
        ]
        disk = self._disk.Replace(uuid=disk_uuid, nodes=pair, logical_id=logical_id, children=children)
        nic = self._base.nics[0].Replace(mac=cfg.GenerateMAC(None, job), uuid=nic_uuid)
        new = self._base.Replace(uuid=uuid, name=f"new{job}.example.org", nics=[nic], disks=[disk_uuid])
        cfg.AddInstance(new, job, [disk])
        cfg.DropECReservations(job)
        return uuid

    def AddAndRemove(self) -> None:
        self.cfg.RemoveInstance(self.Add())

    def Verify(self) -> None:
        self.cfg.VerifyConfig()
