"""Have the master verify a group's disks, and activate those that it reports as inactive."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ganeti import constants, runtime
from ganeti.utils.text import JoinFirst
from ganeti.watcher import busy, decisions, guard, master
from ganeti.watcher.rows import Values

if TYPE_CHECKING:
    import optparse

    from ganeti.luxi.client import Client
    from ganeti.watcher.group import Visit

_DISKS_SHOWN = 10
_WHY = "verification found them inactive"
# A strict job waits for locks of long operations; other jobs are to leave time for the next run of their unit, as systemd
# starts no second one.  A job that has not ended by then is left to end by itself.
_STRICT_PATIENCE = 3600.0
_PATIENCE = 120.0


def Run(client: Client, visit: Visit, options: optparse.Values) -> None:
    """Submit the verification, wait for it, act on its result."""
    from ganeti.opcodes import OpGroupVerifyDisks
    from ganeti.params import disk

    if {instance.template for instance in visit.instances} <= disk.With(looked_after=True):
        logging.debug("Group %s: no instance has disks that could be verified", visit.name)
        return
    pending = _Pending(client, visit)
    if pending is not None:
        logging.info("Group %s: disks are not verified, as job %d does so already", visit.name, pending)
        return
    op = OpGroupVerifyDisks(
        group_name=visit.uuid,
        is_strict=options.strict,
        priority=constants.OP_PRIO_LOW,
        reason=master.Reason("Verifying disks"),
    )
    if not guard.MayWork(options):
        return
    job_id = client.SubmitJob([op])
    patience = _STRICT_PATIENCE if options.strict else _PATIENCE
    status = master.Wait(client, job_id, patience)
    if status is None:
        logging.warning(
            "Group %s: job %d, which verifies disks, has not ended within %d minutes; a later run verifies them again",
            visit.name, job_id, patience / 60,
        )  # fmt: skip
        return
    [[results]] = client.QueryJobs([job_id], ["opresult"])
    client.ArchiveJob(job_id)
    if status != constants.JOB_STATUS_SUCCESS:
        logging.error("Group %s: the verification of disks failed: %s", visit.name, master.ErrorOf(results))
        return
    bad_nodes, inactive, missing = results[0]
    for node, text in sorted(bad_nodes.items()):
        logging.warning("Group %s: node %s could not be asked about disks: %s", visit.name, node, text)
    if missing:
        _ReportMissing(client, missing)
    if inactive:
        _Activate(client, visit, inactive, options)


def _Pending(client: Client, visit: Visit) -> int | None:
    """Return a job that verifies this group's disks and has not ended."""
    summaries = {f"GROUP_VERIFY_DISKS({word})" for word in (visit.uuid, visit.name)}
    rows = client.Query("job", ("id", "summary"), busy.PENDING)["data"]
    return next((job_id for (_, job_id), (_, found) in rows if summaries.intersection(found or ())), None)


def _ReportMissing(client: Client, missing: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Say which volumes and files are gone; making them again is the administrator's decision (doc/design-lvm-repair.rst)."""
    names: dict[str, str] = dict(map(Values, client.Query("node", ("uuid", "name"), None)["data"]))
    for instance, lost in sorted(missing.items()):
        words = [f"{disk} on node {names.get(node, node)}" for node, disk in lost]
        logging.error(
            "Instance %s has lost %s; unless a job makes them again already ('gnt-job list'), this is for an administrator:"
            " 'gnt-cluster verify' says what to do",
            instance, JoinFirst(words, _DISKS_SHOWN),
        )  # fmt: skip


def _Activate(client: Client, visit: Visit, reported: list[str], options: optparse.Values) -> None:
    """Activate disks, as far as a new look at instances and jobs allows it: the verification may have taken long."""
    if not guard.MayWork(options):
        return
    began = runtime.Time()
    instances = master.QueryInstances(client, visit.uuid)
    nodes = master.QueryNodes(client, visit.uuid)
    chosen, left = decisions.DecideRepair(instances, nodes, master.QueryBusy(client, instances, began), reported)
    for name, why in left.items():
        logging.info("The disks of instance %s are inactive and left so: %s", name, why)
    for instance in chosen:
        logging.info("Activating the disks of instance %s: %s", instance.name, _WHY)
    # A job for each: one that finds its instance changed must not keep the others from theirs.
    master.Submit(client, [[master.Activation(instance, _WHY)] for instance in chosen], options)
