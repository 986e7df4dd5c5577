"""What each query means: from a request to a reply, without any I/O (doc/reference/interfaces.md e.2).

The serial of a reply is that of the object it is about, as in 3.1; that of our own queries is the configuration's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganeti import objects
from ganeti.confd import queries
from ganeti.confd.view import CheckNumber, Public, TooMuch, View
from ganeti.confd.wire import Reply, Request
from ganeti.utils.text import NiceSort

_UNKNOWN = Reply(queries.ERROR, queries.UNKNOWN_ENTRY, 0)
_ARGUMENT = Reply(queries.ERROR, queries.ARGUMENT, 0)
_SHOWN = 80


def Failure(text: str) -> Reply:
    """Return the reply of a daemon that cannot answer."""
    return Reply(queries.ERROR, text, 0)


def Answer(view: View, request: Request) -> Reply:
    """Return the reply to a request of a known type.

    A handler's answer may hold objects of the configuration: nothing leaves without passing through ``Public``.
    """
    try:
        reply = HANDLERS[request.kind](view, request.query)
        return reply._replace(answer=Public(reply.answer))
    except TooMuch as err:
        return Failure(str(err))


def _Shown(name: str) -> str:
    return name if len(name) <= _SHOWN else name[:_SHOWN] + "..."


def _OfCluster(view: View, answer: Any) -> Reply:
    return Reply(queries.OK, answer, view.root.cluster.serial_no)


def _OfAll(view: View, answer: Any) -> Reply:
    return Reply(queries.OK, answer, view.root.serial_no)


def _OfNode(make: Callable[[View, objects.Node], Any]) -> Callable[[View, Any], Reply]:
    """Return the handler of a query that names a node."""

    def handle(view: View, query: Any) -> Reply:
        if not isinstance(query, str):
            return _ARGUMENT
        node = view.FindNode(query)
        if node is None:
            return Failure(f"Unknown node '{_Shown(query)}'")
        return Reply(queries.OK, make(view, node), node.serial_no)

    return handle


def _OfInstance(
    make: Callable[[View, objects.Instance], Any], serial: Callable[[View, objects.Instance], int]
) -> Callable[[View, Any], Reply]:
    """Return the handler of a query that names an instance."""

    def handle(view: View, query: Any) -> Reply:
        if not isinstance(query, str):
            return _ARGUMENT
        instance = view.FindInstance(query)
        if instance is None:
            return Failure(f"Unknown instance '{_Shown(query)}'")
        return Reply(queries.OK, make(view, instance), serial(view, instance))

    return handle


def _Ping(view: View, _query: Any) -> Reply:
    return Reply(queries.OK, view.root.version, 0)


def _NodeIpByInstanceIp(view: View, query: Any) -> Reply:
    if not isinstance(query, dict):
        return _ARGUMENT
    link = query.get(queries.KEY_LINK)
    link = view.default_link if link is None else link
    ips = query.get(queries.KEY_IPS)
    if not isinstance(link, str):
        return _ARGUMENT
    if isinstance(ips, list) and all(isinstance(ip, str) for ip in ips):
        return _OfCluster(view, [list(_PrimaryIp(view, link, ip)) for ip in ips])
    ip = query.get(queries.KEY_IP)
    return _PrimaryIp(view, link, ip) if isinstance(ip, str) and ips is None else _ARGUMENT


def _PrimaryIp(view: View, link: str, ip: str) -> Reply:
    uuid = view.Addresses(link).get(ip)
    if uuid is None:
        return _UNKNOWN
    instance = view.root.instances[uuid]
    node = view.root.nodes.get(instance.primary_node)
    return _UNKNOWN if node is None else Reply(queries.OK, node.primary_ip, instance.serial_no)


def _ClusterMaster(view: View, query: Any) -> Reply:
    if query is None:
        return _OfCluster(view, view.root.master_name)
    fields = query.get(queries.KEY_FIELDS) if isinstance(query, dict) else None
    if not isinstance(fields, list):
        return _ARGUMENT
    master = view.root.master
    values = {
        queries.FIELD_NAME: view.root.master_name,
        queries.FIELD_CLUSTER_IP: view.root.cluster.master_ip,
        queries.FIELD_MASTER_IP: None if master is None else master.primary_ip,
    }
    # Clients of 2.6 send the numbers as texts.
    values |= {str(number): value for number, value in values.items()}  # type: ignore[misc]
    known = [field for field in fields if isinstance(field, (int, str)) and field in values]
    return _OfCluster(view, [values[field] for field in known])


def _NodeIps(view: View, _query: Any) -> Reply:
    return _OfCluster(view, [node.primary_ip for node in view.root.nodes.values()])


def _CandidateIps(view: View, _query: Any) -> Reply:
    return _OfCluster(view, [node.primary_ip for node in view.root.nodes.values() if node.master_candidate])


def _InstanceIps(view: View, query: Any) -> Reply:
    if query is not None and not isinstance(query, str):
        return _ARGUMENT
    return _OfCluster(view, list(view.Addresses(view.default_link if query is None else query)))


def _NodeInstances(view: View, node: objects.Node) -> list[Any]:
    uuids = view.root.NodeInstances(node.uuid)
    CheckNumber(sum(map(len, uuids)))
    return [[view.root.instances[uuid] for uuid in part] for part in uuids]


def _InstanceDisks(view: View, instance: objects.Instance) -> list[Any]:
    return list(view.root.InstanceDisks(instance))


def _Config(view: View, query: Any) -> Reply:
    if not isinstance(query, str):
        return _ARGUMENT
    try:
        return _OfCluster(view, view.Lookup(query))
    except KeyError:
        return _ARGUMENT


def _DataCollectors(view: View, _query: Any) -> Reply:
    return _OfCluster(view, view.root.cluster.data_collectors)


def _OfflineNodes(view: View, _query: Any) -> Reply:
    return _OfAll(view, NiceSort([node.name for node in view.root.nodes.values() if node.offline]))


def _Instances(view: View, _query: Any) -> Reply:
    return _OfAll(view, NiceSort([one.name for one in view.root.instances.values() if one.name is not None]))


_NODE_OF = _OfInstance(
    lambda view, instance: view.root.NodeName(instance.primary_node), lambda view, instance: view.root.serial_no
)


def _InstanceNode(view: View, query: Any) -> Reply:
    reply = _NODE_OF(view, query)
    # A reservation may have no node yet.
    return _UNKNOWN if reply.answer is None else reply


HANDLERS: Mapping[int, Callable[[View, Any], Reply]] = {
    queries.PING: _Ping,
    queries.NODE_ROLE: _OfNode(View.Role),
    queries.NODE_IP_BY_INSTANCE_IP: _NodeIpByInstanceIp,
    queries.CLUSTER_MASTER: _ClusterMaster,
    queries.NODE_IPS: _NodeIps,
    queries.CANDIDATE_IPS: _CandidateIps,
    queries.INSTANCE_IPS: _InstanceIps,
    queries.NODE_DRBD: _OfNode(lambda view, node: list(view.Minors(node))),
    queries.NODE_INSTANCES: _OfNode(_NodeInstances),
    queries.INSTANCE_DISKS: _OfInstance(_InstanceDisks, lambda view, instance: instance.serial_no),
    queries.CONFIG: _Config,
    queries.DATA_COLLECTORS: _DataCollectors,
    queries.OFFLINE_NODES: _OfflineNodes,
    queries.INSTANCES: _Instances,
    queries.INSTANCE_NODE: _InstanceNode,
}
