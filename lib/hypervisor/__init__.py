"""Guests of this node: what a hypervisor driver must do, and the drivers.

::

    backend.instance --> GetHypervisor(name) --> base.Hypervisor     the contract
                                                    ^
                                      +-------------+-------------+
                                     fake          kvm/     (xen, lxc, chroot)
                                  files only    QEMU by QMP

    linux    memory and processors of this machine, read from /proc
    names    what may become part of a file name

What the master must know of a hypervisor without a node (parameter syntax, what can migrate, console data, files to
ship) lives in ``params``.

Glossary

* guest -- an instance as its hypervisor sees it: running, or stopped by its own user and not yet cleaned up
* hvparams -- the instance's filled hypervisor parameters, cluster-wide ones included
* accept -- the target of a migration gets ready; ``finalize`` ends it on either side, as success or as failure
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from ganeti import constants, errors
from ganeti.hypervisor.base import Hypervisor

# Hypervisor -> "module:class"; loaded when first used, so that noded stays small.
DRIVERS: dict[str, str] = {
    constants.HT_FAKE: "fake:FakeHypervisor",
    constants.HT_KVM: "kvm.driver:KvmHypervisor",
}


_replaced: dict[str, Callable[[], Hypervisor]] = {}


def GetHypervisor(name: str) -> Hypervisor:
    """Return the driver of one hypervisor."""
    if name in _replaced:
        return _replaced[name]()
    where = DRIVERS.get(name)
    if where is None:
        raise errors.HypervisorError(
            f"Hypervisor {name}: no driver on this node; hypervisors with one: {', '.join(sorted(DRIVERS))}"
        )
    module, _, cls = where.partition(":")
    driver = getattr(importlib.import_module(f"{__name__}.{module}"), cls)
    assert issubclass(driver, Hypervisor)
    return driver()


def UseDrivers(drivers: Mapping[str, Callable[[], Hypervisor]]) -> None:
    """Put these drivers before the real ones, for the whole process; ``{}`` goes back.  For tests and simulations."""
    _replaced.clear()
    _replaced.update(drivers)
