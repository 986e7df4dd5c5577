"""What the programs that set a machine up as a node read on standard input: names and shapes, for who sends and who reads.

::

    bootstrap.join (master) --SSH, or an administrator--> prepare-node-join, node-daemon-setup

Names and shapes are those of 3.1 (doc/reference/files.md 12), but for the values of ssconf that prepare-node-join gets.
"""

from __future__ import annotations

from collections.abc import Iterable

from ganeti import ht, ssh
from ganeti.renewal import SECRETS, Secret

CLUSTER_NAME = "cluster_name"
CERTIFICATE = "node_daemon_certificate"
NODE_NAME = "node_name"
SSCONF = "ssconf"

# Of prepare-node-join.
HOST_KEYS = "ssh_host_key"
ROOT_KEYS = "ssh_root_key"
AUTHORIZED = "authorized_keys"
KEY_TYPE, KEY_BITS = "ssh_key_type", "ssh_key_bits"

# Of node-daemon-setup.
START = "start_node_daemon"

_KEY_LIST = ht.TListOf(ht.TItems(ht.TNonEmptyString, ht.TNonEmptyString, ht.TNonEmptyString))
_SSCONF_VALUES = ht.TDictOf(ht.TNonEmptyString, ht.TString)

PREPARE_NODE_JOIN = ht.TStrictDict(
    {},
    {
        CLUSTER_NAME: ht.TNonEmptyString,
        CERTIFICATE: ht.TNonEmptyString,
        NODE_NAME: ht.TNonEmptyString,
        SSCONF: _SSCONF_VALUES,
        HOST_KEYS: _KEY_LIST,
        ROOT_KEYS: _KEY_LIST,
        AUTHORIZED: ht.TDictOf(ht.TNonEmptyString, ht.TListOf(ht.TString)),
        KEY_TYPE: ht.TElemOf(list(ssh.KEY_KINDS)),
        KEY_BITS: ht.TPositiveInt,
    },
)
"""Host and root keys are ``[kind, private, public]``; authorized keys are lines by the UUID of their node."""


def SetupShape(secrets: Iterable[Secret]) -> ht.Type:
    """Return the shape of what node-daemon-setup reads; a master of a release before may not have every secret."""
    joining = [(secret.join, secret.original) for secret in secrets if secret.join is not None]
    return ht.TStrictDict(
        {
            CLUSTER_NAME: ht.TNonEmptyString,
            **{name: ht.TNonEmptyString for name, original in joining if original},
            SSCONF: _SSCONF_VALUES,
            NODE_NAME: ht.TNonEmptyString,
        },
        {START: ht.TBool, **{name: ht.TNonEmptyString for name, original in joining if not original}},
        # Keys that only a later release sends are no reason to stop.
        others=ht.TAny,
    )


NODE_DAEMON_SETUP = SetupShape(SECRETS.values())
