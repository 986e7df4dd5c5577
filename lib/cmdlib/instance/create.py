"""Making an instance (doc/reference/drivers.md d.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ganeti import constants, errors, hosts, locking, objects, opcodes, params, rpc, store
from ganeti.cmdlib import ratios
from ganeti.cmdlib.allocation.placement import Placement
from ganeti.cmdlib.allocation.requests import Allocate
from ganeti.cmdlib.base import HTYPE_INSTANCE, Feedback, Filled, LogicalUnit
from ganeti.cmdlib.common import (
    CheckNicBridges,
    CheckTarget,
    CheckViolations,
    CopyNodeLocks,
    ExpandGroup,
    ExpandNode,
    NoCommunication,
    ReleaseLocks,
)
from ganeti.cmdlib.disk import generate as diskgen
from ganeti.cmdlib.disk.devices import CreateDisks, EndAdoption, OpenDisks, RemoveDisks, Undo, WaitForSync, WipeDisks
from ganeti.cmdlib.disk.reserved import BeginDisks, MarkDisk
from ganeti.cmdlib.hookenv import InstanceFacts
from ganeti.cmdlib.instance import image, importing, nicgen, outcome, untrusted
from ganeti.cmdlib.instance.base import (
    AllOsParams,
    CheckBeLimits,
    CheckHvOnNodes,
    CheckHvSyntax,
    CheckOs,
    CheckScript,
    ForceBeParams,
    ForceHvParams,
)
from ganeti.cmdlib.instance.reservation import Reservation
from ganeti.cmdlib.instance.room import CheckRoom, IsShared, LimitStart, MakeRoom
from ganeti.cmdlib.instance.shape import CheckSomePolicy, JudgeNew, Shape
from ganeti.config.writer import CheckTags
from ganeti.params import disk as disk_params
from ganeti.params import hv, ipolicy
from ganeti.rpc.resolver import NodedPort

AUTO = constants.VALUE_AUTO
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
_MAX_NAME = 255
_PROBE_TIMEOUT = 10.0


def NormalizeName(name: str) -> str:
    """Return a host name in lower case; OpPrereqError if it cannot be one."""
    lowered = name.lower()
    if len(lowered) > _MAX_NAME or not _NAME.fullmatch(lowered):
        raise errors.OpPrereqError(f"Invalid host name '{name[:80]}'", errors.ECODE_INVAL)
    return lowered.removesuffix(".")


def ResolveName(lu: LogicalUnit, name: str) -> hosts.Host:
    """Return the resolved instance name, which must be the given one or begin with it at a dot."""
    family6 = lu.snapshot.cluster.primary_ip_family == constants.IP6_FAMILY
    host = hosts.Lookup(name, ipv6=family6)
    if host.name != name:
        lu.LogInfo(f"Resolved given name '{name}' to '{host.name}'")
    if not (host.name == name or host.name.startswith(f"{name}.")):
        raise errors.OpPrereqError(
            f"Resolved hostname '{host.name}' does not look the same as given hostname '{name}'", errors.ECODE_INVAL
        )
    return host


def CheckAddressIsFree(ip: str, name: str) -> None:
    """Raise OpPrereqError if a machine with this address is up."""
    if hosts.IsInUse(ip, NodedPort(), _PROBE_TIMEOUT):
        raise errors.OpPrereqError(f"IP {ip} of instance {name} already in use", errors.ECODE_NOTUNIQUE)


def IsOsBlacklisted(cluster: objects.Cluster, os_name: str) -> bool:
    """Return whether the list covers an OS: a base name covers all its variants, a full name one."""
    return os_name in cluster.blacklisted_os or os_name.partition("+")[0] in cluster.blacklisted_os


class LUInstanceCreate(LogicalUnit[opcodes.OpInstanceCreate]):
    """Make an instance: configuration, disks, operating system, first start.

    ``forthcoming``: only the configuration, which reserves what the instance needs; ``commit`` makes such an entry real.
    """

    HTYPE = HTYPE_INSTANCE
    REQ_BGL = False

    # What each phase finds out for the later ones.  CheckArguments, in part ExpandNames for what is read from an export:
    _source: importing.Source | None
    _template: str
    _traits: disk_params.DiskTemplate
    _disk_requests: list[diskgen.DiskRequest]
    _adopts: bool
    _resolved_ip: str | None
    _os: str
    _placement: Placement
    _reservation: Reservation | None
    # ExpandNames, looked at again in CheckPrereq; an allocator's choice is there then:
    _pnode: objects.Node
    _node_uuids: list[str]
    _group: objects.NodeGroup | None
    # Parsed once, because that reserves addresses.
    _nic_requests: list[nicgen.NicRequest] | None
    # CheckPrereq; own parameters as they will be stored, filled ones with all defaults:
    _directory: str | None
    _hypervisor: str
    _hvparams: dict[str, Any]
    _filled_hv: dict[str, Any]
    _beparams: dict[str, Any]
    _filled_be: dict[str, Any]
    _osparams: dict[str, Any]
    _osparams_private: dict[str, Any]
    _image: str | None
    _needs_helper: bool
    _nics: list[objects.NIC]
    _planned_uuid: str
    # Exec; for what is said of a failure:
    installed = False
    helper_may_run = False

    # --- the request by itself ----------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        op = self.op
        if op.instance_communication:
            raise NoCommunication()
        if op.no_install and op.start:
            self.LogInfo("No-installation mode selected, disabling startup")
            op.start = False
        op.instance_name = NormalizeName(op.instance_name)
        if op.ip_check and not op.name_check:
            raise errors.OpPrereqError("Cannot do IP address check without a name check", errors.ECODE_INVAL)
        self._source = importing.ChooseSource(self)
        if self._source is not None:
            self._source.CheckArguments()
        self._CheckReserving()
        if op.mode != constants.CREATE_IMPORT:
            self._CheckRequest()

    def _CheckRequest(self) -> None:
        """Check what is to be made; of an import much is known only when its export has been read."""
        op, snapshot = self.op, self.snapshot
        if op.disk_template is None:
            op.disk_template = snapshot.cluster.enabled_disk_templates[0]
            self.LogInfo(f"No disk template specified, using the cluster's first: {op.disk_template}")
        self._template = op.disk_template
        diskgen.CheckTemplateEnabled(snapshot, self._template)
        self._traits = disk_params.TEMPLATES[self._template]
        self._disk_requests = diskgen.ParseDisks(op.disks, self._template)
        self._adopts = any(disk.adopt for disk in self._disk_requests)
        if self._adopts and op.forthcoming:
            raise errors.OpPrereqError(
                "Disks that exist need no reservation: they cannot be adopted", errors.ECODE_INVAL
            )
        if self._reservation is not None:
            self._reservation.CheckDisks(self._disk_requests)
            self._reservation.CheckNics(op.nics)
        self._resolved_ip = None
        if op.name_check:
            op.instance_name, self._resolved_ip = ResolveName(self, op.instance_name)
        if self._traits.file_based and op.file_driver is None:
            op.file_driver = constants.FD_LOOP
        self._CheckNodes()
        self._CheckOsArgument()

    def CheckAlone(self) -> None:
        """Check the request as far as that can be done before there are locks and nodes."""
        self._nic_requests = None
        self._PlanInstance()

    def _CheckReserving(self) -> None:
        """Find the reservation that is committed, and fill in what the request leaves out."""
        op = self.op
        self._reservation = None
        if op.forthcoming and op.commit:
            raise errors.OpPrereqError("An instance is either reserved or committed, not both", errors.ECODE_INVAL)
        if op.forthcoming:
            op.start = False
        elif op.commit:
            self._reservation = Reservation(self, op.instance_name)
            self.op = self._reservation.Filled(op)

    def _CheckNodes(self) -> None:
        op = self.op
        if op.snode is not None and op.pnode is None:
            raise errors.OpPrereqError(
                "A secondary node is given without the primary node", errors.ECODE_INVAL, hint="name both, or neither"
            )
        self._placement = Placement(self)
        if self._adopts and self._placement.allocator:
            raise errors.OpPrereqError(
                "Disk adoption not allowed with an iallocator script",
                errors.ECODE_INVAL,
                hint="name the node that has the disks",
            )
        if op.opportunistic_locking and not self._placement.allocator:
            raise errors.OpPrereqError(
                "Opportunistic locking is only available in combination with an instance allocator", errors.ECODE_INVAL
            )
        if self._placement.allocator:
            return
        if self._traits.mirror == disk_params.INTERNAL:
            if op.snode is None:
                raise errors.OpPrereqError(
                    f"The disk template {op.disk_template} needs a secondary node", errors.ECODE_INVAL
                )
        elif op.snode is not None:
            self.LogWarning("Secondary node will be ignored on non-mirrored disk template")
            op.snode = None

    def _CheckOsArgument(self) -> None:
        op = self.op
        if op.os_type is None:
            if not op.no_install and not op.osparams.get(image.OS_IMAGE) and self._source is None:
                raise errors.OpPrereqError(
                    "No guest OS specified",
                    errors.ECODE_INVAL,
                    hint=f"name one, give an image with '-O {image.OS_IMAGE}=PATH-OR-URL', or use --no-install",
                )
            op.os_type = ""
        elif self._source is None and IsOsBlacklisted(self.snapshot.cluster, op.os_type):
            raise errors.OpPrereqError(f"Guest OS '{op.os_type}' is not allowed for installation", errors.ECODE_STATE)
        self._os = op.os_type

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        op, snapshot = self.op, self.snapshot
        existing = snapshot.InstanceByName(op.instance_name)
        if existing is not None and self._reservation is None:
            reserved = " as a reservation" if existing.forthcoming else ""
            raise errors.OpPrereqError(
                f"Instance '{op.instance_name}' is already in the cluster{reserved}",
                errors.ECODE_EXISTS,
                hint=f"'gnt-instance add --commit {existing.name}' makes it real" if reserved else None,
            )
        if self._source is not None and op.mode == constants.CREATE_IMPORT:
            self.op = op = self._source.Completed()
            self._CheckRequest()
        self._nic_requests = None
        if self._placement.allocator:
            self.add_locks[locking.LEVEL_INSTANCE] = op.instance_name
            self._node_uuids = []
            self._group = ExpandGroup(snapshot, op.group_name) if op.group_name is not None else None
            self.needed_locks = {}
            self._placement.Declare(
                self._Request, lambda: locking.ALL_SET if self._group is None else [self._group.uuid]
            )
            return
        self._pnode = ExpandNode(snapshot, Filled(op.pnode), op.pnode_uuid)
        nodes = [self._pnode]
        if op.snode is not None:
            nodes.append(ExpandNode(snapshot, op.snode, op.snode_uuid))
        self._node_uuids = [node.uuid for node in nodes]
        if len(set(self._node_uuids)) != len(nodes):
            raise errors.OpPrereqError(
                f"The secondary node cannot be the primary node: both are {self._pnode.name}", errors.ECODE_INVAL
            )
        self._CheckWantedGroup(nodes)
        self.needed_locks = {
            locking.LEVEL_NODEGROUP: sorted({node.group for node in nodes}),
            locking.LEVEL_NODE: list(self._node_uuids),
            locking.LEVEL_NODE_RES: [],
        }
        self.share_locks[locking.LEVEL_NODEGROUP] = 1
        if self._reservation is None:
            self.add_locks[locking.LEVEL_INSTANCE] = op.instance_name
        else:
            self.needed_locks[locking.LEVEL_INSTANCE] = [op.instance_name]
            self._nic_requests = []

    def _CheckWantedGroup(self, nodes: list[objects.Node]) -> None:
        """Check that the group to allocate in is that of the named nodes."""
        if self.op.group_name is None:
            return
        group = ExpandGroup(self.snapshot, self.op.group_name)
        outside = [node.name for node in nodes if node.group != group.uuid]
        if outside:
            raise errors.OpPrereqError(
                f"Node {', '.join(outside)} is not in node group {group.name}",
                errors.ECODE_INVAL,
                hint="leave out the group or name nodes of it",
            )

    def NodesToConfirm(self) -> set[str]:
        taking_part = set() if self._source is None else self._source.Nodes()
        return super().NodesToConfirm() | self.OnlineNodes(taking_part)

    def DeclareLocks(self, level: int) -> None:
        if self._placement.allocator:
            self._placement.DeclareLocks(level)
        elif level == locking.LEVEL_NODE_RES:
            CopyNodeLocks(self)

    def _Request(self) -> Allocate:
        """Return what an allocator has to know of the instance."""
        op = self.op
        self._PlanInstance()
        request = Shape(
            op.instance_name,
            self._template,
            self._filled_be,
            self._disk_requests,
            [nic.ForAllocator(self) for nic in Filled(self._nic_requests)],
            tags=op.tags,
            os=self._os,
            hypervisor=self._hypervisor,
            group_uuid=None if self._group is None else self._group.uuid,
            ignore_policy=op.ignore_ipolicy,
        )
        if not op.ignore_ipolicy:
            judged = (op.instance_name, JudgeNew(self.snapshot, request), self.owned_locks(locking.LEVEL_NODEGROUP))
            CheckSomePolicy(self.snapshot, [judged], "change the instance, or use --ignore-ipolicy")
        return request

    def PrepareRetry(self, feedback: Feedback) -> bool:
        """Wait for busy nodes, too, when the free ones were not enough."""
        if not self.op.opportunistic_locking:
            return False
        feedback("* falling back to full lock allocation")
        self.op.opportunistic_locking = False
        return True

    # --- hooks --------------------------------------------------------------------------------------------------------

    def BuildHooksEnv(self) -> dict[str, Any]:
        snapshot = self.snapshot
        instance = snapshot.InstanceByName(self.op.instance_name)
        if instance is not None and not (self.op.commit and instance.forthcoming):
            facts = InstanceFacts.Existing(snapshot, instance)
        else:
            facts = InstanceFacts(snapshot, self._MakeInstance(self._planned_uuid, ()), self._disk_requests)
            facts.disk_template = self._template
            facts.secondaries = self._node_uuids[1:]
        facts.status = self.op.start
        own = {} if self._source is None else self._source.Env()
        return {"ADD_MODE": self.op.mode, **own, **facts.Env()}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node, *self._node_uuids]
        return nodes, nodes

    # --- can it be done -----------------------------------------------------------------------------------------------

    def CheckPrereq(self) -> None:
        op, snapshot = self.op, self.snapshot
        if self._placement.allocator:
            self._node_uuids = self._placement.Chosen()
        if self._reservation is not None:
            self._reservation.CheckUnchanged()
        if self._source is not None:
            self._source.CheckPrereq()
        self._CheckLockedGroups()
        self._PlanInstance()
        if op.ip_check and self._resolved_ip is not None:
            CheckAddressIsFree(self._resolved_ip, op.instance_name)
        if self._reservation is not None:
            self._reservation.CheckNodes()
        for uuid in self._node_uuids:
            CheckTarget(snapshot.nodes[uuid])
        self._WarnOfGroups()
        self._nics = [
            request.Make(self, self._pnode.uuid, op.conflicts_check) for request in Filled(self._nic_requests)
        ]
        if op.identify_defaults:
            self._nics = [self._WithoutDefaults(nic) for nic in self._nics]
        if self._reservation is None:
            self._planned_uuid = self.cfg.GenerateUniqueID(self.ec_id)
        else:
            self._nics = list(self._reservation.instance.nics)
            self._planned_uuid = self._reservation.instance.uuid
        self._CheckStorage()
        self._CheckPolicy()
        self._CheckOnNodes()
        self.dry_run_result = list(self._node_uuids)

    def _PlanInstance(self) -> None:
        """Check and find out what does not depend on the nodes."""
        op, snapshot = self.op, self.snapshot
        self._directory = diskgen.FileDirectory(snapshot, self._template, op.file_storage_dir, op.instance_name)
        if self._traits.lvm and not snapshot.cluster.volume_group_name:
            raise errors.OpPrereqError(
                "Cluster does not support lvm-based instances: it has no volume group",
                errors.ECODE_STATE,
                hint="'gnt-cluster modify --vg-name=GROUP' names one that all nodes have",
            )
        self._CheckTags()
        self._FillParameters()
        if self._nic_requests is None:
            self._nic_requests = nicgen.ParseNics(self, op.nics, self._resolved_ip)

    def _CheckLockedGroups(self) -> None:
        snapshot = self.snapshot
        self._pnode = snapshot.nodes[self._node_uuids[0]]
        if not {snapshot.nodes[uuid].group for uuid in self._node_uuids} <= self.owned_locks(locking.LEVEL_NODEGROUP):
            raise errors.OpPrereqError(
                "The nodes have moved to other node groups since the locks were acquired; try again",
                errors.ECODE_STATE,
            )

    def _CheckTags(self) -> None:
        try:
            CheckTags(self.op.tags)
        except errors.TagError as err:
            raise errors.OpPrereqError(str(err), errors.ECODE_INVAL) from err

    def _FillParameters(self) -> None:
        """Own parameters as they will be stored, and the filled ones they lead to."""
        op, cluster = self.op, self.snapshot.cluster
        if op.hypervisor is None or op.hypervisor == AUTO:
            op.hypervisor = cluster.enabled_hypervisors[0]
        self._hypervisor = op.hypervisor
        if self._hypervisor not in cluster.enabled_hypervisors:
            raise errors.OpPrereqError(
                f"Selected hypervisor ({self._hypervisor}) not enabled in the cluster"
                f" ({', '.join(cluster.enabled_hypervisors)})",
                errors.ECODE_STATE,
            )
        self._hvparams = ForceHvParams(op.hvparams, self._hypervisor, f"instance '{op.instance_name}'")
        self._filled_hv = {**params.HVDefaults(cluster, self._hypervisor, self._os), **self._hvparams}
        CheckHvSyntax(self._hypervisor, self._filled_hv)
        defaults = params.BEDefaults(cluster)
        self._beparams = ForceBeParams({k: defaults.get(k) if v == AUTO else v for k, v in op.beparams.items()})
        self._filled_be = {**defaults, **self._beparams}
        CheckBeLimits(self._filled_be)
        self._osparams = {name: str(value) for name, value in op.osparams.items()}
        self._osparams_private = {name: str(value) for name, value in (op.osparams_private or {}).items()}
        if op.identify_defaults:
            self._DropDefaults()

    def _DropDefaults(self) -> None:
        """Drop values that equal their default, so that they follow later changes of the default."""
        cluster = self.snapshot.cluster
        for own, defaults in (
            (self._hvparams, params.HVDefaults(cluster, self._hypervisor, self._os)),
            (self._beparams, params.BEDefaults(cluster)),
            (self._osparams, params.OSDefaults(cluster.osparams, self._os)),
            (self._osparams_private, params.OSDefaults(cluster.osparams_private_cluster, self._os)),
        ):
            for name in [name for name, value in own.items() if name in defaults and defaults[name] == value]:
                del own[name]

    def _WithoutDefaults(self, nic: objects.NIC) -> objects.NIC:
        """Return the card without values that equal the cluster's; those of a network are the network's."""
        if nic.network is not None:
            return nic
        defaults = self.snapshot.cluster.nicparams[constants.PP_DEFAULT]
        own = {name: value for name, value in nic.nicparams.items() if defaults.get(name) != value}
        return nic.Replace(nicparams=own)

    def _WarnOfGroups(self) -> None:
        groups = {self.snapshot.nodes[uuid].group for uuid in self._node_uuids}
        if len(groups) > 1:
            self.LogWarning(
                "The primary and secondary nodes are in two different node groups;"
                " the disk parameters of the primary node's group are used"
            )

    def _CheckStorage(self) -> None:
        snapshot = self.snapshot
        exclusive = diskgen.CheckSpindles(snapshot, self._node_uuids, self._template, self._disk_requests)
        if self._adopts:
            diskgen.PrepareAdoption(self, self._template, self._disk_requests, self._pnode.uuid)
        elif not exclusive:
            needed = diskgen.SpaceNeeded(snapshot, self._template, self._disk_requests)
            diskgen.CheckFreeSpace(self, self._node_uuids, needed)

    def _CheckPolicy(self) -> None:
        group = self.snapshot.nodegroups[self._pnode.group]
        violations = self._Violations(group, len(self._nics)) + self._RatioViolations()
        CheckViolations(self, self.op.instance_name, group, violations, self.op.ignore_ipolicy)

    def _Violations(self, group: objects.NodeGroup, nics: int) -> list[str]:
        return ipolicy.Violations(
            params.FillIPolicy(self.snapshot, group),
            self._filled_be["maxmem"],
            self._filled_be["vcpus"],
            nics,
            [disk.size for disk in self._disk_requests],
            self._filled_be["spindle_use"],
            [self._template] * len(self._disk_requests),
        )

    def _RatioViolations(self) -> list[str]:
        """Return the ratios that named nodes would exceed; an allocator keeps them itself, or was told not to."""
        if self._placement.allocator:
            return []
        reserved = self.snapshot.InstanceByName(self.op.instance_name)
        but = None if reserved is None else reserved.uuid
        found = ratios.CpuViolations(self, self._pnode.uuid, self._filled_be["vcpus"], self._hypervisor, but)
        found += ratios.MemoryViolations(self, self._pnode.uuid, self._filled_be, self._hypervisor, but)
        if ratios.TakesSpindles(self._template):
            for uuid in self._node_uuids:
                found += ratios.SpindleViolations(self, uuid, self._filled_be["spindle_use"], but)
        return found

    def _CheckOnNodes(self) -> None:
        op = self.op
        nodes = self._node_uuids
        CheckHvOnNodes(self, nodes, self._hypervisor, self._filled_hv)
        if self._os:
            planned = self._MakeInstance(self._planned_uuid, ())
            os_params = AllOsParams(self.snapshot, planned, secret=op.osparams_secret)
            CheckOs(self, nodes[:1], self._os, os_params, op.force_variant, required=True)
            CheckOs(self, nodes[1:], self._os, os_params, op.force_variant, required=False)
            if self._source is not None and self._disk_requests:
                CheckScript(self, nodes[0], self._os, constants.OS_SCRIPT_IMPORT)
        self._image = image.ImageOf(self._osparams, self._disk_requests)
        installs = (
            self._source is None and not (op.no_install or op.forthcoming or self._adopts) and bool(self._disk_requests)
        )
        self._needs_helper = False
        if installs and self._image:
            image.CheckImage(self, self._pnode.uuid, self._image, self._disk_requests[0].size)
        elif installs and self._os:
            planned = self._MakeInstance(self._planned_uuid, ())
            taken = diskgen.SpaceNeeded(self.snapshot, self._template, self._disk_requests)
            self._needs_helper = untrusted.NeedsHelper(self, planned, len(self._disk_requests), taken)
        # 3.1 looks at the primary node only; a fail-over would find out.
        for uuid in nodes:
            CheckNicBridges(self, self._nics, uuid)
        if op.start:
            CheckRoom(self, *self._NeededMemory())

    def _NeededMemory(self) -> tuple[str, str, int, str]:
        """Return where how much memory must be free to start it: its maximum, or its minimum where memory is shared."""
        node = self._pnode.uuid
        needed = self._filled_be["minmem" if IsShared(self.snapshot, node) else "maxmem"]
        return node, f"creating instance {self.op.instance_name}", needed, self._hypervisor

    # --- doing it -----------------------------------------------------------------------------------------------------

    def _MakeInstance(self, uuid: str, disks: Iterable[str], port: int | None = None) -> objects.Instance:
        op = self.op
        return objects.Instance(
            name=op.instance_name,
            uuid=uuid,
            primary_node=self._pnode.uuid,
            os=self._os,
            hypervisor=self._hypervisor,
            hvparams=self._hvparams,
            beparams=self._beparams,
            osparams=self._osparams,
            osparams_private=self._osparams_private,
            admin_state=constants.ADMINST_DOWN,
            nics=tuple(self._nics),
            disks=tuple(disks),
            disks_active=False,
            network_port=port,
            tags=tuple(sorted(set(op.tags))),
        )

    def Exec(self, feedback: Feedback) -> list[str]:
        with outcome.SayingWhatStays(self, self._planned_uuid):
            return self._Make(feedback)

    def _Make(self, feedback: Feedback) -> list[str]:
        instance, disks = self._Generate()
        if self.op.forthcoming:
            return self._Reserve(feedback, instance, disks)
        if self._TakesVolumes():
            disks = diskgen.MarkAdopted(disks, self._disk_requests)
        made = self._CreateStorage(feedback, instance, disks)
        feedback(f"adding instance {instance.name} to cluster config")
        instance = self._AddToConfig(instance, disks, made)
        self.LogInfo(f"Instance {instance.name} is in the configuration, its uuid is {instance.uuid}")
        if self._TakesVolumes():
            self._Adopt(feedback, instance, disks)
        ReleaseLocks(self, locking.LEVEL_NODE)
        self._Settle(feedback, instance, disks)
        disks = EndAdoption(self, instance)
        instance = self.cfg.MarkInstanceDisksActive(instance.uuid)
        # Two creations must not count on the same memory.
        keeps = (self.op.start or self._needs_helper) and IsShared(self.snapshot, self._pnode.uuid)
        ReleaseLocks(self, locking.LEVEL_NODE_RES, keep=[self._pnode.uuid] if keeps else [])
        if self._source is not None:
            self._source.Fill(feedback, instance, disks)
        elif disks and (self.op.os_type or self._image) and not self._adopts and not self.op.no_install:
            self._Install(feedback, instance, disks)
        if self.op.start:
            self.installed = True
            free = MakeRoom(self, *self._NeededMemory(), feedback, but=instance.uuid)
            instance = self.cfg.MarkInstanceUp(instance.uuid)
            feedback("* starting instance...")
            opened = OpenDisks(self, instance, disks)
            result = self.rpc.call_instance_start(instance.primary_node, (opened, None, None), False, self.op.reason)
            result.Raise("Could not start instance")
            LimitStart(self, instance, free)
        return self._NodeNames()

    def _NodeNames(self) -> list[str]:
        return [self.snapshot.nodes[uuid].name for uuid in self._node_uuids]

    def _Reserve(self, feedback: Feedback, instance: objects.Instance, disks: list[objects.Disk]) -> list[str]:
        """Store what is reserved; nothing is made on nodes."""
        feedback(f"adding forthcoming instance {instance.name} to cluster config")
        self._AddToConfig(instance.Replace(forthcoming=True), [MarkDisk(disk, True) for disk in disks], [])
        return self._NodeNames()

    def _Generate(self) -> tuple[objects.Instance, list[objects.Disk]]:
        op = self.op
        if self._reservation is not None:
            disks = BeginDisks(self, self._reservation.instance)
            return self._MakeInstance(self._planned_uuid, [disk.uuid for disk in disks], self._Port()), disks
        plan = diskgen.PlanDisks(
            self.snapshot,
            self._template,
            self._planned_uuid,
            self._node_uuids[0],
            secondary=self._node_uuids[1] if len(self._node_uuids) > 1 else None,
            directory=self._directory,
            driver=op.file_driver or constants.FD_LOOP,
        )
        disks = diskgen.GenerateDisks(self, plan, self._disk_requests)
        return self._MakeInstance(self._planned_uuid, [disk.uuid for disk in disks], self._Port()), disks

    def _Port(self) -> int | None:
        reserved = None if self._reservation is None else self._reservation.instance.network_port
        if reserved is None and hv.TRAITS[self._hypervisor].needs_port:
            return self.cfg.AllocatePort(self.ec_id)
        return reserved

    def _CreateStorage(
        self, feedback: Feedback, instance: objects.Instance, disks: list[objects.Disk]
    ) -> list[tuple[str, objects.Disk]]:
        """Make the disks; return those made, which a failure must remove again."""
        if disks and not self._TakesVolumes():
            feedback("* creating instance disks...")
            try:
                return CreateDisks(self, instance, disks, self._template)
            except errors.OpExecError:
                if self._reservation is not None:
                    self._reservation.Restore()
                raise
        return []

    def _TakesVolumes(self) -> bool:
        return self._adopts and self._traits.adopts == disk_params.ADOPT_VOLUME

    def _Adopt(self, feedback: Feedback, instance: objects.Instance, disks: list[objects.Disk]) -> None:
        """Take the volumes over, now that the configuration names them; if the node could not, give them back."""
        feedback("* adopting instance volumes...")
        result = diskgen.AdoptVolumes(self, instance, disks)
        # A node that did not answer may be at it still, and would rename them after they were given back.
        if result.fail_msg and result.failure is None:
            self._TakeBack(instance)
        result.Raise(f"Failed to rename adopted volumes on node {result.node_name}")

    def _TakeBack(self, instance: objects.Instance) -> None:
        """Remove a new instance again; with adopted volumes only if all have their own names again."""
        if not RemoveDisks(self, instance) and self._TakesVolumes():
            return
        self.cfg.RemoveInstance(instance.uuid)
        self.remove_locks[locking.LEVEL_INSTANCE] = instance.name

    def _AddToConfig(
        self, instance: objects.Instance, disks: list[objects.Disk], made: list[tuple[str, objects.Disk]]
    ) -> objects.Instance:
        try:
            instance = self.cfg.AddInstance(instance, self.ec_id, disks, replace=self._reservation is not None)
        except store.MasterEnded:
            # The next master may find the instance stored: it needs its disks.
            raise
        except errors.GenericError:
            Undo(self, made, instance)
            if self._reservation is not None:
                self._reservation.Restore()
            raise
        # The instance exists: whatever happens now, its lock stays.
        self.remove_locks.pop(locking.LEVEL_INSTANCE, None)
        return instance

    def _Settle(self, feedback: Feedback, instance: objects.Instance, disks: list[objects.Disk]) -> None:
        """Wipe the disks and wait for mirrors; if that fails, remove the instance, or make it a reservation again."""
        try:
            if disks and self.snapshot.cluster.prealloc_wipe_disks and not self._adopts:
                feedback("* wiping instance disks...")
                WipeDisks(self, instance, [(disk, 0) for disk in disks])
            if self.op.wait_for_sync:
                in_sync = WaitForSync(self, instance)
            elif self._traits.mirror == disk_params.INTERNAL:
                feedback("* checking mirrors status")
                in_sync = WaitForSync(self, instance, oneshot=True)
            else:
                in_sync = True
            if not in_sync:
                raise errors.OpExecError(f"There are some degraded disks for instance {instance.name}")
        except errors.OpExecError:
            if self._reservation is not None:
                self._reservation.Restore()
                raise
            self._TakeBack(instance)
            raise

    def _Install(self, feedback: Feedback, instance: objects.Instance, disks: list[objects.Disk]) -> None:
        pause = self._traits.mirror == disk_params.INTERNAL and not self.op.wait_for_sync
        node = instance.primary_node
        if pause:
            feedback("* pausing disk sync to install instance OS")
            self._WarnOfPause(self.rpc.call_blockdev_pause_resume_sync(node, (disks, instance), True), disks)
        try:
            if self._image:
                feedback(f"* filling the first disk from {self._image}...")
                image.Fill(self, instance, disks[0], self._image)
            elif self._needs_helper:
                self._RunHelper(feedback, instance)
            else:
                self._RunScripts(feedback, instance)
        finally:
            if pause:
                feedback("* resuming disk sync")
                self._WarnOfPause(self.rpc.call_blockdev_pause_resume_sync(node, (disks, instance), False), disks)

    def _RunScripts(self, feedback: Feedback, instance: objects.Instance) -> None:
        feedback("* running the instance OS create scripts...")
        os_params = AllOsParams(self.snapshot, instance, secret=self.op.osparams_secret)
        result = self.rpc.call_instance_os_add(
            instance.primary_node, (instance, os_params), False, Filled(self.op.debug_level)
        )
        result.Raise(f"Could not add os for instance {instance.name} on node {result.node_name}")

    def _RunHelper(self, feedback: Feedback, instance: objects.Instance) -> None:
        op = self.op
        os_params = AllOsParams(self.snapshot, instance, secret=op.osparams_secret)
        helper = untrusted.Installing(
            self,
            instance,
            feedback,
            os_params,
            {"DEBUG_LEVEL": str(Filled(op.debug_level))},
            "give it more time with --helper-shutdown-timeout",
        )
        start, end = op.helper_startup_timeout, op.helper_shutdown_timeout
        try:
            helper.Run(
                untrusted.START_SECONDS if start is None else max(0.0, start),
                untrusted.END_SECONDS if end is None else max(0.0, end),
            )
        finally:
            self.helper_may_run = helper.may_run

    def _WarnOfPause(self, result: rpc.RpcResult, disks: list[objects.Disk]) -> None:
        if result.fail_msg:
            self.LogWarning(f"Could not pause or resume the sync of disks: {result.fail_msg}")
            return
        for disk, (success, message) in zip(disks, result.payload, strict=True):
            if not success:
                self.LogWarning(f"Could not pause or resume the sync of disk {disk.iv_name}: {message}")
