"""ConfigWriter: everything together, the general Update, tags, cluster settings, networks and filter rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ganeti import constants, errors, network, objects
from ganeti.config.base import CheckSerial
from ganeti.config.draft import Draft, IsVoter
from ganeti.config.instances import Instances
from ganeti.config.nodes import CandidateStats, DropCert, Nodes, VotersOf
from ganeti.opcodes import CHANGED_SINCE

__all__ = ["CandidateStats", "ConfigWriter", "VotersOf"]

T = TypeVar("T", bound=objects.ConfigObject)

_TAG = re.compile(r"[\w.+*/:@-]+", re.ASCII)
# Objects whose change is one of the cluster too (config.md 13).
_BUMPS_CLUSTER = frozenset(["node"])


class MasterNetworkParameters(NamedTuple):
    """The parameters of the cluster's address for the node that takes it (doc/reference/noderpc.md 3.1)."""

    uuid: str
    ip: str
    netmask: int
    netdev: str
    ip_family: int


def CheckTags(tags: Iterable[str]) -> None:
    """Raise TagError for a text that cannot be a tag."""
    for tag in tags:
        if not isinstance(tag, str) or not tag:
            raise errors.TagError("Tags cannot be empty")
        if len(tag) > constants.MAX_TAG_LEN:
            raise errors.TagError(f"Tag '{tag[:60]}...' is too long: at most {constants.MAX_TAG_LEN} characters")
        if not _TAG.fullmatch(tag):
            raise errors.TagError(f"Tag '{tag}' contains characters other than letters, digits and . + * / : @ _ -")


class ConfigWriter(Nodes, Instances):
    """The configuration of the acting master; safe to use from any thread.

    Every method that changes something is for jobs.  It returns the stored object once the store has acknowledged the
    change, and waits as long as that takes: without a quorum, and while the master's disk is full, a job stands still at
    its next change instead of failing half-way (doc/design-store.rst, 7).  A job that is killed or cancelled meanwhile
    ends when its change is acknowledged, at its next call.  If this master ends first, the method raises
    store.MasterEnded (MasterLost for a newer master, StoreEnded for a stop): whether the change is stored is not known,
    and every later change and every call that changes a node raises the same, so the job cannot act again; it stays
    "running" for the next master to judge.  Errors of the change itself leave everything as it was.

    Requests that are not jobs must be answered.  They use TransactAsync, or TakeOffline to end a standstill, and get
    NoQuorum, NotKnown or DiskRefused.
    """

    # --- any object ---------------------------------------------------------------------------------------------------

    def Update(self, target: T, ec_id: Any = None) -> T:
        """Store a changed object: ``cfg.Update(instance.Replace(...), ec_id)``.

        Raise ConfigurationError when its serial number is not the stored one (another job changed it).  An
        object that equals the stored one changes nothing.  With an instance, what ``ec_id`` noted of addresses is done.
        """

        def change(draft: Draft) -> T:
            if isinstance(target, objects.Node):
                DropCert(draft, target)
            return self._UpdateIn(draft, target, ec_id)

        if isinstance(target, objects.Node):
            return self._TransactNode(target, IsVoter(target), change)
        return self.Transact(change)

    def UpdateMany(self, targets: Iterable[objects.ConfigObject], ec_id: Any = None) -> list[Any]:
        """Store several objects in one step: all or none.  Nodes must not begin or cease to be voters."""
        wanted = list(targets)

        def change(draft: Draft) -> list[Any]:
            for target in wanted:
                if isinstance(target, objects.Node):
                    stored = draft.Get("node", target.uuid)
                    if IsVoter(stored) != IsVoter(target):
                        raise errors.ProgrammerError(f"{target.label}: who votes is changed by Update alone")
            return [self._UpdateIn(draft, target, ec_id) for target in wanted]

        return self.Transact(change)

    def _UpdateIn(self, draft: Draft, target: T, ec_id: Any) -> T:
        stored: T = draft.Get(target.KIND, target.__dict__["uuid"])
        if "serial_no" in target.FIELDS:
            CheckSerial(target, stored)
        if isinstance(target, objects.Instance):
            self._CommitIps(draft, ec_id)
        wanted = _WithKept(draft, target, stored)
        if wanted.SameContent(stored):
            return stored
        if isinstance(target, objects.Disk):
            uuid = target.uuid
            draft.OnPublish(lambda: self.ReleaseDRBDMinors(uuid))
        if target.KIND in _BUMPS_CLUSTER:
            draft.BumpCluster()
        if "serial_no" not in target.FIELDS:
            draft.Put(wanted)
            return wanted
        return draft.Touch(wanted)

    # --- tags ---------------------------------------------------------------------------------------------------------

    def AddTags(self, kind: str, uuid: str, tags: Iterable[str]) -> objects.ConfigObject:
        """Add tags to an object; those it has already do not matter."""
        new = set(tags)
        CheckTags(new)

        def change(draft: Draft) -> objects.ConfigObject:
            obj = draft.Get(kind, uuid)
            merged = sorted({*obj.tags, *new})
            if len(merged) > constants.MAX_TAGS_PER_OBJ:
                raise errors.TagError(
                    f"{obj.label} would have {len(merged)} tags, at most {constants.MAX_TAGS_PER_OBJ}"
                )
            return self._UpdateIn(draft, obj if new <= set(obj.tags) else obj.Replace(tags=merged), None)

        return self.Transact(change)

    def RemoveTags(self, kind: str, uuid: str, tags: Iterable[str]) -> objects.ConfigObject:
        """Take tags from an object; OpPrereqError if it does not have one of them."""
        gone = set(tags)

        def change(draft: Draft) -> objects.ConfigObject:
            obj = draft.Get(kind, uuid)
            missing = sorted(gone - set(obj.tags))
            if missing:
                raise errors.OpPrereqError(f"Tag(s) {', '.join(missing)} not found on {obj.label}", errors.ECODE_NOENT)
            return self._UpdateIn(draft, obj.Replace(tags=[tag for tag in obj.tags if tag not in gone]), None)

        return self.Transact(change)

    # --- cluster ------------------------------------------------------------------------------------------------------

    def GetMasterNetworkParameters(self) -> MasterNetworkParameters:
        cluster = self.Snapshot().cluster
        return MasterNetworkParameters(
            cluster.master_node,
            cluster.master_ip,
            cluster.master_netmask,
            cluster.master_netdev,
            cluster.primary_ip_family,
        )

    # --- tokens of the remote interface -------------------------------------------------------------------------------

    def AddRapiToken(self, name: str, token: Mapping[str, Any]) -> None:
        """Store a token; OpPrereqError if its name is in use."""

        def change(draft: Draft) -> None:
            cluster = draft.root.cluster
            if name in cluster.rapi_tokens:
                raise errors.OpPrereqError(
                    f"A token with the name {name} exists",
                    errors.ECODE_EXISTS,
                    hint=f"choose another name, or revoke that one: gnt-cluster rapi-token remove {name}",
                )
            if len(cluster.rapi_tokens) >= constants.MAX_RAPI_TOKENS:
                raise errors.OpPrereqError(
                    f"There are {len(cluster.rapi_tokens)} tokens, at most {constants.MAX_RAPI_TOKENS} can be stored",
                    errors.ECODE_NORES,
                    hint="remove those that have expired; list them with: gnt-cluster rapi-token list",
                )
            draft.Touch(cluster.Replace(rapi_tokens={**cluster.rapi_tokens, name: dict(token)}))

        self.Transact(change)

    def RemoveRapiToken(self, name: str) -> None:
        """Forget a token; OpPrereqError if there is none of this name."""

        def change(draft: Draft) -> None:
            cluster = draft.root.cluster
            if name not in cluster.rapi_tokens:
                raise errors.OpPrereqError(
                    f"Token {name} does not exist",
                    errors.ECODE_NOENT,
                    hint="list the tokens with: gnt-cluster rapi-token list",
                )
            left = {other: token for other, token in cluster.rapi_tokens.items() if other != name}
            draft.Touch(cluster.Replace(rapi_tokens=left))

        self.Transact(change)

    # --- networks -----------------------------------------------------------------------------------------------------

    def AddNetwork(self, net: objects.Network) -> objects.Network:
        """Add a network; its pool is made if it has none yet."""
        pool = network.AddressPool.Initialize(net) if net.ext_reservations is None else network.AddressPool(net)

        def change(draft: Draft) -> objects.Network:
            pool.Validate()
            draft.BumpCluster()
            return draft.Add(pool.Network())

        return self.Transact(change)

    def RemoveNetwork(self, net_uuid: str) -> None:
        """Remove a network that no group is connected to."""

        def change(draft: Draft) -> None:
            draft.Remove("network", net_uuid)
            draft.BumpCluster()

        self.Transact(change)

    def GetGroupNetParams(self, net_uuid: str, node_uuid: str) -> dict[str, Any] | None:
        """Return how a node's group is connected to a network; None if it is not."""
        root = self.Snapshot()
        found = root.nodegroups[root.nodes[node_uuid].group].networks.get(net_uuid)
        return None if found is None else dict(found)

    def CheckIPInNodeGroup(self, address: str, node_uuid: str) -> objects.Network | None:
        """Return the network connected to a node's group in which an address lies, if any."""
        root = self.Snapshot()
        for net_uuid in root.nodegroups[root.nodes[node_uuid].group].networks:
            net = root.networks.get(net_uuid)
            if net is not None and network.AddressPool(net).Contains(address):
                return net
        return None

    # --- filter rules -------------------------------------------------------------------------------------------------

    def SetFilter(
        self,
        rule: objects.FilterRule,
        done: Callable[[Exception | None], None],
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a rule, or replace the one with its uuid; no job does this, so it works as TransactAsync.

        ``expected``: the rule must exist and have these values; OpPrereqError (``wrong_state``) otherwise.
        """

        def change(draft: Draft) -> None:
            _CheckRule(draft, rule.uuid, expected)
            if rule.uuid not in draft.root.filters and draft.root.IsUuidUsed(rule.uuid):
                raise errors.OpPrereqError(f"{rule.uuid} is the UUID of another object", errors.ECODE_NOTUNIQUE)
            draft.Put(rule)

        self.TransactAsync(change, done)

    def RemoveFilter(
        self, uuid: str, done: Callable[[Exception | None], None], expected: Mapping[str, Any] | None = None
    ) -> None:
        """Remove a rule; OpPrereqError if it does not exist, or not with the values ``expected``."""

        def change(draft: Draft) -> None:
            _CheckRule(draft, uuid, expected)
            if uuid not in draft.root.filters:
                raise errors.OpPrereqError(f"Filter rule '{uuid[:80]}' does not exist", errors.ECODE_NOENT)
            draft.Remove("filter", uuid)

        self.TransactAsync(change, done)


def _CheckRule(draft: Draft, uuid: str, expected: Mapping[str, Any] | None) -> None:
    """Raise OpPrereqError unless a filter rule has all values that somebody saw; None: whatever it has."""
    if expected is None:
        return
    stored = draft.root.filters.get(uuid)
    if stored is None:
        raise errors.OpPrereqError(f"Filter rule '{uuid}' no longer exists", errors.ECODE_STATE)
    try:
        same = objects.FilterRule.FromDict({**stored.ToDict(), **expected}) == stored
    except errors.ConfigurationError:
        same = False
    if not same:
        raise errors.OpPrereqError(
            f"Filter rule '{uuid}' {CHANGED_SINCE}; look at it again and repeat the request", errors.ECODE_STATE
        )


def _WithKept(draft: Draft, target: T, stored: T) -> T:
    """Return ``target`` with the stored values of what only the configuration itself changes."""
    if isinstance(target, objects.Cluster) and isinstance(stored, objects.Cluster):
        return target.Replace(highest_used_port=stored.highest_used_port, tcpudp_port_pool=stored.tcpudp_port_pool)
    if isinstance(target, objects.Network) and isinstance(stored, objects.Network):
        merged = target.Replace(reservations=stored.reservations)
        if merged.ext_reservations is None or merged.reservations is None:
            return merged
        pool = network.AddressPool(merged)
        for address in pool.ReleasedSince(network.AddressPool(stored)):
            # An instance may have got it in spite of the reservation; then it is not free now.
            if draft.root.Users("NIC address", (stored.uuid, address)):
                pool.Reserve(address)
        pool.Validate()
        return merged.Replace(reservations=pool.Network().reservations)
    if isinstance(target, objects.NodeGroup):
        return target.Replace(members=())
    return target
