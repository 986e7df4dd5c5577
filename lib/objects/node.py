"""Nodes and node groups (doc/reference/config.md 6 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, ht
from ganeti.objects.base import (
    DEFAULTED,
    NON_DEFAULT,
    RUNTIME,
    ConfigObject,
    Field,
    SerialField,
    TagsField,
    TimeField,
    UuidField,
)

_SETS = ht.TDictOf(ht.TString, ht.TDict)


NODE_ROLES = ROLE_MASTER, ROLE_CANDIDATE, ROLE_REGULAR, ROLE_DRAINED, ROLE_OFFLINE = (
    "master",
    "candidate",
    "regular",
    "drained",
    "offline",
)


class Node(ConfigObject):
    """A machine of the cluster.  At most one of master_candidate, drained and offline is true."""

    KIND = "node"

    name: str = Field(ht.TNonEmptyString, doc="fully qualified name")
    primary_ip: str = Field(ht.TString, doc="address for RPC and SSH")
    secondary_ip: str = Field(ht.TString, doc="address for replication, the primary one when single-homed")
    master_candidate: bool = Field(ht.TBool, default=False)
    offline: bool = Field(ht.TBool, default=False, doc="nothing is sent to it")
    drained: bool = Field(ht.TBool, default=False, doc="gets no new instances")
    group: str = Field(ht.TString, since="2.3", doc="uuid of its node group: this decides on membership")
    master_capable: bool = Field(ht.TBool, default=True, since="2.3", doc="may become master candidate")
    vm_capable: bool = Field(ht.TBool, default=True, since="2.3", doc="may run instances")
    ndparams: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.4", doc="own node parameters, no global ones")
    powered: bool = Field(ht.TBool, default=True, since="2.4", doc="last power state seen out of band")
    hv_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=NON_DEFAULT, since="2.6")
    disk_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=NON_DEFAULT, since="2.6")
    hv_state: Mapping[str, Any] | None = Field(ht.TDict, default=None, written=RUNTIME, since="2.6")
    disk_state: Mapping[str, Any] | None = Field(ht.TDict, default=None, written=RUNTIME, since="2.6")
    uuid: str = UuidField()
    tags: tuple[str, ...] = TagsField()
    ctime: float = TimeField("when it joined")
    mtime: float = TimeField("last change")
    serial_no: int = SerialField()

    def Role(self, master_uuid: str) -> str:
        """Return one of NODE_ROLES; ``master_uuid``: the cluster's master node."""
        if self.uuid == master_uuid:
            return ROLE_MASTER
        if self.master_candidate:
            return ROLE_CANDIDATE
        if self.drained:
            return ROLE_DRAINED
        return ROLE_OFFLINE if self.offline else ROLE_REGULAR

    @property
    def is_eligible(self) -> bool:
        """Return whether it could be a master candidate (doc/reference/drivers.md d.7)."""
        return self.master_capable and not self.offline and not self.drained


class NodeGroup(ConfigObject):
    """Nodes with common defaults and policy."""

    KIND = "nodegroup"

    name: str = Field(ht.TNonEmptyString, since="2.3", doc="unique, must not look like a uuid")
    members: tuple[str, ...] = Field(
        ht.TListOf(ht.TString), default=(), written=DEFAULTED, since="2.3", doc="kept empty: node.group decides"
    )
    ndparams: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.4", doc="own node parameters")
    alloc_policy: str = Field(
        ht.TElemOf(constants.VALID_ALLOC_POLICIES), default=constants.ALLOC_POLICY_PREFERRED, since="2.4"
    )
    ipolicy: Mapping[str, Any] = Field(ht.TDict, default={}, since="2.6", doc="own policy keys, never std")
    diskparams: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, since="2.6", doc="own values per template")
    networks: Mapping[str, Mapping[str, Any]] = Field(
        _SETS, default={}, since="2.7", doc="network uuid to complete NIC parameters"
    )
    hv_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=NON_DEFAULT, since="2.6")
    disk_state_static: Mapping[str, Mapping[str, Any]] = Field(_SETS, default={}, written=NON_DEFAULT, since="2.6")
    uuid: str = UuidField()
    tags: tuple[str, ...] = TagsField()
    ctime: float = TimeField("when it was made")
    mtime: float = TimeField("last change")
    serial_no: int = SerialField()
