"""Templates whose disks are files: of the node, of a directory that all nodes share, of a Gluster volume."""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING, Any

from ganeti import constants
from ganeti.params.disk.base import (
    ACCESS,
    EXTERNAL,
    NAME_CHECK,
    AccessParam,
    DiskPlan,
    DiskRequest,
    DiskTemplate,
    RunThere,
)
from ganeti.params.types import INT, STRING, Between, MakeTable, Param

if TYPE_CHECKING:
    from ganeti import objects


class _Files(DiskTemplate):
    """``logical_id``: the file driver, and the path."""

    file_based = growable = True


class _InDirectory(_Files):
    listed_directory = name_in_path = True

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del request
        return (plan.driver, f"{plan.directory}/{prefix}.{self.name}.disk{index}")

    def Unit(self, cluster: objects.Cluster, disk: objects.Disk) -> str | None:
        """Return a directory above that of the disk's file, which need not exist on every node yet."""
        directory, top = str(self.Directory(disk)), str(getattr(cluster, str(self.directory)))
        return top if directory.startswith(f"{top}/") else posixpath.dirname(directory)

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        del node_uuid
        return RunThere(f"rm {shlex.quote(self.Place(disk))}")


class File(_InDirectory):
    name = constants.DT_FILE
    text = "files on the primary node"
    storage_type = constants.ST_FILE
    verify_key = "file-storage-path"
    copyable = True
    nodes = 1


class SharedFile(_InDirectory):
    name = constants.DT_SHARED_FILE
    text = "files in a directory that all nodes share"
    storage_type = constants.ST_SHARED_FILE
    verify_key = "shared-file-storage-path"
    mirror = EXTERNAL
    cached = False


class Gluster(_Files):
    """The path is relative to the top of the volume."""

    name = constants.DT_GLUSTER
    text = "files on a Gluster volume"
    params = MakeTable(
        AccessParam("2.11"),
        Param("host", STRING, "127.0.0.1", "a server of the volume", NAME_CHECK, "2.11", required=True),
        Param("port", INT, 24007, "its port", Between(1, 65535), "2.11", required=True),
        Param("volume", STRING, "gv0", "the volume", NAME_CHECK, "2.11", required=True),
    )
    layers = ({key: key for key in params},)
    keys = frozenset([ACCESS])
    storage_type = constants.ST_GLUSTER
    verify_key = "gluster-storage-path"
    mirror = EXTERNAL
    cached = False

    def _Identity(self, plan: DiskPlan, request: DiskRequest, prefix: str, index: int) -> tuple[Any, ...]:
        del request, prefix
        return (plan.driver, f"ganeti/{plan.instance_uuid}.{index}")

    def Removal(self, disk: objects.Disk, node_uuid: str) -> str:
        del node_uuid
        return f"remove {self.Place(disk)} from the Gluster volume if it is there"
