"""Releases that are installed side by side, and the links through which programs are found (doc/packaging.rst)."""

from __future__ import annotations

from ganeti import pathutils, runtime

LIB_LINK = pathutils.CONF_DIR + "/lib"
SHARE_LINK = pathutils.CONF_DIR + "/share"
LIB_DIR = pathutils.AddNodePrefix(pathutils.PKGLIB_DIR)
SHARE_DIR = pathutils.AddNodePrefix(pathutils.SHARE_DIR)


def Target(link: str) -> str | None:
    """Return where a link of this node leads; None if there is no link."""
    try:
        return runtime.ReadLink(link)
    except OSError:
        return None


def Current() -> str | None:
    """Return the version that this node's links lead to; None where there is one release only."""
    folder, _, version = (Target(LIB_LINK) or "").rpartition("/")
    return version if folder == LIB_DIR else None


def JoinCommand(name: str, command: str) -> str:
    """Return ``command`` for the shell of a machine that joins, so that it runs this node's release there.

    Where releases are installed side by side, the machine's links are changed first; it fails where the release is missing.
    """
    version = Current()
    if version is None:
        return command

    def there(path: str) -> str:
        return runtime.ShellQuote(pathutils.ExchangeNodeRoot(name, path))

    release = f"{LIB_DIR}/{version}"
    text = runtime.ShellQuote(
        f"Release {version} is not installed here: {release} is missing; install it, as on the other nodes"
    )
    steps = [f"{{ test -d {there(release)} || {{ echo {text} >&2; exit 1; }}; }}"]
    links = {LIB_LINK: LIB_DIR, SHARE_LINK: SHARE_DIR}
    steps += [
        f"ln -sfn {there(f'{folder}/{version}')} {there(link)}"
        for link, folder in links.items()
        if Target(link) is not None
    ]
    return " && ".join([*steps, command])


__all__ = ["LIB_DIR", "LIB_LINK", "SHARE_DIR", "SHARE_LINK", "Current", "JoinCommand", "Target"]
