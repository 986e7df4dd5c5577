"""Procedures for the directories of file-backed disks."""

from __future__ import annotations

from ganeti.storage import paths

HANDLERS = {
    "file_storage_dir_create": paths.CreateDir,
    "file_storage_dir_remove": paths.RemoveDir,
    "file_storage_dir_rename": paths.RenameDir,
}
