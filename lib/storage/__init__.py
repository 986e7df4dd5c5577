"""Disks of this node: what a driver must do, the drivers, and what all of them share.

::

    backend.blockdev --> tree     walks a disk and its children, one driver call per layer
                          |  \\
                          |   `-> links (instance-disks/NAME:N), cache (bdev-cache: whose device is this)
                          v
                        base      the contract: BlockDev, Mirror, DeviceStatus
                          ^
      +------------+------+-----+--------------+----------------+
     file        lvm           drbd          device          fake     drivers: one module per family of templates
      |    |      |             |          |    |    |
    paths gluster lvmtools   drbdtools    rbd  ext  (blockdev)
                                               |
                                          extprovider   directories of scripts

    utilities   external programs, each with a time limit; looks   each look at the node once per call
    decisions  what this node was told last of each mirror, so that a late call changes nothing; the lock of a mirror
    units      what a node keeps disks in: list, space, change, repair
    waiting    polls until a mirror is where it should be; paths  which directories file-backed disks may use

The template ``diskless`` has no disks, therefore no driver.

Glossary

* attach -- look for the device and remember where it is; changes nothing (``ext``: its provider attaches it)
* assemble -- make the device usable on this node; ``shutdown`` is the opposite
* open -- make it writable here; ``close`` is the opposite
* backing store -- the layers that hold the data, as opposed to a mirror above them
* dimensions -- real size in bytes and number of spindles
* primary -- the node the instance runs on; secondary -- any other node that holds the disk
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from ganeti import constants, errors
from ganeti.storage.base import BlockDev

# Template -> "module:class", a module of ``drivers`` or a full name; loaded when first used, so that noded stays small.
DRIVERS: dict[str, str] = {
    constants.DT_FILE: "file:FileDevice",
    constants.DT_SHARED_FILE: "file:FileDevice",
    constants.DT_PLAIN: "lvm:Volume",
    constants.DT_BLOCK: "device:ExistingDevice",
    constants.DT_RBD: "rbd:Image",
    constants.DT_GLUSTER: "gluster:GlusterFile",
    constants.DT_EXT: "ext:ProvidedVolume",
    constants.DT_DRBD8: "drbd:Drbd",
}

_replaced: dict[str, str | type[BlockDev]] = {}


def GetDriver(template: str) -> type[BlockDev]:
    """Return the driver of a disk template."""
    where = _replaced.get(template) or DRIVERS.get(template)
    if isinstance(where, type):
        return where
    if where is None:
        raise errors.BlockDeviceError(
            f"disk template {template}: no driver on this node; templates with one: {', '.join(sorted(DRIVERS))}"
        )
    module, _, name = where.partition(":")
    driver = getattr(importlib.import_module(module if "." in module else f"{__name__}.drivers.{module}"), name)
    assert issubclass(driver, BlockDev)
    return driver


def UseDrivers(drivers: Mapping[str, str | type[BlockDev]]) -> None:
    """Put these drivers before the real ones, for the whole process; ``{}`` undoes it.  For simulations (``fake``)."""
    _replaced.clear()
    _replaced.update(drivers)
