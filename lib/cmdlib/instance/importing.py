"""Where a new instance's data comes from if not from its operating system: an export, or another cluster.

Facts: doc/reference/drivers.md d.1, doc/reference/interfaces.md f.3; what differs: doc/design-transfers.rst.
"""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, objects, opcodes, params, pathutils, runtime, x509
from ganeti.cmdlib import transfers
from ganeti.cmdlib.backup import remote
from ganeti.cmdlib.base import Feedback, Filled, LogicalUnit
from ganeti.cmdlib.common import CheckNodeOnline, ExpandNode, Invalid
from ganeti.params import exported, hv
from ganeti.utils.text import JoinEscaped, NiceSort

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

LU = LogicalUnit[opcodes.OpInstanceCreate]

# How long the other cluster has to connect beside the time that it takes to stop the guest.
_CONNECT_SECONDS = 180
_LONGEST_HINT = 300
# An export that was made so many seconds from now tells of a wrong clock, not of newer data.
_CLOCK_SKEW = 600
_OLD_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}", re.ASCII)


class Source:
    """What fills the disks of a new instance."""

    def __init__(self, lu: LU):
        self._lu = lu

    def CheckArguments(self) -> None:
        """Check the request by itself."""
        op = self._lu.op
        if op.forthcoming or op.commit:
            raise Invalid("An instance that is imported can be neither reserved nor committed")
        if any(isinstance(disk, dict) and disk.get("adopt") for disk in op.disks):
            raise Invalid("Disk adoption not allowed for an instance that is imported: its disks are filled")

    def Completed(self) -> opcodes.OpInstanceCreate:
        """Return the request with all that it leaves out; called before there are locks."""
        return self._lu.op

    def Nodes(self) -> set[str]:
        """Return the nodes that take part beside those of the instance."""
        return set()

    def Env(self) -> dict[str, Any]:
        """Return variables of the hooks."""
        return {}

    def CheckPrereq(self) -> None:
        """Check, when there are locks, that it can be done and all is as it was found."""
        transfers.CheckCompression(self._lu.snapshot, self._lu.op.compress)

    def Fill(self, feedback: Feedback, instance: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        """Fill the disks, which are set up on the primary node; raise OpExecError."""
        raise NotImplementedError

    # --- for subclasses -----------------------------------------------------------------------------------------------

    def _Rename(self, feedback: Feedback, instance: objects.Instance, old_name: str) -> None:
        if not instance.os:
            return
        lu = self._lu
        feedback("* running the instance OS rename script...")
        result = lu.rpc.call_instance_run_rename(instance.primary_node, instance, old_name, Filled(lu.op.debug_level))
        result.Warn(
            f"Could not run OS rename script for instance {instance.name} on node {result.node_name}; its data was imported",
            lu.LogWarning,
        )

    @staticmethod
    def _Failed(instance: objects.Instance, why: str) -> errors.OpExecError:
        # What becomes of the instance is said by whoever made it (outcome).
        return errors.OpExecError(f"The data of instance {instance.name} was not imported: {why}")


def ChooseSource(lu: LU) -> Source | None:
    """Return what the request says the data comes from; None: from the operating system, an image or nowhere."""
    classes: dict[str, type[Source]] = {
        constants.CREATE_IMPORT: LocalExport,
        constants.CREATE_REMOTE_IMPORT: OtherCluster,
    }
    chosen = classes.get(lu.op.mode)
    return None if chosen is None else chosen(lu)


class LocalExport(Source):
    """An export on a node of this cluster."""

    _node: objects.Node
    _path: str
    _text: str
    _export: exported.Export

    def CheckArguments(self) -> None:
        super().CheckArguments()
        op = self._lu.op
        if op.src_node is None and op.src_path is not None and posixpath.isabs(op.src_path):
            raise Invalid(
                f"'{op.src_path}' is an absolute path, so the node that has it must be named",
                hint="name the node with --src-node, or give the export's name only",
            )

    def Completed(self) -> opcodes.OpInstanceCreate:
        self._Find()
        self._text = self._Read()
        self._export = self._Parse(self._text)
        return self._Filled(self._lu.op)

    def _Find(self) -> None:
        """Find the node that has the export, and its directory."""
        lu, op = self._lu, self._lu.op
        name = op.src_path or op.instance_name
        self._path = name if posixpath.isabs(name) else posixpath.join(pathutils.EXPORT_DIR, name)
        if op.src_node is not None:
            self._node = ExpandNode(lu.snapshot, op.src_node, op.src_node_uuid)
            CheckNodeOnline(self._node, "The node with the export is offline")
            return
        online = [node for node in lu.snapshot.nodes.values() if not node.offline]
        results = lu.rpc.call_export_list([node.uuid for node in online])
        having = [node for node in online if name in (results[node.uuid].payload or ())]
        if not having:
            silent = [result.node_name for result in results.values() if result.failure is not None]
            away = f"; {', '.join(NiceSort(silent))} did not answer" if silent else ""
            raise errors.OpPrereqError(
                f"No export '{name}' found on any node{away}",
                errors.ECODE_INVAL,
                hint="'gnt-backup list' shows what there is",
            )
        self._node = having[0]
        if len(having) > 1:
            self._ChooseNewest(name, {node.name: node for node in having})

    def _ChooseNewest(self, name: str, having: Mapping[str, objects.Node]) -> None:
        """Choose the latest of several exports of one name; those that cannot be read, or are of the future, are the oldest."""
        made: dict[str, int] = {}
        for node_name in NiceSort(having):
            result = self._lu.rpc.call_export_info(having[node_name].uuid, self._path)
            try:
                made[node_name] = exported.Parse(str(result.payload)).timestamp or 0
            except errors.ParseError:
                made[node_name] = -1
            if made[node_name] > runtime.Time() + _CLOCK_SKEW:
                made[node_name] = -1
        chosen = max(made, key=lambda node_name: made[node_name])
        self._node = having[chosen]
        odd = [node_name for node_name, when in made.items() if when < 0]
        ignored = f"; ignored on {', '.join(odd)}: it cannot be read there, or its time is in the future" if odd else ""
        self._lu.LogInfo(f"Export '{name}' is on {', '.join(made)}; the latest, on {chosen}, is used{ignored}")

    def _Read(self) -> str:
        result = self._lu.rpc.call_export_info(self._node.uuid, self._path)
        result.Raise(f"The export in {self._path} on node {result.node_name} cannot be read", prereq=True)
        return str(result.payload)

    def _Parse(self, text: str) -> exported.Export:
        try:
            return exported.Parse(text)
        except errors.ParseError as err:
            raise self._Unusable(err) from err

    def _Unusable(self, err: errors.ParseError) -> errors.OpPrereqError:
        where = f"The export in {self._path} on node {self._node.name}"
        return errors.OpPrereqError(f"{where} cannot be used: {err}", errors.ECODE_ENVIRON)

    def _Filled(self, asked: opcodes.OpInstanceCreate) -> opcodes.OpInstanceCreate:
        """Return the request with what it leaves out; the request itself stays: the next try may find another export."""
        found, op = self._export, copy.copy(asked)
        op.force_variant, op.no_install = True, False
        op.os_type = found.os or ""
        if op.os_type:
            _CheckFormerName(found.name)
        op.src_node, op.src_node_uuid, op.src_path = self._node.name, self._node.uuid, self._path
        if op.disk_template is None and found.disk_template in self._lu.snapshot.cluster.enabled_disk_templates:
            op.disk_template = found.disk_template
        if not op.disks:
            op.disks = [{"size": disk.size, "name": disk.name} for disk in found.disks]
        self._CheckSizes(op)
        if len(op.disks) < len(found.disks):
            # What an import script writes may need them all.
            raise Invalid(
                f"The export in {self._path} on node {self._node.name} has {len(found.disks)} disks, the instance would have"
                f" {len(op.disks)}"
            )
        if not op.nics:
            op.nics = [self._NicRequest(index, nic) for index, nic in enumerate(found.nics)]
        elif found.name == op.instance_name:
            op.nics = [self._KeepMac(nic, index) for index, nic in enumerate(op.nics)]
        op.tags = op.tags or list(found.tags)
        op.hypervisor = op.hypervisor or found.hypervisor
        try:
            op.hvparams = {**self._HvValues(op), **op.hvparams}
            op.beparams = {**found.BeValues(), **op.beparams}
        except errors.ParseError as err:
            raise self._Unusable(err) from err
        if unknown := found.Unknown():
            self._lu.LogWarning(f"This release does not know these parameters of the export: {', '.join(unknown)}")
        op.osparams = {**self._OsValues(op), **op.osparams}
        op.osparams_private = {**found.osparams_private, **(op.osparams_private or {})}
        return op

    def _HvValues(self, op: opcodes.OpInstanceCreate) -> dict[str, Any]:
        """Return the hypervisor parameters of the export, without what it may not decide.

        Whoever can write to a directory of exports would choose files of another node, and with which rights it runs the guest.
        """
        cluster, hypervisor = self._lu.snapshot.cluster, op.hypervisor or ""
        values = self._export.HvValues(hypervisor)
        defaults = params.HVDefaults(cluster, hypervisor, op.os_type) if values else {}
        own = {
            name: value
            for name, value in sorted(values.items())
            if name not in op.hvparams and value != defaults.get(name)
        }
        left_out = {name: value for name, value in own.items() if not hv.IsOfGuest(name, value)}
        left_out |= {name: value for name, value in own.items() if hv.NEEDS.get((name, value)) in left_out}
        self._WarnOf(left_out, "-H", f"{hypervisor}:")
        return {name: value for name, value in values.items() if name not in left_out}

    def _OsValues(self, op: opcodes.OpInstanceCreate) -> dict[str, str]:
        """Return the parameters of the export's system; an image, which may be any file of a node, is none of them."""
        values = dict(self._export.osparams)
        if (found := values.pop(constants.OS_IMAGE, None)) and constants.OS_IMAGE not in op.osparams:
            self._WarnOf({constants.OS_IMAGE: found}, "-O")
        return values

    def _WarnOf(self, left_out: Mapping[str, Any], option: str, begin: str = "") -> None:
        """Warn of parameters that are not taken over, with the option, whose value has this beginning, that sets them."""
        if not left_out:
            return
        word = runtime.ShellQuote(begin + JoinEscaped(f"{name}={value}" for name, value in left_out.items()))
        where = f"{exported.FILE_NAME} in {self._path} on node {self._node.name} has their values"
        self._lu.LogWarning(
            "Parameters of the export that name something of a node, decide about rights there, or say how people reach the"
            " console, are not taken over:"
            f" {', '.join(left_out)}",
            hint=f"if you trust the export, add {option} {word}" if len(word) <= _LONGEST_HINT else where,
        )

    def _CheckSizes(self, op: opcodes.OpInstanceCreate) -> None:
        """Refuse disks that are too small for content that is written as it is; scripts know what they need."""
        for index, (disk, old) in enumerate(zip(op.disks, self._export.disks, strict=False)):
            size = disk.get("size") if isinstance(disk, dict) else None
            if not op.os_type and isinstance(size, int) and size < old.size:
                raise Invalid(f"Disk {index} of the export has {old.size} MiB, that of the instance would have {size}")

    def _NicRequest(self, index: int, nic: Mapping[str, str | None]) -> dict[str, Any]:
        """Return a network card of the export as a request describes it: a network has its own mode and link."""
        left_out = list(exported.CONNECTION) if nic.get("network") else []
        keys = [key for key in ("network", *exported.CONNECTION) if nic.get(key) and key not in left_out]
        self._ShowConnection(index, {key: nic[key] for key in keys})
        if self._lu.snapshot.Users("MAC address", nic.get("mac")):
            # The original, or another copy, is still there.
            self._lu.LogInfo(f"MAC address {nic['mac']} is in use: this network card gets another one")
            left_out.append("mac")
        return {key: value for key, value in nic.items() if value is not None and key not in left_out}

    def _ShowConnection(self, index: int, found: Mapping[str, Any]) -> None:
        """Say what the export connects a network card to, where nobody but the export has said so."""
        usual = params.SimpleFillNIC(self._lu.snapshot.cluster, {})
        odd = {key: value for key, value in found.items() if value != usual.get(key)}
        if odd:
            told = ",".join(f"{key}={value}" for key, value in odd.items())
            self._lu.LogInfo(
                f"Network card {index} is connected as the export says: {told}; if that is not wanted, describe all cards with"
                " --net"
            )

    def _KeepMac(self, nic: dict[str, Any], index: int) -> dict[str, Any]:
        """Give a network card of the same instance the address that it had."""
        if nic.get("mac", constants.VALUE_AUTO) != constants.VALUE_AUTO or index >= len(self._export.nics):
            return nic
        return {**nic, "mac": self._export.nics[index].get("mac") or constants.VALUE_AUTO}

    def Nodes(self) -> set[str]:
        return {self._node.uuid}

    def Env(self) -> dict[str, Any]:
        images = [posixpath.join(self._path, disk.dump) if disk.dump else False for disk in self._export.disks]
        return {"SRC_NODE": self._node.name, "SRC_PATH": self._path, "SRC_IMAGES": str(images)}

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        node = self._lu.snapshot.nodes.get(self._node.uuid)
        if node is None or node.offline:
            raise errors.OpPrereqError(
                f"Node {self._node.name}, which has the export, was removed or is offline now", errors.ECODE_STATE
            )
        if self._Read() != self._text:
            raise errors.OpPrereqError(
                f"The export in {self._path} on node {node.name} has changed since this job read it; try again",
                errors.ECODE_STATE,
            )

    def Fill(self, feedback: Feedback, instance: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        lu = self._lu
        plan = []
        for index, (disk, old) in enumerate(zip(disks, self._export.disks, strict=False)):
            if old.dump is None:
                feedback(f"* disk {index} stays empty: the export does not have its content")
                continue
            path = posixpath.join(self._path, old.dump)
            target = transfers.DiskEnd(instance, disk, index)
            plan.append(transfers.DiskTransfer(index, ("file", path), target))
        feedback(f"* importing the disks from {self._path} on {self._node.name}...")
        primary = instance.primary_node
        failed = transfers.TransferDisks(lu, feedback, instance, self._node.uuid, primary, plan, lu.op.compress)
        if failed:
            raise self._Failed(instance, failed)
        result: RpcResult = lu.rpc.call_export_info(self._node.uuid, self._path)
        if result.failure is not None:
            lu.LogWarning(
                f"Node {result.node_name} could not be asked whether the export was replaced meanwhile; all data has arrived"
            )
        elif result.fail_msg or result.payload != self._text:
            # Its disks may be of different exports.
            where = f"{self._path} on {self._node.name}"
            raise self._Failed(instance, f"the export in {where} was removed or replaced meanwhile")
        self._Rename(feedback, instance, self._export.name)


def _CheckFormerName(name: str) -> None:
    """Check the former name of an instance; it becomes a variable of a script and part of a log's name."""
    if not _OLD_NAME.fullmatch(name):
        raise Invalid(
            f"The instance was called {name[:60]!r}, which is not a name: letters, digits, '_', '.' and '-' are allowed, and"
            " neither '.' nor '-' in front"
        )


class OtherCluster(Source):
    """An instance of another cluster, which sends its disks when this job says where to."""

    _ca: str
    _old_name: str

    def CheckArguments(self) -> None:
        super().CheckArguments()
        op = self._lu.op
        if op.source_x509_ca is None or not op.source_instance_name:
            raise Invalid(
                "An import from another cluster needs its handshake, its certificate, and the name that the instance has there"
            )
        secret = remote.ReadDomainSecret()
        remote.CheckHandshake(secret, op.source_handshake)
        self._ca = remote.CheckCa(secret, op.source_x509_ca)
        _CheckFormerName(op.source_instance_name)
        self._old_name = op.source_instance_name

    def Fill(self, feedback: Feedback, instance: objects.Instance, disks: Sequence[objects.Disk]) -> None:
        lu, primary = self._lu, instance.primary_node
        result = lu.rpc.call_x509_cert_create(primary, remote.KEY_SECONDS)
        result.Raise(f"Could not make a key for the transfer on node {result.node_name}")
        key_name, certificate = result.payload
        plan = [
            transfers.DiskTransfer(index, None, transfers.DiskEnd(instance, disk, index))
            for index, disk in enumerate(disks)
        ]
        try:
            failed = transfers.ReceiveDisks(
                lu,
                feedback,
                instance,
                plan,
                transfers.Trust(key_name, self._ca),
                lu.op.compress,
                _CONNECT_SECONDS + lu.op.source_shutdown_timeout,
                lambda addresses: self._Announce(feedback, certificate, addresses),
            )
        finally:
            transfers.RemoveKey(lu, primary, key_name)
        if failed:
            raise self._Failed(instance, failed)
        self._Rename(feedback, instance, self._old_name)

    @staticmethod
    def _Announce(feedback: Feedback, certificate: str, addresses: Sequence[transfers.Address]) -> None:
        """Tell the client where the other cluster is to send the disks."""
        secret = remote.ReadDomainSecret()
        infos = [
            remote.MakeDiskInfo(secret, index, address.host, address.port, address.magic)
            for index, address in enumerate(addresses)
        ]
        feedback(constants.ELOG_REMOTE_IMPORT, {"disks": infos, "x509_ca": x509.Sign(certificate, secret)})
