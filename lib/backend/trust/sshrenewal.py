"""New SSH keys for all nodes (3.1's ``node_ssh_keys_renew``; doc/design-renew-crypto.rst).

::

    make     each node: id_rsa_new beside id_rsa
    record   ganeti_pub_keys of every possible candidate has old and new keys of each node
    accept   authorized_keys of every node has old and new keys of candidates
    try      the master logs in to each node with its new key alone
    use      id_rsa_new becomes id_rsa; on the master last
    withdraw authorized_keys has new keys only
    forget   ganeti_pub_keys has new keys only; on the master last

Each step begins when all nodes have ended the one before.  So what any node accepts is at every moment on record with every
possible candidate, and the next run knows what to withdraw, whoever is master then.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ganeti import errors, pathutils, runtime, ssh
from ganeti.backend.trust.sshkeys import Failures, Others
from ganeti.utils import parallel

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
    """One run.  ``fresh`` and ``old``: keys by node; ``claimed``: one that a node says it has used, which nobody can check."""

    def __init__(
        self, rows: Sequence[_Row], candidates: Sequence[str], potential: Sequence[str], old_kind: str, kind: str
    ):
        self._others = Others([row.name for row in rows])
        self._own = [row for row in rows if row.name == self._others.own_name]
        self._rows = [row for row in rows if row.name in self._others.names]
        self._candidates = candidates
        self._potential = potential
        self._old_kind = old_kind
        self._kind = kind
        self._known: ssh.KeysByNode = ssh.ReadNodeKeys()
        self._fresh: dict[str, str] = {}
        self._old: dict[str, list[str]] = {}
        self._claimed: dict[str, str] = {}

    def Run(self, bits: int) -> Failures:
        make = functools.partial(self._Make, bits)
        for step in (make, self._Record, self._Accept, self._Try, self._Use, self._Withdraw, self._Forget):
            # A node that is not listed yet is a failure before the first one: it would be left behind.
            if self._others.failures:
                break
            step()
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
        shown: dict[str, str] = {}

        def make(row: _Row) -> None:
            # The one in use need not be known yet: clusters of before 2.13 kept no list.
            paths = (ssh.UserKeyFiles(self._kind, _NEW_SUFFIX)[1], ssh.UserKeyFiles(self._old_kind)[1])
            fresh, used = (runtime.ShellQuote(pathutils.ExchangeNodeRoot(row.name, path)) for path in paths)
            shown[row.uuid] = self._others.Change(
                row.name,
                f"cat {fresh} && {{ cat {used} 2>/dev/null || true; }}",
                generate=[self._kind, bits, _NEW_SUFFIX],
            )

        self._Each(make)
        for row in self._own:
            used = ssh.ReadUserKey(self._old_kind)
            fresh = ssh.KeyOfNode(ssh.MakeUserKey(self._kind, bits, suffix=_NEW_SUFFIX), row.name)
            self._Learn(row, fresh, [used] if used else [])
        for row in self._rows:
            if row.uuid in shown:
                try:
                    self._Believe(row, shown[row.uuid])
                except errors.SshUpdateError as err:
                    self._others.failures.append([row.name, f"The node did not send a usable SSH key: {err}"])

    def _Believe(self, row: _Row, shown: str) -> None:
        """Learn what a node sent; SshUpdateError if its new key is not one that can be its own."""
        line, _, rest = shown.partition("\n")
        fresh = ssh.KeyOfNode(ssh.CheckKeyLine(line), row.name)
        self._CheckClaim(row, fresh)
        try:
            used = ssh.BareKey(rest)
            self._CheckClaim(row, used)
        except errors.SshUpdateError as err:
            logging.warning("The key that node %s says it has used is left alone: %s", row.name, err)
            used = ""
        # Its word counts for itself alone, unless this node knows the key as that node's.
        proven = bool(used) and _IsAuthorizedAs(used, row.name)
        if used and not proven:
            self._claimed[row.uuid] = used
        self._Learn(row, fresh, [ssh.KeyOfNode(used, row.name)] if proven else [])

    def _CheckClaim(self, row: _Row, key: str) -> None:
        known = {**self._known, **{f"{uuid} (new)": [line] for uuid, line in self._fresh.items()}}
        problem = ssh.ClaimProblem(key, known, (row.uuid, row.name)) if key else None
        if problem is not None:
            raise errors.SshUpdateError(problem)

    def _Learn(self, row: _Row, fresh: str, used: Sequence[str]) -> None:
        old: list[str] = []
        for line in (*self._known.get(row.uuid, ()), *self._known.get(row.name, ()), *used):
            if not ssh.HasKey(line, (fresh, *old)):
                old.append(ssh.CheckKeyLine(line))
        self._fresh[row.uuid], self._old[row.uuid] = fresh, old

    def _Record(self) -> None:
        """Have every possible candidate know the new keys beside the old ones."""

        def change(known: dict[str, list[str]]) -> ssh.KeysByNode:
            for row in (*self._own, *self._rows):
                known.pop(row.name, None)
                known[row.uuid] = [*self._Listed(row), *self._old[row.uuid]]
            return known

        self._known = ssh.ChangeNodeKeys(change)
        self._EachPossible(self._known)

    def _Listed(self, row: _Row) -> list[str]:
        """Return the new key of a node if it belongs into the list: that of one which cannot become a candidate does not."""
        return [self._fresh[row.uuid]] if row.name in self._potential else []

    def _EachPossible(self, known: ssh.KeysByNode) -> None:
        def tell(row: _Row) -> None:
            if row.name in self._potential:
                self._others.Change(row.name, public_keys=["override", known])

        self._Each(tell)

    def _Accept(self) -> None:
        """Let every node accept the new keys beside the old ones."""
        entering = {uuid: [key] for uuid, key in self._fresh.items() if uuid in self._candidates}
        ssh.AuthorizeKeys(_AllOf(entering))
        if entering:
            self._Each(lambda row: self._others.Change(row.name, authorized_keys=["add", entering]))

    def _Try(self) -> None:
        """Log in with the new key: an SSH daemon that accepts none of its type or length would be out of reach afterwards."""
        if self._own:
            path = ssh.UserKeyFiles(self._kind, _NEW_SUFFIX)[0]
            self._Each(lambda row: self._others.TryKey(row.name, path))

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
        # The old key stays until the new one takes its place: without any, the master could no longer reach anybody.
        ssh.UseKey(self._kind, _NEW_SUFFIX)

    def _Moves(self) -> list[tuple[str, str]]:
        """Return for the private and for the public half where the new one is, and where that in use."""
        return list(zip(ssh.UserKeyFiles(self._kind, _NEW_SUFFIX), ssh.UserKeyFiles(self._kind), strict=True))

    def _Withdraw(self) -> None:
        """Let every node accept the new keys only."""
        staying = _AllOf(self._Final(self._known))
        leaving = {uuid: [key for key in keys if not ssh.HasKey(key, staying)] for uuid, keys in self._old.items()}
        leaving = {uuid: keys for uuid, keys in leaving.items() if keys}
        try:
            ssh.ForbidKeys(_AllOf(leaving))
        except errors.SshUpdateError as err:
            self._others.failures.append([pathutils.HostName(), str(err)])

        def withdraw(row: _Row) -> None:
            claimed = {"claimed": [self._claimed[row.uuid]]} if row.uuid in self._claimed else {}
            if leaving or claimed:
                self._others.Change(row.name, authorized_keys=["remove", {**leaving, **claimed}])

        self._Each(withdraw)

    def _Forget(self) -> None:
        """Have the possible candidates forget the old keys, which nobody accepts by now."""
        self._EachPossible(self._Final(self._known))
        if not self._others.failures:
            ssh.ChangeNodeKeys(self._Final)

    def _Final(self, known: ssh.KeysByNode) -> ssh.KeysByNode:
        """Return what stays on record: new keys, and those of nodes that are offline or about to join."""
        renewed = {row.uuid: self._Listed(row) for row in (*self._own, *self._rows)}
        return {uuid: keys for uuid, keys in {**known, **renewed}.items() if keys}


def _IsAuthorizedAs(key: str, name: str) -> bool:
    """Return whether authorized_keys of this node has the key with the comment of that node's root."""
    lines = ssh.ReadAuthorized()
    return any(ssh.SameKey(key, line) and ssh.CommentHost(line) in (name, name.partition(".")[0]) for line in lines)


def _AllOf(keys: ssh.KeysByNode) -> list[str]:
    return [line for lines in keys.values() for line in lines]


HANDLERS: dict[str, Callable[..., Any]] = {"node_ssh_keys_renew": RenewKeys}
