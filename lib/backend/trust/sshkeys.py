"""Procedures that keep the nodes' SSH keys right: which root may log in where (3.1's ``node_ssh_*``).

They run on the master, which reaches the others by SSH with the helper ssh-update on the other end::

    candidates' keys            in authorized_keys of every node
    all possible candidates'    in ganeti_pub_keys of every possible candidate

Each answers [[node, error]] of the nodes that could not be changed; one that fails stops no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ganeti import errors, pathutils, runtime, serializer, ssconf, ssh, x509
from ganeti.backend.trust.sshcheck import Reason, SshPort

_TIMEOUT = 120
# Seconds for files of a new configuration to follow it, and between two looks.
_FILES_WITHIN, _STEP = 10.0, 0.1
_PEM_LIMIT = 1024 * 1024

_RENEW = "'gnt-cluster renew-crypto --new-ssh-keys'"

Failures = list[list[str]]


# Reaching the others


def _IsOnline(store: ssconf.SimpleStore, name: str) -> bool:
    """Return whether the files say that the node is online, and by which port it is reached."""
    return name in store.GetOnlineNodeList() and name in store.GetSshPortMap()


class Others:
    """The other nodes that are online, and the failures with them.

    ``expected``: names of nodes that are online in the configuration; the files that say so may follow in a moment.  One that
    they do not list in time is a failure.
    """

    def __init__(self, expected: Collection[str] = ()) -> None:
        store = ssconf.SimpleStore()
        deadline = runtime.Monotonic() + _FILES_WITHIN
        while not all(_IsOnline(store, name) for name in expected) and runtime.Monotonic() < deadline:
            runtime.Sleep(_STEP)
            store = ssconf.SimpleStore()
        self.cluster_name = store.GetClusterName()
        self.own_name = store.GetMasterNode()
        self.names = [name for name in store.GetOnlineNodeList() if name != self.own_name]
        self._certificate = x509.CertificateOnly(runtime.ReadFile(pathutils.NODED_CERT_FILE, _PEM_LIMIT))
        self.failures: Failures = [
            [name, "the ssconf files of the master do not list it as online yet"]
            for name in expected
            if not _IsOnline(store, name)
        ]

    def Update(self, names: Iterable[str], **changes: Any) -> None:
        """Run ssh-update on nodes; those that fail are remembered."""
        for name in names:
            try:
                self.Change(name, **changes)
            except errors.SshUpdateError as err:
                logging.error("%s", err)
                self.failures.append([name, str(err)])

    def Change(self, name: str, then: str = "", **changes: Any) -> str:
        """Run ssh-update on one node, and ``then`` a command whose output is returned; SshUpdateError.

        Keys without value are left out.
        """
        wanted = {key: value for key, value in changes.items() if value}
        if not wanted:
            return ""
        data = {"cluster_name": self.cluster_name, "node_daemon_certificate": self._certificate, **wanted}
        return self.Run(name, pathutils.SSH_UPDATE + (then and f" && {then}"), serializer.Dump(data))

    def Run(self, name: str, command: str, stdin: str = "") -> str:
        argv = ssh.BuildCommand(name, command, self.cluster_name, SshPort(name))
        result = runtime.RunCmd(argv, stdin=stdin, timeout=_TIMEOUT)
        if result.failed:
            raise errors.SshUpdateError(f"SSH keys of node {name} could not be changed: {Reason(result)}")
        return result.stdout

    def TryKey(self, name: str, path: str) -> None:
        """Log in to a node with this private key and no other; SshUpdateError."""
        argv = ssh.BuildCommand(name, "true", self.cluster_name, SshPort(name), key_file=path)
        result = runtime.RunCmd(argv, timeout=_TIMEOUT)
        if result.failed:
            raise errors.SshUpdateError(
                f"Node {name} does not let the new key {path} of this node in: {Reason(result)}; where the SSH daemon there"
                " does not accept keys of this type and length (PubkeyAcceptedAlgorithms, RequiredRSASize), allow them"
                " or choose others with --ssh-key-type and --ssh-key-bits"
            )


def _TakeKeys(known: dict[str, list[str]], uuid: str, name: str) -> list[str]:
    """Return a node's keys; those filed under its name while it joined are now filed under its uuid."""
    if name in known and name != uuid:
        known[uuid] = known.pop(name)
    return known.get(uuid, [])


# Adding and removing


def AddNodeKeys(
    node_uuid: str,
    node_name: str,
    potential_master_candidates: Sequence[str],
    to_authorized_keys: bool,
    to_public_keys: bool,
    get_public_keys: bool,
) -> Failures:
    """Distribute a node's keys to the nodes; ``get_public_keys``: and all others' keys to that node.

    Those of a node that cannot become a candidate are on nobody's list.
    """
    others = Others([node_name])
    listed = to_public_keys or node_name in potential_master_candidates
    keys: list[str] = []

    def change(known: dict[str, list[str]]) -> ssh.KeysByNode:
        keys[:] = _TakeKeys(known, node_uuid, node_name)
        return known if listed else {uuid: lines for uuid, lines in known.items() if uuid != node_uuid}

    known = ssh.ChangeNodeKeys(change)
    if not keys:
        raise errors.RpcCallError(
            f"No SSH key of node {node_name} ({node_uuid}) is known in {pathutils.SSH_PUB_KEYS_FILE}; add"
            " it as a line 'UUID KEY'"
        )
    own = {node_uuid: keys}
    if to_authorized_keys:
        ssh.AuthorizeKeys(keys)
    for name in others.names:
        if name != node_name:
            tell = to_public_keys and name in potential_master_candidates
            others.Update(
                [name],
                authorized_keys=["add", own] if to_authorized_keys else None,
                public_keys=["replace_or_add", own] if tell else None,
            )
    if get_public_keys and node_name in others.names:
        others.Update([node_name], public_keys=["override", known])
    return others.failures


def RemoveNodeKeys(
    node_uuid: str,
    node_name: str,
    master_candidate_uuids: Sequence[str],
    potential_master_candidates: Sequence[str],
    from_authorized_keys: bool,
    from_public_keys: bool,
    clear_authorized_keys: bool,
    clear_public_keys: bool,
    readd: bool,
) -> Failures:
    """Remove a node's keys from the nodes; ``clear_*``: and the others' from that node.

    ``readd``: the node is about to come back with other keys; it does not matter if none are known now.
    """
    others = Others()
    keys: list[str] = []
    candidates: dict[str, list[str]] = {}

    def change(known: dict[str, list[str]]) -> ssh.KeysByNode:
        # One that comes back has put its new keys under its name already.
        recorded = known.get(node_uuid, []) if readd else _TakeKeys(known, node_uuid, node_name)
        keys[:] = _OnlyItsOwn(others, known, recorded, node_uuid, node_name)
        if not recorded and not readd and (from_authorized_keys or from_public_keys):
            others.failures.append([node_name, f"no SSH key of node {node_name} is known, so none was removed"])
        candidates.update({uuid: known[uuid] for uuid in master_candidate_uuids if uuid in known and uuid != node_uuid})
        if from_public_keys or clear_public_keys:
            known.pop(node_uuid, None)
        return known

    ssh.ChangeNodeKeys(change)
    own = {node_uuid: keys}
    if from_authorized_keys and keys:
        try:
            ssh.ForbidKeys(keys)
        except errors.SshUpdateError as err:
            others.failures.append([pathutils.HostName(), str(err)])
    for name in others.names:
        if name != node_name:
            tell = from_public_keys and name in potential_master_candidates
            others.Update(
                [name],
                authorized_keys=["remove", own] if from_authorized_keys and keys else None,
                public_keys=["remove", {node_uuid: []}] if tell else None,
            )
    if node_name in others.names and not readd:
        others.Update(
            [node_name],
            authorized_keys=["remove", candidates] if clear_authorized_keys and candidates else None,
            public_keys=["clear", {}] if clear_public_keys else None,
        )
    return others.failures


def _OnlyItsOwn(
    others: Others, known: ssh.KeysByNode, keys: Sequence[str], node_uuid: str, node_name: str
) -> list[str]:
    """Return the keys that nobody else has: a node that has filed another's key as its own must not lock that one out."""
    own = []
    for key in keys:
        problem = ssh.ClaimProblem(key, known, (node_uuid, node_name))
        if problem is None:
            own.append(key)
        else:
            others.failures.append(
                [node_name, f"a key on record as that of node {node_name} stays accepted: {problem}"]
            )
    return own


# Looking (node_verify)


def VerifySetup(nodes: Sequence[Sequence[Any]], key_type: str, own_name: str) -> list[str]:
    """Return what is wrong with this node's keys; ``nodes``: [[uuid, name, candidate, possible candidate, online]]."""
    own = next((row for row in nodes if row[1] == own_name), None)
    if own is None:
        return [f"This node ({own_name}) is missing in the list of nodes to check SSH keys of"]
    path = pathutils.SSH_PUB_KEYS_FILE
    if not own[3]:
        told = f"{path} should not exist on a node that cannot become a candidate; delete it there"
        return [told] if runtime.Exists(path) else []
    if not runtime.Exists(path):
        return [f"The public key file {path} does not exist; {_WayOut(own_name)}"]
    try:
        known = ssh.ReadNodeKeys()
    except errors.SshUpdateError as err:
        return [str(err)]
    problems = _MissingNodes(nodes, known)
    several = [row[1] for row in nodes if len(known.get(row[0], ())) > 1]
    if several:
        problems.append(f"{path} has several keys of {', '.join(several)}; {_RENEW} leaves the new ones")
    recorded = known.get(own[0], [])
    # A renewal may have been interrupted: then every key is where it should be, or on its way.
    changes = any(_IsInUse(kind, recorded) for kind in ssh.KEY_KINDS if kind != key_type)
    advice = f"{_RENEW} completes the renewal of SSH keys" if several or changes else _WayOut(own_name)
    public = ssh.UserKeyFiles(key_type)[1]
    line = ssh.ReadUserKey(key_type)
    if not line:
        problems.append(f"There is no SSH key of type {key_type} in {public}; {advice}")
    elif not ssh.HasKey(line, recorded):
        problems.append(f"The key in {public} is not the one that {path} has for this node; {advice}")
    return problems + _WrongLogins(nodes, known, own_name)


def _IsInUse(kind: str, recorded: Collection[str]) -> bool:
    """Return whether the key of this type that root of this node has is on record for the node."""
    line = ssh.ReadUserKey(kind)
    return bool(line) and ssh.HasKey(line, recorded)


def _WayOut(own_name: str) -> str:
    if ssconf.SimpleStore().IsMaster():
        return f"{_RENEW} gives the master, which cannot be added again, a new one"
    return f"set the node up again with 'gnt-node add --readd {own_name}'"


def _MissingNodes(nodes: Sequence[Sequence[Any]], known: ssh.KeysByNode) -> list[str]:
    path = pathutils.SSH_PUB_KEYS_FILE
    expected = {row[0]: row[1] for row in nodes if row[3] and row[4]}
    everybody = {row[0]: row for row in nodes}
    problems = [
        f"No key of node {name} ({uuid}) in {path}; 'gnt-cluster renew-crypto --new-ssh-keys' brings new ones"
        for uuid, name in expected.items()
        if uuid not in known
    ]
    for uuid in known:
        row = everybody.get(uuid)
        if row is None:
            problems.append(f"{path} has a key of '{uuid}', which is not a node; delete that line there")
        elif not row[3]:
            problems.append(
                f"{path} has a key of node {row[1]}, which cannot become a candidate; 'gnt-cluster renew-crypto"
                " --new-ssh-keys' removes it"
            )
    return problems


def _WrongLogins(nodes: Sequence[Sequence[Any]], known: ssh.KeysByNode, own_name: str) -> list[str]:
    path = ssh.AuthorizedKeysFile()
    lines = ssh.ReadAuthorized()

    def may_log_in(keys: Sequence[str]) -> bool:
        return any(ssh.HasKey(key, lines) for key in keys)

    problems = []
    for uuid, name, candidate, _possible, online in nodes:
        keys = known.get(uuid, [])
        if candidate and online and keys and not may_log_in(keys):
            problems.append(f"The key of candidate {name} is missing in {path}")
        if not candidate and name != own_name and may_log_in(keys):
            problems.append(f"{path} lets node {name} log in, which is not a candidate")
    return problems


def FindClutter(nodes: Sequence[Sequence[Any]]) -> list[str]:
    """Return the nodes with several keys in authorized_keys, recognised by the comment ``root@NAME``."""
    names = {row[1] for row in nodes}
    names |= {name.partition(".")[0] for name in names}
    count: dict[str, int] = {}
    for line in ssh.ReadAuthorized():
        host = ssh.CommentHost(line)
        if host in names:
            count[host] = count.get(host, 0) + 1
    path = ssh.AuthorizedKeysFile()
    return [
        f"There are {n} keys of {host} in {path}; remove those it does not use" for host, n in count.items() if n > 1
    ]


HANDLERS: dict[str, Callable[..., Any]] = {
    "node_ssh_key_add": AddNodeKeys,
    "node_ssh_key_remove": RemoveNodeKeys,
}
