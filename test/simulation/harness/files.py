"""The files must show just what is acknowledged, after a stop on the master, soon on the other voters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.harness.cluster import Cluster, Node
from simulation.harness.ledger import Violation

from ganeti import objects, pathutils, runtime
from ganeti.store.base import KIND_ARCHIVED

_FOLLOWING_SECONDS = 3.0


def CheckFiles(cluster: Cluster) -> None:
    """Stops the master cleanly and compares."""
    (master,) = [node for node in cluster.nodes if node in cluster.Masters()]
    voters = set(cluster.open[master.name].Voters().by_uuid)
    cluster.resting = True
    master.StopMasterd()
    cluster.world.Run(until=lambda: not (master.masterd and master.masterd.alive), max_steps=200_000)
    if not master.stopped:
        raise Violation(f"the master on {master.name} did not stop cleanly")
    _Compare(master, "after a clean stop")
    cluster.world.RunFor(_FOLLOWING_SECONDS)
    for node in cluster.nodes:
        if node.member.uuid in voters:
            _Compare(node, "some seconds after")


def _Compare(node: Node, when: str) -> None:
    state, _, rows = node.Read()
    if state.acknowledged < state.last:
        raise Violation(
            f"{when}, {node.name} does not know that {state.last} is acknowledged, only {state.acknowledged}"
        )
    values: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.value is not None:
            values.setdefault(row.kind, {})[row.id] = row.value
    wanted = _Wanted(values, node.cluster.SsconfTexts(values))
    found: dict[str, Any] = node.machine.Call(lambda: {path: _Read(path) for path in wanted})
    for path, text in wanted.items():
        if found[path] != text:
            raise Violation(
                f"{when}, with the store at {state.last}, {path} on {node.name} holds {found[path]!r}, not {text!r}"
            )
    names = node.machine.Call(lambda: runtime.ListDir(pathutils.QUEUE_DIR))
    live = {f"job-{job}" for job in values.get("job", {}) if job.isdigit()}
    if {name for name in names if name.startswith("job-")} != live:
        raise Violation(f"{when}, the queue of {node.name} holds {names}, the store {sorted(live)}")


def _Wanted(values: dict[str, dict[str, str]], ssconf: Mapping[str, str]) -> dict[str, str]:
    wanted = {pathutils.CLUSTER_CONF_FILE: objects.ConfigTextOfRows(values)}
    wanted |= {pathutils.SsconfFile(key): f"{text}\n" if text else "" for key, text in ssconf.items()}
    wanted |= {pathutils.JobFile(int(job)): text for job, text in values.get("job", {}).items() if job.isdigit()}
    wanted |= {pathutils.ArchivedJobFile(int(job)): text for job, text in values.get(KIND_ARCHIVED, {}).items()}
    wanted[pathutils.JOB_QUEUE_SERIAL_FILE] = f"{values['queue']['serial']}\n"
    return wanted


def _Read(path: str) -> str | None:
    return runtime.ReadText(path) if runtime.Exists(path) else None
