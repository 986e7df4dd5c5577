"""The users that daemons run as: fixed by the build (doc/reference/files.md 6)."""

from __future__ import annotations

import grp
import os
import pwd

from ganeti import _autoconf, constants, errors, pathutils

# daemon -> (user, group)
DAEMON_USERS: dict[str, tuple[str, str]] = {
    constants.NODED: (_autoconf.NODED_USER, _autoconf.NODED_GROUP),
    constants.MASTERD: (_autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP),
    constants.CONFD: (_autoconf.CONFD_USER, _autoconf.CONFD_GROUP),
    constants.RAPI: (_autoconf.RAPI_USER, _autoconf.RAPI_GROUP),
}


def UserId(name: str) -> int:
    """Return the number of a build-time user; raises ConfigurationError if the machine lacks it."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise errors.ConfigurationError(f"User '{name}' does not exist here: run '{pathutils.USERS_SETUP}'") from None


def GroupId(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise errors.ConfigurationError(f"Group '{name}' does not exist here: run '{pathutils.USERS_SETUP}'") from None


def OwnerText(info: os.stat_result) -> str:
    """Return ``user:group`` of a file; numbers where this machine has no name for them."""
    try:
        group = grp.getgrgid(info.st_gid).gr_name
    except KeyError:
        group = str(info.st_gid)
    return f"{UserText(info.st_uid)}:{group}"


def UserText(uid: int) -> str:
    """Return the name of a user, or its number where this machine has no name for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def BecomeUser(program: str, user: str, group: str, check: bool = True) -> None:
    """Give up root for good, or make sure that the process is the right user already (D22-PRIV-03).

    With ``check`` False a process of another user is let through as it is, for tests and look-ups by hand.
    """
    uid, gid = UserId(user), GroupId(group)
    have = os.geteuid()
    if have == uid:
        return
    if have != 0:
        if check:
            raise errors.ConfigurationError(f"{program} started using wrong user ID ({have}), expected {uid}")
        return
    os.setgroups(os.getgrouplist(user, gid))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
