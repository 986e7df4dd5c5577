"""New SSH keys for all nodes (3.1's ``node_ssh_keys_renew``; doc/design-renew-crypto.rst).

::

    make   each node: id_rsa_new beside id_rsa
    add    every node accepts old and new keys
    use    id_rsa_new becomes id_rsa; on the master last
    remove every node accepts new keys only

Each step begins when all nodes have ended the one before.  Until the last one has succeeded everywhere, ganeti_pub_keys of the
master has old and new keys of each node, so that the next run knows which to remove.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganeti import errors, pathutils, runtime, ssh
from ganeti.backend.trust.sshkeys import Failures, Others
from ganeti.utils import files, parallel

_NEW_SUFFIX = "_new"
# Processes of ssh: more would keep each other from being answered in time on a small master.
_AT_ONCE = 8


class _Row(NamedTuple):
    uuid: str
    name: str


def RenewKeys(
    node_uuids: Sequence[str],
    node_names: Sequence[str],
    master_candidate_uuids: Sequence[str],
    potential_master_candidates: Sequence[str],
    old_key_type: str,
    new_key_type: str,
    new_key_bits: int,
) -> Failures:
    """Make new keys for all these nodes; nothing is replaced before all of them accept the new ones."""
    if len(node_uuids) != len(node_names):
        raise errors.RpcCallError("There must be as many names as uuids of nodes")
    for kind in (old_key_type, new_key_type):
        ssh.CheckKind(kind)
    rows = [_Row(*row) for row in zip(node_uuids, node_names, strict=True)]
    renewal = _Renewal(rows, master_candidate_uuids, potential_master_candidates, old_key_type, new_key_type)
    return renewal.Run(new_key_bits)


class _Renewal:
    """One run.  ``fresh`` and ``old``: keys by node."""

    def __init__(
        self, rows: Sequence[_Row], candidates: Sequence[str], potential: Sequence[str], old_kind: str, kind: str
    ):
        self._others = Others()
        self._own = [row for row in rows if row.name == self._others.own_name]
        self._rows = [row for row in rows if row.name in self._others.names]
        self._candidates = candidates
        self._potential = potential
        self._old_kind = old_kind
        self._kind = kind
        self._known = ssh.ReadNodeKeys()
        self._fresh: dict[str, str] = {}
        self._old: dict[str, list[str]] = {}

    def Run(self, bits: int) -> Failures:
        for step in (lambda: self._Make(bits), self._Add, self._Use, self._Remove):
            step()
            if self._others.failures:
                break
        return self._others.failures

    def _Each(self, act: Callable[[_Row], Any]) -> None:
        """Do something for each other node, side by side; one that fails is named."""

        def attempt(row: _Row) -> str | None:
            try:
                act(row)
            except errors.SshUpdateError as err:
                return str(err)
            return None

        for row, problem in parallel.Each(self._rows, attempt, at_once=_AT_ONCE):
            if problem is not None:
                self._others.failures.append([row.name, problem])

    # --- steps ------------------------------------------------------------------------------------------------------------

    def _Make(self, bits: int) -> None:
        """Have each node make a key beside its own, and learn both."""

        def make(row: _Row) -> None:
            # The one in use need not be known yet: clusters of before 2.13 kept no list.
            paths = (ssh.UserKeyFiles(self._kind, _NEW_SUFFIX)[1], ssh.UserKeyFiles(self._old_kind)[1])
            fresh, used = (runtime.ShellQuote(pathutils.ExchangeNodeRoot(row.name, path)) for path in paths)
            shown = self._others.Change(
                row.name,
                f"cat {fresh} && {{ cat {used} 2>/dev/null || true; }}",
                generate=[self._kind, bits, _NEW_SUFFIX],
            )
            line, _, rest = shown.partition("\n")
            self._Learn(row, rest, line)

        self._Each(make)
        for row in self._own:
            used = ssh.ReadIfThere(ssh.UserKeyFiles(self._old_kind)[1])
            self._Learn(row, used, ssh.MakeUserKey(self._kind, bits, suffix=_NEW_SUFFIX))

    def _Learn(self, row: _Row, used: str, fresh: str) -> None:
        key = ssh.CheckKeyLine(fresh)
        known = [*self._known.get(row.uuid, ()), *self._known.get(row.name, ()), *([used] if used.strip() else ())]
        old: list[str] = []
        for line in known:
            if not any(ssh.SameKey(line, other) for other in (key, *old)):
                old.append(ssh.CheckKeyLine(line))
        self._fresh[row.uuid], self._old[row.uuid] = key, old

    def _Add(self) -> None:
        """Let every node accept the new keys beside the old ones."""
        for row in (*self._own, *self._rows):
            self._known.pop(row.name, None)
            self._known[row.uuid] = [self._fresh[row.uuid], *self._old[row.uuid]]
        ssh.WriteNodeKeys(self._known)
        entering = {uuid: [key] for uuid, key in self._fresh.items() if uuid in self._candidates}
        ssh.AuthorizeKeys(_Lines(entering))
        self._Each(lambda row: self._Tell(row, "add", entering, self._known))

    def _Use(self) -> None:
        """Put each node's new key in the place of the old one."""

        def use(row: _Row) -> None:
            (new, current), (new_public, public) = (
                [runtime.ShellQuote(pathutils.ExchangeNodeRoot(row.name, path)) for path in pair]
                for pair in self._Moves()
            )
            folder = runtime.ShellQuote(pathutils.ExchangeNodeRoot(row.name, ssh.UserDir()))
            # ssh can do without the public half, but not with that of another key.  A node that loses its power must not be
            # back at its old key when the others have forgotten that.
            self._others.Run(
                row.name,
                f"rm -f {public} && mv -f {new} {current} && mv -f {new_public} {public} && sync {folder}",
            )

        self._Each(use)
        # With the old one it can still reach those that failed.
        if self._others.failures or not self._own:
            return
        (new, current), (new_public, public) = self._Moves()
        # The old key stays until the new one takes its place: without any, the master could no longer reach anybody.
        for path in (current, public):
            files.KeepCopy(path)
        runtime.RemoveFile(public, sync=True)
        runtime.Rename(new, current)
        runtime.Rename(new_public, public)

    def _Moves(self) -> list[tuple[str, str]]:
        """Return for the private and for the public half where the new one is, and where that in use."""
        return list(zip(ssh.UserKeyFiles(self._kind, _NEW_SUFFIX), ssh.UserKeyFiles(self._kind), strict=True))

    def _Remove(self) -> None:
        """Let every node forget the old keys; the master's list forgets them when all have."""
        final = {**self._known, **{uuid: [key] for uuid, key in self._fresh.items()}}
        leaving = {uuid: keys for uuid, keys in self._old.items() if keys}
        ssh.ForbidKeys(_Lines(leaving))
        self._Each(lambda row: self._Tell(row, "remove", leaving, final))
        if not self._others.failures:
            ssh.WriteNodeKeys(final)

    def _Tell(self, row: _Row, action: str, keys: ssh.KeysByNode, public: ssh.KeysByNode) -> None:
        changes: dict[str, Any] = {"authorized_keys": [action, keys]} if keys else {}
        if row.name in self._potential:
            changes["public_keys"] = ["override", public]
        self._others.Change(row.name, **changes)


def _Lines(keys: ssh.KeysByNode) -> list[str]:
    return [line for lines in keys.values() for line in lines]


HANDLERS: dict[str, Callable[..., Any]] = {"node_ssh_keys_renew": RenewKeys}
