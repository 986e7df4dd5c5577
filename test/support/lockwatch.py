"""Whoever touches an object holds its lock: every change that reaches a node or the configuration is looked at.

A logical unit that forgot a lock works in every test that runs it alone; here such a test fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ganeti import locking, objects, serializer
from ganeti.config import ConfigWriter
from ganeti.rpc import PROCEDURES

# Files, keys and scripts go to any node; a reset takes no lock on purpose (doc/reference/locking.md 11.3); an out-of-band
# program runs on the master node and acts on another one.
_ANYWHERE = frozenset(
    [
        "hooks_runner",
        "upload_file",
        "upload_file_single",
        "write_ssconf_files",
        "node_ssh_key_add",
        "node_ssh_key_remove",
        "node_powercycle",
        "run_oob",
    ]
)
# What belongs to a transfer or to an export has its instance's name: its lock is enough on any node (doc/design-transfers.rst).
_OF_TRANSFERS = frozenset(
    ["export_start", "import_start", "impexp_abort", "impexp_cleanup", "finalize_export", "export_remove"]
)
_WATCHED = ("instance", "disk", "node", "nodegroup")


class LockWatch:
    """Looks on while a job runs; ``problems`` collects what was touched without a lock."""

    def __init__(self, glm: locking.LockManager, cfg: ConfigWriter):
        self._glm = glm
        self._cfg = cfg
        self._owner: str | None = None
        self._before = cfg.Snapshot()
        self.problems: list[str] = []

    def Begin(self, job: int) -> None:
        self._owner = str(job)
        self._before = self._cfg.Snapshot()

    @contextmanager
    def Elsewhere(self) -> Iterator[None]:
        """What happens inside is not the job's doing."""
        owner, self._owner = self._owner, None
        try:
            yield
        finally:
            self._owner = owner

    def End(self) -> None:
        self._owner = None
        found, self.problems = self.problems, []
        assert not found, f"touched without a lock: {'; '.join(found)}"

    def _Held(self) -> dict[str, str | None]:
        """Lock name -> mode, of the locks of the job."""
        return {row.name: row.mode for row in self._glm.QueryLocks() if row.owner and self._owner in row.owner}

    # --- calls --------------------------------------------------------------------------------------------------------

    def Call(self, node_uuid: str, name: str) -> None:
        """A node serves a call; told on the node's thread."""
        if self._owner is None or not PROCEDURES[name].changes or name in _ANYWHERE:
            return
        held = self._Held()
        if held.get("cluster/BGL") == "exclusive" or {f"node/{node_uuid}", f"node-res/{node_uuid}"} & held.keys():
            return
        for lock, mode in held.items():
            level, _, member = lock.partition("/")
            if level != "instance" or mode != "exclusive":
                continue
            if name in _OF_TRANSFERS or node_uuid in self._NodesOf(member):
                return
        self.problems.append(f"{name} on node {node_uuid} with {sorted(held)}")

    def _NodesOf(self, instance_name: str) -> Iterable[str]:
        """Nodes of an instance, before this job or now; one that is being made may have any."""
        nodes: set[str] = set()
        for root in (self._before, self._cfg.Snapshot()):
            instance = root.InstanceByName(instance_name)
            if instance is not None:
                nodes.update(root.AllNodes(instance))
        return nodes or self._cfg.Snapshot().nodes

    # --- the configuration --------------------------------------------------------------------------------------------

    def Acknowledged(self, _position: Any, rows: Iterable[Any]) -> None:
        """A transaction is stored; told on the committer's thread, while the job still waits for it."""
        if self._owner is None:
            return
        held = self._Held()
        if held.get("cluster/BGL") == "exclusive":
            return
        for row in rows:
            if row.kind in _WATCHED:
                wanted = self._LocksOf(row)
                # The pool of candidates is filled by units that share all nodes.
                modes = ("exclusive", "shared") if row.kind == "node" else ("exclusive",)
                if wanted and not any(held.get(lock) in modes for lock in wanted):
                    self.problems.append(f"{row.kind} {row.id} stored with {sorted(held)}, wanted {sorted(wanted)}")

    def _LocksOf(self, row: Any) -> set[str]:
        """Names of the locks of which one must be held; none for a disk that belongs to nobody.

        A reservation without a name has none, which can only be removed.
        """
        if row.kind in ("node", "nodegroup"):
            return {f"{row.kind}/{row.id}"}
        if row.kind == "instance":
            names = {root.instances[row.id].name for root in self._Roots() if row.id in root.instances}
            if row.value is not None:
                names.add(serializer.Load(row.value).get("name"))
            return {f"instance/{name}" for name in names if name is not None}
        owners = [(root, root.DiskOwner(row.id)) for root in self._Roots()]
        names = {root.instances[owner].name for root, owner in owners if owner is not None}
        return {f"instance/{name}" for name in names if name is not None}

    def _Roots(self) -> list[objects.Snapshot]:
        return [self._before, self._cfg.Snapshot()]
