"""Tokens of the remote interface in the configuration."""

from __future__ import annotations

import os
from typing import Any

import pytest
from support.master import Master

from ganeti import constants, errors, opcodes, runtime
from ganeti.utils import tokens


def _Add(master: Master, name: str, **more: Any) -> str:
    token = tokens.Make(name, os.urandom(32))
    master.Run(opcodes.OpClusterRapiTokenAdd(**{"name": name, "sha256": tokens.Digest(token), "role": "read", **more}))
    return token


def test_a_token_is_stored_as_its_hash_until_it_is_removed(master: Master) -> None:
    before = master.snapshot.cluster
    assert "rapi_tokens" not in before.Json()
    expires = runtime.Time() + 3600
    token = _Add(master, "backup", role="operate", tags=["b", "a", "b"], expires=expires)
    stored = master.snapshot.cluster.rapi_tokens["backup"]
    assert tokens.Fits(token, stored["sha256"])
    assert (stored["role"], stored["tags"], stored["expires"]) == ("operate", ("a", "b"), expires)
    assert master.snapshot.cluster.serial_no == before.serial_no + 1
    assert token.partition(".")[2] not in master.snapshot.cluster.Json()
    master.Run(opcodes.OpClusterRapiTokenRemove(name="backup"))
    # The stored form of release 3.1 again.
    assert master.snapshot.cluster.ToDict().keys() == before.ToDict().keys()


def test_a_name_is_given_once(master: Master) -> None:
    token = _Add(master, "backup")
    with pytest.raises(errors.OpPrereqError, match="with the name backup exists") as caught:
        _Add(master, "backup", role="admin")
    assert caught.value.args[1] == errors.ECODE_EXISTS
    assert tokens.Fits(token, master.snapshot.cluster.rapi_tokens["backup"]["sha256"])
    with pytest.raises(errors.OpPrereqError, match="Token other does not exist") as caught:
        master.Run(opcodes.OpClusterRapiTokenRemove(name="other"))
    assert caught.value.args[1] == errors.ECODE_NOENT


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"expires": 1.0}, "expire in the future"),
        ({"tags": ["a b"]}, "characters other than"),
        ({"tags": ["web"], "role": "admin"}, "cannot have the role admin"),
    ],
)
def test_what_makes_no_sense_is_rejected(master: Master, wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=problem):
        _Add(master, "backup", **wrong)
    assert not master.snapshot.cluster.rapi_tokens


@pytest.mark.parametrize("name", ["", "a.b", "-x", "x" * 65, "a b"])
def test_names_and_hashes_are_checked(name: str) -> None:
    good = {"name": "x", "sha256": "0" * 64, "role": "read"}
    for wrong in ({"name": name}, {"sha256": "0" * 63}, {"sha256": "G" * 64}, {"role": "root"}):
        with pytest.raises(errors.OpPrereqError):
            opcodes.OpClusterRapiTokenAdd(**{**good, **wrong}).Validate(True)


def test_there_is_an_end_to_them(master: Master) -> None:
    cluster = master.snapshot.cluster
    token = {"sha256": "0" * 64, "role": "read", "tags": [], "created": 1.0}
    many = {f"t{number}": token for number in range(constants.MAX_RAPI_TOKENS)}
    master.cfg.Update(cluster.Replace(rapi_tokens=many))
    with pytest.raises(errors.OpPrereqError, match="at most 500"):
        _Add(master, "backup")
