"""A node with the real watcher, whose master, daemons and daemon-util are stand-ins.

The master answers real queries of a small configuration: which guests run and which jobs there are is set by the test;
submitted jobs stay queued until the test ends them.  daemon-util notes what it was asked to do.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

from ganeti import objects
from ganeti.jqueue import job as jobmodel
from support import configs, layout
from support.fakemaster import FakeMaster
from support.virtualnode import TOP, VirtualNode

GROUP = configs.GROUP
MASTER = "node1.example.org"


_DAEMON_UTIL = """#!/bin/sh
echo "$1 $2" >> {log}
if [ -e {folder}/$1-$2 ]; then . {folder}/$1-$2; fi
"""


def MakeInstance(number: int, **changes: Any) -> objects.Instance:
    """An instance without disks on the first node, ``inst1.example.org`` and so on."""
    example = configs.Example().instances[configs.WEB]
    values = {"uuid": configs.Uuid(1000 + number), "name": f"inst{number}.example.org", "disks": [], "nics": [],
              "admin_state": "up", "network_port": None, **changes}  # fmt: skip
    return example.Replace(**values)


class WatchedMaster(FakeMaster):
    """``dead``: instances whose guest is gone; ``user_down``: stopped by their users; ``locks``: rows; ``boots``: boot ids.

    ``on_call``: what happens before a method is answered; ``on_query``: before a query of a kind for some fields.  ``looks``: jobs that asked for volume groups; they are not among
    ``submitted``.
    """

    def __init__(self, path: str, instances: list[objects.Instance]):
        self.on_call: dict[str, Callable[[], None]] = {}
        self.on_query: Callable[[str, list[str]], None] = lambda _kind, _fields: None
        self.looks: list[int] = []
        self.dead: set[str] = set()
        self.user_down: set[str] = set()
        self.locks: list[list[Any]] = []
        self.boots: dict[str, str] = {configs.NODE1: "boot1", configs.NODE2: "boot1"}
        super().__init__(path)
        self.results["OP_NODE_QUERY_STORAGE"] = [[]]
        self.snapshot = self.snapshot.Replace(instances={inst.uuid: inst for inst in instances}, disks={})

    def _Handle(self, method: str, args: list[Any]) -> Any:
        self.on_call.get(method, lambda: None)()
        return super()._Handle(method, args)

    def _Query(self, kind: str, fields: list[str], qfilter: Any) -> dict[str, Any]:
        self.on_query(kind, fields)
        return super()._Query(kind, fields, qfilter)

    def End(self, job_id: int, op: dict[str, Any]) -> None:
        """A job of one opcode ends now."""
        ended = jobmodel.OpState(jobmodel.OpInput(op), status="success")
        now = jobmodel.Now()
        self.jobs[job_id] = jobmodel.View(job_id, jobmodel.Job(job_id, [ended], now, now, now), [])

    def _SubmitJob(self, ops: list[dict[str, Any]]) -> int:
        job_id = super()._SubmitJob(ops)
        if ops[0]["OP_ID"] not in ("OP_NODE_QUERY_STORAGE", "OP_NODE_QUERYVOLS"):
            return job_id
        self.submitted.pop()
        self.looks.append(len(self.looks) + 1)
        self.jobs[self.looks[-1]] = self.jobs.pop(job_id)
        return self.looks[-1]

    def _Context(self) -> Any:
        context = super()._Context()
        for uuid, info in context.node_info.items():
            info[0] = self.boots[uuid]
        for guests in context.instance_info.values():
            for name in self.dead:
                guests.pop(name, None)
            for name in self.user_down & guests.keys():
                guests[name]["state"] = 1
        context.locks = self.locks
        return context

    def Ops(self) -> list[str]:
        """What was submitted, as opcode and instance or group."""
        return [
            f"{op['OP_ID'].removeprefix('OP_')} {op.get('instance_name') or op.get('group_name')}"
            for ops in self.submitted
            for op in ops
        ]

    def Forget(self) -> None:
        """All jobs have ended and were archived."""
        self.submitted.clear()
        self.jobs.clear()


class WatchedNode(VirtualNode):
    """The master node of a cluster."""

    def __init__(self, base: str, instances: list[objects.Instance]):
        super().__init__(base, MASTER)
        self._programs = os.path.join(str(base), "programs")
        self._package = layout.MakePackage(
            os.path.join(str(base), "package"), PKGLIB_DIR=self._programs, DAEMON_DIR=self._programs
        )
        self._asked = os.path.join(str(base), "asked")
        layout.WriteProgram(
            os.path.join(self._programs, "daemon-util"), _DAEMON_UTIL.format(log=self._asked, folder=self._programs)
        )
        for key, text in {
            "cluster_name": "cluster.example.org", "master_node": MASTER, "maintain_node_health": "False",
            "nodegroups": f"{GROUP} default", "node_list": f"{MASTER}\nnode2.example.org",
            "hypervisor_list": "fake", "master_ip": "192.0.2.1", "node_primary_ips": "",
        }.items():  # fmt: skip
            self.WriteSsconf(key, text)
        self.master = WatchedMaster(self.Path("/var/run/ganeti/socket/ganeti-query"), instances)

    def Close(self) -> None:
        self.master.Shutdown()

    def WriteSsconf(self, key: str, text: str) -> None:
        self.Write(f"/var/lib/ganeti/ssconf_{key}", text + "\n")

    def Install(self, *daemons: str) -> None:
        """Make programs of these daemons; whether they run is another matter."""
        for name in daemons:
            layout.WriteProgram(os.path.join(self._programs, name), "#!/bin/sh\n")

    def OnDaemonUtil(self, verb: str, daemon: str, script: str) -> None:
        """What daemon-util does when it is asked for this, as a part of a shell script."""
        layout.WriteProgram(os.path.join(self._programs, f"{verb}-{daemon}"), script + "\n")

    def Asked(self) -> list[str]:
        """What daemon-util was asked to do, in order."""
        try:
            with open(self._asked, encoding="utf-8") as stream:
                return stream.read().splitlines()
        except FileNotFoundError:
            return []

    def Watch(self, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        """One run of the watcher; without verification of disks unless the test wants it."""
        code = "import sys; from ganeti.watcher.main import Main; sys.exit(Main())"
        return self.Python(code, *options, PYTHONPATH=os.pathsep.join([self._package, TOP]), **more)

    def WatchInstances(self, *options: str) -> subprocess.CompletedProcess[str]:
        """One run that is to do nothing about disks that look inactive."""
        done = self.Watch("--no-verify-disks", *options)
        assert done.returncode == 0, done.stderr + self.Log()
        return done

    def Log(self) -> str:
        return self.Read("/var/log/ganeti/watcher.log")

    def LogOfRun(self, *options: str) -> list[str]:
        """The lines that one run adds to the log, without time and process."""
        before = self._LogSize()
        self.WatchInstances(*options)
        return [line.partition(" pid=")[2].partition(" ")[2] for line in self.Log()[before:].splitlines()]

    def _LogSize(self) -> int:
        try:
            return len(self.Log())
        except FileNotFoundError:
            return 0

    def StateFile(self) -> str:
        return f"/var/lib/ganeti/watcher.{GROUP}.data"

    def State(self) -> dict[str, Any]:
        return dict(json.loads(self.Read(self.StateFile())))

    def WriteState(self, state: Any) -> None:
        self.Write(self.StateFile(), json.dumps(state), 0o600)


__all__ = ["GROUP", "MASTER", "MakeInstance", "WatchedMaster", "WatchedNode"]
