"""The unit that shows what an allocator is asked and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, opcodes
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT, requests
from ganeti.cmdlib.allocation.ask import ShowAnswer, ShowQuestion
from ganeti.cmdlib.base import Filled, NoHooksLU
from ganeti.cmdlib.common import ExpandGroup, ExpandInstance, Invalid
from ganeti.params import disk as disk_params

_NEW = ("allocate", "multi-allocate", "capacity")
_NEEDED = ("memory", "disks", "disk_template", "nics", "vcpus")
_ACCESS = (constants.DISK_RDWR, constants.DISK_RDONLY, "r", "w")


class LUTestAllocator(NoHooksLU[opcodes.OpTestAllocator]):
    """Return the question (direction "in") or the unchecked answer ("out"); nothing is changed."""

    CHANGES_NODES = False

    def CheckArguments(self) -> None:
        op = self.op
        if op.direction == "out":
            if op.iallocator == DEFAULT_SHORTCUT:
                op.iallocator = self.snapshot.cluster.default_iallocator or None
            if not op.iallocator:
                raise Invalid(
                    "Missing allocator name", hint="name one with -I, or set a default with gnt-cluster modify"
                )
        if op.mode in _NEW:
            self._CheckNew()
        if op.mode in ("node-evacuate", "change-group") and not op.instances:
            raise Invalid("Missing instances")

    def _CheckNew(self) -> None:
        for name in _NEEDED:
            if getattr(self.op, name) is None:
                hint = f"the command has the option --{name.replace('_', '-')} for it"
                raise Invalid(f"Missing attribute '{name}' on opcode input", hint=hint)
        for disk in Filled(self.op.disks):
            if (
                not isinstance(disk, Mapping)
                or not isinstance(disk.get("size"), int)
                or disk.get("mode", constants.DISK_RDWR) not in _ACCESS
            ):
                raise Invalid(f"Invalid contents of the 'disks' parameter: {disk!r}")

    def CheckPrereq(self) -> None:
        makers = {
            "relocate": self._Relocate,
            "allocate-secondary": lambda: requests.AllocateSecondary(self._Name()),
            "multi-allocate": self._MultiAllocate,
            "allocate": lambda: self._Allocate(self.op.name),
            "capacity": lambda: requests.Capacity(self._Allocate(self.op.name), self.op.count),
            "balance": lambda: requests.Balance(self.op.count),
            "node-evacuate": lambda: requests.NodeEvacuate(self._Names(), self.op.evac_mode or requests.ALL),
            "change-group": self._ChangeGroup,
        }
        self._request: requests.Request = makers[self.op.mode]()

    def Exec(self, feedback: Any) -> str:
        if self.op.direction == "in":
            return ShowQuestion(self, self._request)
        return ShowAnswer(self, Filled(self.op.iallocator), self._request)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _Name(self) -> str:
        return ExpandInstance(self.snapshot, self.op.name).name

    def _Names(self) -> tuple[str, ...]:
        return tuple(ExpandInstance(self.snapshot, name).name for name in Filled(self.op.instances))

    def _Allocate(self, name: str) -> requests.Allocate:
        op, snapshot = self.op, self.snapshot
        if snapshot.InstanceByName(name) is not None:
            raise errors.OpPrereqError(f"Instance '{name}' already in the cluster", errors.ECODE_EXISTS)
        return requests.Allocate(
            name=name,
            disk_template=Filled(op.disk_template),
            tags=tuple(op.tags),
            os=op.os,
            vcpus=Filled(op.vcpus),
            memory=Filled(op.memory),
            spindle_use=op.spindle_use,
            disks=tuple({"mode": constants.DISK_RDWR, **disk} for disk in Filled(op.disks)),
            nics=tuple(Filled(op.nics)),
            hypervisor=op.hypervisor or snapshot.cluster.enabled_hypervisors[0],
            group_uuid=None if op.group_name is None else ExpandGroup(snapshot, op.group_name).uuid,
        )

    def _MultiAllocate(self) -> requests.Request:
        return requests.MultiAllocate(tuple(self._Allocate(f"{self.op.name}{n}") for n in range(self.op.count)))

    def _Relocate(self) -> requests.Request:
        """Take an instance off its secondary, or off its primary where every node reaches its disks."""
        snapshot = self.snapshot
        instance = ExpandInstance(snapshot, self.op.name)
        template = snapshot.DiskTemplate(instance)
        if template not in disk_params.Mirrored():
            raise Invalid("Can't relocate non-mirrored instances")
        nodes = snapshot.SecondaryNodes(instance)
        if template in disk_params.With(mirror=disk_params.INTERNAL):
            if len(nodes) != 1:
                raise errors.OpPrereqError(
                    f"Instance {instance.name} does not have exactly one secondary node", errors.ECODE_STATE
                )
        else:
            nodes = (instance.primary_node,)
        return requests.Relocate(instance.name, tuple(map(snapshot.NodeName, nodes)))

    def _ChangeGroup(self) -> requests.Request:
        groups = [ExpandGroup(self.snapshot, name).uuid for name in self.op.target_groups or ()]
        return requests.ChangeGroup(self._Names(), tuple(groups))
