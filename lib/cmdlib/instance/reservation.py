"""Instances that only reserve resources, and how they become real (doc/reference/drivers.md d.1, config.md 8.1)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, objects, opcodes, params
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.common import CheckNotBare, CheckTarget, Invalid
from ganeti.cmdlib.disk.reserved import PutBack, RemoveLeftovers
from ganeti.cmdlib.instance.base import CheckTargetPolicy
from ganeti.cmdlib.instance.moving.migration import TLMigrateInstance
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti.cmdlib.disk.generate import DiskRequest

_CHOSEN_LATER = (constants.VALUE_AUTO, constants.VALUE_GENERATE, "pool")


class Reservation:
    """The entry of a forthcoming instance that a request makes real.

    Its UUID, nodes, disks and NICs stay.  What the request leaves out is as reserved; what it names must agree with the
    disks and NICs, and takes the place of the parameters.
    """

    def __init__(self, lu: LogicalUnit, name: str):
        """Find the entry; raise OpPrereqError if there is none, or if it is an instance."""
        self._lu = lu
        found: objects.Instance | None = lu.snapshot.ExpandName("instance", name)
        if found is None:
            raise errors.OpPrereqError(
                f"Instance '{name}' is not known: only a reserved instance can be committed",
                errors.ECODE_NOENT,
                hint="'gnt-instance list -o name,forthcoming' shows what is reserved",
            )
        if not found.forthcoming:
            raise errors.OpPrereqError(f"Instance '{found.name}' is already a real one", errors.ECODE_STATE)
        CheckNotBare(lu.snapshot, found)
        self.instance = found
        self.disks = lu.snapshot.InstanceDisks(found)
        self.nodes = list(lu.snapshot.AllNodes(found))

    def Filled(self, asked: opcodes.OpInstanceCreate) -> opcodes.OpInstanceCreate:
        """Return the request with what it leaves out; raise OpPrereqError if it wants other nodes or another disk template.

        The request itself stays: the next try for the locks may find another reservation.
        """
        instance, snapshot, op = self.instance, self._lu.snapshot, copy.copy(asked)
        self._FillNodes(op)
        template = snapshot.DiskTemplate(instance)
        if op.disk_template not in (None, template):
            raise self._Differs("disk template", template, op.disk_template)
        op.instance_name, op.disk_template = instance.name, template
        op.disks = op.disks or [self._Request(disk) for disk in self.disks]
        op.hypervisor = op.hypervisor or instance.hypervisor
        op.os_type = op.os_type or instance.os or None
        op.beparams = {**instance.beparams, **op.beparams}
        if op.hypervisor == instance.hypervisor:
            op.hvparams = {**instance.hvparams, **op.hvparams}
        op.osparams = {**instance.osparams, **op.osparams}
        op.osparams_private = {**instance.osparams_private, **(op.osparams_private or {})}
        op.tags = op.tags or list(instance.tags)
        return op

    def _FillNodes(self, op: opcodes.OpInstanceCreate) -> None:
        if op.iallocator is not None:
            raise Invalid(f"Instance '{self.instance.name}' has reserved its nodes: an allocator cannot be given")
        names = [self._lu.snapshot.NodeName(uuid) for uuid in self.nodes]
        for slot, name in zip(("pnode", "snode"), (*names, None), strict=False):
            given = getattr(op, slot)
            node = None if given is None else self._lu.snapshot.ExpandName("node", given)
            if given is not None and (node is None or node.name != name):
                raise self._Differs("primary node" if slot == "pnode" else "secondary node", name, given)
            setattr(op, slot, name)

    @staticmethod
    def _Request(disk: objects.Disk) -> dict[str, Any]:
        """Return a disk as a request describes it."""
        values: dict[str, Any] = {"size": disk.size, "mode": disk.mode}
        if disk.spindles is not None:
            values["spindles"] = disk.spindles
        if disk_params.Of(disk).provider:
            values["provider"] = disk_params.Of(disk).Source(disk)
        return values

    def _Differs(self, what: str, reserved: Any, given: Any) -> errors.OpPrereqError:
        return Invalid(
            f"Instance '{self.instance.name}' has reserved {what} {reserved}, the request names {given}",
            hint="leave it out of the request, or remove the reservation and make it anew",
        )

    def CheckDisks(self, requests: Sequence[DiskRequest]) -> None:
        """Raise OpPrereqError if the request wants other disks than those that are reserved."""
        if any(request.adopt for request in requests):
            raise Invalid("Disks cannot be adopted in the place of reserved ones")
        reserved, given = [disk.size for disk in self.disks], [request.size for request in requests]
        if reserved != given:
            raise self._Differs("disks of (MiB)", reserved, given)

    def CheckNics(self, requests: Sequence[dict[str, Any]]) -> None:
        """Raise OpPrereqError if the request wants other NICs than those that are reserved."""
        nics = self.instance.nics
        if not requests:
            return
        if len(requests) != len(nics):
            raise self._Differs("a number of NICs of", len(nics), len(requests))
        for index, (nic, request) in enumerate(zip(nics, requests, strict=True)):
            known = self._Known(nic)
            for key, value in request.items():
                if value not in (None, *_CHOSEN_LATER) and known.get(key) != value:
                    raise self._Differs(f"{key} of NIC {index}:", known.get(key), value)

    def _Known(self, nic: objects.NIC) -> dict[str, Any]:
        """Return a NIC as requests describe it."""
        snapshot = self._lu.snapshot
        filled = params.FillNIC(snapshot, nic)
        network = snapshot.networks.get(nic.network) if nic.network is not None else None
        return {
            **filled,
            "bridge": filled["link"],
            "mac": nic.mac,
            "ip": nic.ip,
            "name": nic.name,
            "network": None if network is None else network.name,
        }

    def Restore(self) -> None:
        """Make the instance, of which nothing is used yet, the reservation again that it was."""
        lu, uuid = self._lu, self.instance.uuid
        now = lu.snapshot.instances[uuid]
        if not now.forthcoming:
            # With the disks as they are: they can only be reserved once they are removed.
            reserved = self.instance.Replace(serial_no=now.serial_no, network_port=now.network_port)
            now = lu.cfg.Update(reserved, lu.ec_id)
        if PutBack(lu, now):
            lu.LogInfo(f"Instance {now.name} is still reserved; 'gnt-instance add --commit {now.name}' tries again")
        else:
            lu.LogWarning(
                f"Instance {now.name} is still reserved, but what was made of its disks could not be removed",
                hint=f"repair the nodes; then 'gnt-instance add --commit {now.name}' removes it and tries again",
            )

    def CheckUnchanged(self) -> None:
        """Raise OpPrereqError if the reservation changed before its lock was held."""
        snapshot, name = self._lu.snapshot, self.instance.name
        now = snapshot.instances.get(self.instance.uuid)
        if now is None:
            raise errors.OpPrereqError(
                f"The reservation of instance '{name}' was removed while this job waited for its locks",
                errors.ECODE_STATE,
            )
        if not now.forthcoming:
            raise errors.OpPrereqError(
                f"Instance '{name}' was committed by another job while this one waited for its locks",
                errors.ECODE_STATE,
                hint=f"'gnt-instance info {name}' shows it",
            )
        if now != self.instance or list(snapshot.AllNodes(now)) != self.nodes:
            raise errors.OpPrereqError(
                f"The reservation of instance '{name}' changed while this job waited for its locks; try again",
                errors.ECODE_STATE,
            )

    def CheckNodes(self) -> None:
        """Raise OpPrereqError if the instance cannot be made on the reserved nodes."""
        name, snapshot = self.instance.name, self._lu.snapshot
        mirrored = len(self.nodes) > 1
        for uuid in self.nodes:
            node = snapshot.nodes[uuid]
            try:
                CheckTarget(node)
            except errors.OpPrereqError as err:
                if not mirrored:
                    way = f"'gnt-instance remove {name}' gives the reservation up, for one on another node"
                elif uuid == self.nodes[0]:
                    way = f"'gnt-instance failover {name}' makes {snapshot.NodeName(self.nodes[1])} its primary node"
                else:
                    way = f"'gnt-instance replace-disks -n NODE {name}' reserves another secondary node"
                raise errors.OpPrereqError(
                    f"Instance '{name}' cannot be committed, its place is reserved on node {node.name}: {err.args[0]}",
                    errors.ECODE_STATE,
                    hint=f"commit it once the node can be used again, or move it: {way}",
                ) from err


class TLMoveReservation(TLMigrateInstance):
    """Fail a forthcoming instance over: only its primary node changes."""

    def CheckPrereq(self) -> None:
        instance = self._instance
        if not instance.forthcoming:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' was committed while this job waited for its locks; try again",
                errors.ECODE_STATE,
            )
        self.source_uuid = instance.primary_node
        self._FindTarget(instance)
        CheckTarget(self.snapshot.nodes[self.target_uuid])
        CheckTargetPolicy(self.lu, instance, self.target_uuid, self._ignore_ipolicy)

    def _ChooseMirrored(self, instance: objects.Instance) -> None:
        """Reject any node but the secondary one, even if that changed while the job waited."""
        wanted = self.lu.op.target_node_uuid
        if wanted in (None, self.target_uuid):
            return
        name, secondary = instance.name, self._Name(self.target_uuid)
        raise self.OnlyToSecondary(
            name,
            f"{secondary}, not to {self._Name(wanted)}",
            f"'gnt-instance replace-disks -n {self._Name(wanted)} {name}'",
        )

    @staticmethod
    def OnlyToSecondary(name: str, where: str, first: str) -> errors.OpPrereqError:
        return Invalid(
            f"Instance '{name}' is only a reservation (forthcoming), which can be failed over to its secondary node"
            f" {where}",
            hint=f"{first} reserves its mirrors on another one, after which it can be failed over there",
        )

    def Exec(self, feedback: Feedback) -> None:
        source, target = self._Name(self.source_uuid), self._Name(self.target_uuid)
        feedback(f"Moving the reservation of instance {self._instance.name} from {source} to {target}")
        RemoveLeftovers(self.lu, self._instance)
        self.cfg.SetInstancePrimaryNode(self._instance.uuid, self.target_uuid)
