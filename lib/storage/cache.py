"""Small files that show an administrator who owns an assembled device (RUN/bdev-cache, doc/reference/files.md 3)."""

from __future__ import annotations

import logging

from ganeti import pathutils, runtime
from ganeti.utils import owndirs


def Content(owner: str, on_primary: bool, iv_name: str | None) -> str:
    role = "primary" if on_primary else "secondary"
    return f"{owner} {role} {iv_name or 'not_visible'}\n"


def Update(dev_path: str | None, owner: str, on_primary: bool, iv_name: str | None) -> None:
    """Record the device's owner.  A failure is logged and never stops the caller."""
    if dev_path is None:
        return
    path = pathutils.BdevCacheFile(dev_path)
    try:
        owndirs.MakeOwn(pathutils.BDEV_CACHE_DIR)  # gone with a restart of the machine
        runtime.WriteFile(path, Content(owner, on_primary, iv_name).encode(), mode=0o644, sync=False)
    except OSError as err:
        logging.warning("Cannot note the owner of %s in %s: %s", dev_path, path, err)


def Remove(dev_path: str | None) -> None:
    if dev_path is None:
        return
    try:
        runtime.RemoveFile(pathutils.BdevCacheFile(dev_path))
    except OSError as err:
        logging.warning("Cannot remove the note about %s: %s", dev_path, err)
