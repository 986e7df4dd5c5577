"""What can be asked and answered, with the numbers of the wire: declared here, used by daemon, clients and documents.

Numbers below 100 are those of release 3.1.  Those from 100 are ours: questions that the design of 2.1 names and 3.1 lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ganeti import objects

PROTOCOL = 1

# Types of queries.
PING = 0
NODE_ROLE = 1
NODE_IP_BY_INSTANCE_IP = 2
CLUSTER_MASTER = 3
NODE_IPS = 4
CANDIDATE_IPS = 5
INSTANCE_IPS = 6
NODE_DRBD = 7
NODE_INSTANCES = 8
INSTANCE_DISKS = 9
CONFIG = 10
DATA_COLLECTORS = 11
OFFLINE_NODES = 100
INSTANCES = 101
INSTANCE_NODE = 102

# Statuses of replies.  Our daemon never gives the last one; that of another release may.
OK = 0
ERROR = 1
NOT_IMPLEMENTED = 2

# Answers of status ERROR that are no text.
UNKNOWN_ENTRY = 0
INTERNAL = 1
ARGUMENT = 2
ERROR_WORDS = {UNKNOWN_ENTRY: "unknown entry", INTERNAL: "internal error", ARGUMENT: "wrong argument"}


def ErrorText(status: int, answer: Any) -> str:
    """Return for people what a reply of another status than OK says."""
    if status == NOT_IMPLEMENTED:
        return f"the daemon does not implement this query: {answer}"
    if status == ERROR and isinstance(answer, int) and answer in ERROR_WORDS:
        return f"{answer} ({ERROR_WORDS[answer]})"
    return str(answer)


# Roles of nodes.
ROLE_MASTER = 0
ROLE_CANDIDATE = 1
ROLE_OFFLINE = 2
ROLE_DRAINED = 3
ROLE_REGULAR = 4
ROLES: Mapping[str, int] = {
    objects.ROLE_MASTER: ROLE_MASTER,
    objects.ROLE_CANDIDATE: ROLE_CANDIDATE,
    objects.ROLE_OFFLINE: ROLE_OFFLINE,
    objects.ROLE_DRAINED: ROLE_DRAINED,
    objects.ROLE_REGULAR: ROLE_REGULAR,
}

# Keys of a dictionary that is asked with.
KEY_LINK = "0"
KEY_IP = "1"
KEY_IPS = "2"
KEY_FIELDS = "3"

# Fields of CLUSTER_MASTER, under KEY_FIELDS.
FIELD_NAME = 0
FIELD_CLUSTER_IP = 1
FIELD_MASTER_IP = 2


class QueryType(NamedTuple):
    """A type of query: its name, what is asked with and what is answered, in the words of ``doc/confd.rst``."""

    name: str
    query: str
    answer: str


QUERY_TYPES: Mapping[int, QueryType] = {
    PING: QueryType("ping", "null", "version of the configuration's format"),
    NODE_ROLE: QueryType(
        "role of a node", "node name", "its role: 0 master, 1 candidate, 2 offline, 3 drained, 4 regular"
    ),
    NODE_IP_BY_INSTANCE_IP: QueryType(
        "primary address of an instance's node",
        'object: ``"1"`` an address or ``"2"`` a list of addresses; ``"0"`` their link',
        "primary address of the node on which the instance with this address runs; for a list, [status, answer, serial] of"
        " each",
    ),
    CLUSTER_MASTER: QueryType(
        "master",
        'null; or object: ``"3"`` list of fields',
        "the master's name; or in the order of the fields: 0 its name, 1 the cluster's address, 2 the master's primary address",
    ),
    NODE_IPS: QueryType("primary addresses of nodes", "null", "primary addresses of all nodes"),
    CANDIDATE_IPS: QueryType(
        "primary addresses of master candidates", "null", "primary addresses of the master candidates"
    ),
    INSTANCE_IPS: QueryType("addresses of instances", "null or a link", "addresses of the instances on this link"),
    NODE_DRBD: QueryType(
        "DRBD minors of a node",
        "node name",
        "its DRBD minors: [node, minor, instance, ``disk/N``, ``primary`` or ``secondary``, peer node]",
    ),
    NODE_INSTANCES: QueryType(
        "instances of a node", "node name", "[its primary instances, its secondary instances], whole objects"
    ),
    INSTANCE_DISKS: QueryType("disks of an instance", "instance name or uuid", "its disks, whole objects"),
    CONFIG: QueryType(
        "part of the configuration", "path such as ``/nodes/UUID/name``", "this part of the configuration"
    ),
    DATA_COLLECTORS: QueryType("data collectors", "null", "data collectors: name to ``active`` and ``interval``"),
    OFFLINE_NODES: QueryType("offline nodes", "null", "names of the offline nodes"),
    INSTANCES: QueryType("instances", "null", "names of all instances"),
    INSTANCE_NODE: QueryType("primary node of an instance", "instance name or uuid", "name of its primary node"),
}
