"""Calls of a node that no master of ours makes: every procedure of the real backend, on a simulated machine."""

from __future__ import annotations

import json
import logging
import random
from types import TracebackType
from typing import Any, Self

from support.master import Master

from fuzz import damage
from fuzz.target import Broken, Target
from ganeti import objects, params, pathutils
from ganeti.master import console
from ganeti.rpc.procedures import PROCEDURES, Arg, Procedure
from ganeti.rpc.server import Dispatcher, OpenGate
from ganeti.server import noded

# They end this process's node for good; what they are given is checked like all others'.
_LEFT_OUT = frozenset(["node_leave_cluster", "node_powercycle"])

_SAMPLES: dict[str, Any] = {
    "any": "text", "bool": True, "int": 1, "size": 8, "size?": None, "seconds": 0.0, "time": 1.0, "time?": None,
    "mode": 0o600, "str": "text", "str?": None, "name": "web.example.org", "name?": "192.0.2.1", "user": None,
    "path": "/srv/x", "path or URL": "/srv/x", "address": "192.0.2.1", "port": 1811, "[str]": ["fake"],
    "[path]": ["/dev/x"], "[name]": ["x"], "list": [], "list?": None, "{}": {"x": 1}, "{str: str}": {"A": "b"},
    "{str: str?}": {"a": "b"}, "{hv: {}}": {"fake": {}}, "ssconf values": {"cluster_name": "c"}, "phase": "pre",
    "reboot type": "soft", "hot action": "hotadd", "hot device": "nic", "add or remove": "add",
    "oob command": "health", "tokens": [["ssl", "get", None]], "renames": [["/a", "/b"]],
    "storage units": [["file", "/srv", None]], "hv specs": [["fake", {}]], "BLOB": [0, "text"],
    "FILE": [pathutils.RAPI_CERT_FILE, [0, "x"], 0o600, None, None, 1.0, 1.0], "vpath": pathutils.RAPI_CERT_FILE,
    "vpath renames": [["/a", "/b"]], "TRAIL": [["me", "why", 1]], "IO": ["file", ["/srv/x"]],
}  # fmt: skip
_CHECKS = (
    "nonvmnodes", "filelist", "client-cert", "ssh-setup", "ssh-clutter", "nodelist", "node-net-test", "master-ip",
    "user-scripts", "oob-paths", "hypervisor", "hvparms", "lvlist", "instancelist", "vglist", "pvlist", "version",
    "hvinfo", "nodesetup", "time", "oslist", "bridges",
)  # fmt: skip


class NodeCalls(Target):
    """Bodies for every procedure, from nearly right to nonsense."""

    ROUNDS = 300

    def __enter__(self) -> Self:
        logging.disable(logging.CRITICAL)
        self._left = 0
        self._master: Master | None = None
        return self

    def _Make(self) -> None:
        """Make a fresh cluster: calls that fit have changed the former one."""
        if self._master is not None:
            self._master.Close()
        self._master = Master(2)
        self._root = self._master.Perform(self._master.cfg.Snapshot)
        self._left = 100
        node = self._master.all[0]

        def prepare() -> Dispatcher:
            return Dispatcher(noded.NodeHandlers(node.NewStore()), OpenGate())

        self._dispatcher: Dispatcher = node.Call(prepare)
        self._node = node

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._master is not None:
            self._master.Close()
        logging.disable(logging.NOTSET)

    def Round(self, rng: random.Random) -> Any:
        if not self._left:
            self._Make()
        self._left -= 1
        procedure = PROCEDURES[rng.choice(sorted(PROCEDURES.keys() - _LEFT_OUT))]
        value: Any = [_Sample(rng, self._root, procedure, arg) for arg in procedure.args]
        if procedure.body_object:
            value = {inst.name: console.Request(self._root, inst) for inst in self._root.instances.values()}
        body = damage.Text(rng, value)
        status, _, answer = self._node.Call(self._dispatcher.Handle, f"/{procedure.name}", {}, body)
        if status != 200:
            return
        good, payload = json.loads(answer)
        if not good and (not isinstance(payload, str) or "Error while executing" in payload):
            raise Broken(f"{procedure.name} with {body[:2000]!r}: {payload}")


def _Sample(rng: random.Random, root: objects.Snapshot, procedure: Procedure, arg: Arg) -> Any:
    inst = next(iter(root.instances.values()))
    disk = root.InstanceDisks(inst)[0].ToDict(runtime=True)
    if arg.enc.startswith("INST"):
        filled = inst.ToDict(runtime=True)
        return {
            **filled,
            "hvparams": params.FillHV(root, inst),
            "beparams": params.FillBE(root, inst),
            "secondary_nodes": [],
            "disks_info": [disk],
        }
    if arg.enc in ("DISK", "NIC or DISK"):
        return disk
    if arg.enc in ("[DISK]", "[DISK] by node", "[DISK or false]"):
        return [disk]
    if arg.enc == "[[DISK, id]]":
        return [[disk, ["x", "y"]]]
    if arg.enc == "OBJ":
        return {"uuid": inst.primary_node, "ip": "192.0.2.9", "netmask": 32, "netdev": "lo", "ip_family": 2}
    if procedure.name.startswith("node_verify") and arg.name == "checkdict":
        values = (None, [], ["x"], {}, "x", [["node1", "192.0.2.1", "192.0.2.1"], ["node1"]], 5)
        return {key: rng.choice(values) for key in rng.sample(_CHECKS, 4)}
    if arg.name in ("hname", "hvname", "hypervisor"):
        return inst.hypervisor
    if arg.enc == "name":
        return rng.choice((inst.name, "noop", "debian+full", "instance-add", "node2.example.org"))
    if procedure.name.startswith("store_"):
        epoch = rng.choice(("1.0123456789abcdef", "999.aaaaaaaaaaaaaaaa"))
        place = [epoch, 1]
        return {"cluster": "", "epoch": epoch, "master": "node1", "seq": 1, "before": place, "acknowledged": place,
                "rows": [["job", "1", "x"]], "stores": ["x"], "prune": 0, "after": 0}  # fmt: skip
    return _SAMPLES[arg.enc]
