"""ssh-update: changes the SSH keys this node knows, from one JSON object on standard input."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import ht, ssh
from ganeti.joindata import CERTIFICATE, CLUSTER_NAME
from ganeti.tools import setupdata

_AUTHORIZED, _PUBLIC, _GENERATE = "authorized_keys", "public_keys", "generate"
ADD, REMOVE, OVERRIDE, REPLACE_OR_ADD, CLEAR = "add", "remove", "override", "replace_or_add", "clear"

_NODE_KEYS = ht.TDictOf(ht.TNonEmptyString, ht.TListOf(ht.TNonEmptyString))
_SHAPE = ht.TStrictDict(
    {CLUSTER_NAME: ht.TNonEmptyString},
    {
        CERTIFICATE: ht.TNonEmptyString,
        _AUTHORIZED: ht.TItems(ht.TElemOf([ADD, REMOVE]), _NODE_KEYS),
        _PUBLIC: ht.TItems(ht.TElemOf([ADD, REMOVE, OVERRIDE, REPLACE_OR_ADD, CLEAR]), _NODE_KEYS),
        _GENERATE: ht.TItems(ht.TElemOf(list(ssh.KEY_KINDS)), ht.TPositiveInt, ht.TRegex(r"[A-Za-z0-9._-]{0,64}")),
        "ssh_key_type": ht.TNonEmptyString,
        "ssh_key_bits": ht.TPositiveInt,
    },
)


def Work(data: Mapping[str, Any], dry_run: bool) -> None:
    setupdata.CheckServerCertificate(data)
    for key in (_AUTHORIZED, _PUBLIC):
        ssh.FormatNodeKeys(data[key][1] if key in data else {})
    if dry_run:
        logging.info("This is a dry run, nothing is changed")
        return
    if _AUTHORIZED in data:
        action, keys = data[_AUTHORIZED]
        lines = [line for node_lines in keys.values() for line in node_lines]
        (ssh.AuthorizeKeys if action == ADD else ssh.ForbidKeys)(lines)
    if _PUBLIC in data:
        _ChangeList(*data[_PUBLIC])
    if _GENERATE in data:
        ssh.MakeUserKey(*data[_GENERATE])


def _ChangeList(action: str, keys: ssh.KeysByNode) -> None:
    if action in (OVERRIDE, CLEAR):
        # Also when what is there now is damaged.
        ssh.WriteNodeKeys(keys if action == OVERRIDE else {})
    else:
        ssh.ChangeNodeKeys(lambda known: _Changed(known, action, keys))


def _Changed(known: dict[str, list[str]], action: str, keys: ssh.KeysByNode) -> dict[str, list[str]]:
    for uuid, lines in keys.items():
        if action == REMOVE:
            known.pop(uuid, None)
        elif action == REPLACE_OR_ADD:
            known[uuid] = list(lines)
        else:
            known[uuid] = [*known.get(uuid, []), *_Missing(lines, known.get(uuid, []))]
    return known


def _Missing(lines: Sequence[str], known: Sequence[str]) -> list[str]:
    return [line for line in lines if not ssh.HasKey(line, known)]


def Main() -> int:
    return setupdata.Main("ssh-update", "Updates SSH keys; reads JSON from standard input", _SHAPE, Work)
