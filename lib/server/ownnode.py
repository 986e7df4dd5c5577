"""This node as its daemons know it: its copy of the store."""

from __future__ import annotations

from ganeti import constants, errors, hosts, pathutils, runtime, serializer
from ganeti.daemon import users
from ganeti.store.copy.node import NodeStore


def OwnStore(node_store_class: type[NodeStore] = NodeStore) -> NodeStore:
    """Return this node's copy of the store, which is also noded's gate.  It belongs to masterd's user."""
    user, group = users.DAEMON_USERS[constants.MASTERD]
    return node_store_class(pathutils.STORE_FILE, hosts.OwnName(), uid=users.UserId(user), gid=users.GroupId(group))


def HoldsCluster() -> bool:
    """Return whether this node's copy of the store holds a cluster; a start that was refused leaves an empty one."""
    if not runtime.Exists(pathutils.STORE_FILE):
        return False
    own = OwnStore()
    try:
        return own.GetState().last.seq > 0
    finally:
        own.Close()


def NamedMaster() -> str | None:
    """Whom this node's copy of the store names as master, acknowledged or not; None where it cannot tell."""
    if not runtime.Exists(pathutils.STORE_FILE):
        return None
    own = OwnStore()
    try:
        rows = {(row.kind, row.id): row.value for row in own.ReadChecked(("cluster", "node"))}
        uuid = serializer.Load(rows["cluster", "cluster"] or "")["master_node"]
        name = serializer.Load(rows["node", uuid] or "")["name"]
    except (OSError, errors.GenericError, LookupError, TypeError):
        return None
    finally:
        own.Close()
    return str(name)
