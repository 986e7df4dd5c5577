"""This node as its daemons know it: its copy of the store."""

from __future__ import annotations

from ganeti import constants, hosts, pathutils
from ganeti.daemon import users
from ganeti.store.node import NodeStore


def OwnStore(node_store_class: type[NodeStore] = NodeStore) -> NodeStore:
    """This node's copy of the store, which is noded's gate, too.  It belongs to masterd's user."""
    user, group = users.DAEMON_USERS[constants.MASTERD]
    return node_store_class(pathutils.STORE_FILE, hosts.OwnName(), uid=users.UserId(user), gid=users.GroupId(group))
