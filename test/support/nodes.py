"""Nodes of a virtual cluster in the test's own process: enter one, and every path of ours is that node's.

::

    a, b = MakeNodes(tmp_path, "a", "b")
    with a:
        hypervisor.Start(...)
    with b:
        assert hypervisor.List() == []
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganeti import pathutils

_entered: list[Node] = []


def _SetSearchPath() -> None:
    if _entered and _entered[-1].os_search_path:
        pathutils.OS_SEARCH_PATH = tuple(_entered[-1].os_search_path)


class Node:
    """One node's root directory with the directories that ensure-dirs would make."""

    def __init__(self, base: Path, name: str, os_search_path: Sequence[Path] = ()):
        self.name = name
        self.root = base / name
        self.os_search_path = [str(path) for path in os_search_path]
        # What was set before each entry that was not left yet: a node may be entered within itself.
        self._before: list[dict[str, str | None]] = []

    def __enter__(self) -> Node:
        wanted = {pathutils.ENV_ROOTDIR: str(self.root), pathutils.ENV_HOSTNAME: self.name}
        self._before.append({key: os.environ.get(key) for key in wanted})
        os.environ.update(wanted)
        importlib.reload(pathutils)
        _entered.append(self)
        _SetSearchPath()
        for path in (
            pathutils.DATA_DIR,
            pathutils.RUN_DIR,
            pathutils.RUN_EXT_DIR,
            pathutils.CONF_DIR,
            pathutils.BDEV_CACHE_DIR,
            pathutils.DISK_LINKS_DIR,
            pathutils.INSTANCE_REASON_DIR,
            pathutils.UIDPOOL_LOCK_DIR,
            pathutils.LOG_OS_DIR,
            pathutils.LOG_KVM_DIR,
            pathutils.EXPORT_DIR,
        ):
            os.makedirs(path, exist_ok=True)
        return self

    def __exit__(self, *exc: Any) -> None:
        for key, value in self._before.pop().items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        importlib.reload(pathutils)
        _entered.pop()
        _SetSearchPath()

    def AllowFileStorage(self, *directories: Path | str) -> None:
        """Writes the node's file-storage-paths."""
        with self:
            Path(pathutils.FILE_STORAGE_PATHS_FILE).write_text("".join(f"{path}\n" for path in directories))


def MakeNodes(base: Path, *names: str) -> list[Node]:
    nodes = [Node(base, name) for name in names]
    for node in nodes:
        with node:
            pass
    return nodes
