"""Who a guest's process runs as and what it can see (design 2.2: KVM security)."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import pwd
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import errors, runtime, ssconf, uidpool
from ganeti.hypervisor.kvm import layout
from ganeti.params import hv_kvm

_UID_LIMIT = 64


@contextlib.contextmanager
def User(name: str, hvp: Mapping[str, Any]) -> Iterator[str | None]:
    """Yield the user that the process shall run as, None for root; the block starts the process.

    A user of the pool stays locked until the block has ended, and goes back to the pool if it raises.
    """
    model = hvp["security_model"]
    if model == hv_kvm.SECURITY_USER:
        yield hvp["security_domain"]
    elif model == hv_kvm.SECURITY_POOL:
        pool = uidpool.ExpandUidPool(ssconf.SimpleStore().GetUidPool())
        if not pool:
            raise errors.HypervisorError(
                f"Instance {name}: security model pool needs user ids; add some with gnt-cluster modify --add-uids"
            )
        locked = uidpool.RequestUnusedUid(pool)
        try:
            runtime.WriteFile(layout.UidFile(name), f"{locked.uid}\n", mode=0o644, sync=False)
            yield UserName(locked.uid)
        except BaseException:
            uidpool.ReleaseUid(locked)
            runtime.RemoveFile(layout.UidFile(name))
            raise
        locked.Unlock()
    else:
        yield None


def UserName(uid: int) -> str:
    """Return a user as QEMU wants it: the name, or the numbers where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"{uid}:{uid}"


def MakeChroot(name: str, hvp: Mapping[str, Any]) -> str | None:
    """Make an empty directory for the guest's process."""
    if not hvp["use_chroot"]:
        return None
    path = layout.ChrootDir(name)
    runtime.MakeDirs(path, mode=0o755)
    return path


def Release(name: str) -> None:
    """Give the user id back and remove the chroot; what a guest's process left in there is put aside."""
    try:
        uid = int(runtime.ReadText(layout.UidFile(name), limit=_UID_LIMIT))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as err:
        logging.warning("Instance %s: its user id file %s cannot be read: %s", name, layout.UidFile(name), err)
    else:
        uidpool.ReleaseUid(uid)
    runtime.RemoveFile(layout.UidFile(name))
    chroot = layout.ChrootDir(name)
    if not runtime.IsDir(chroot):
        return
    if not runtime.ListDir(chroot):
        runtime.RemoveDir(chroot)
        return
    stamp = time.strftime("%Y-%m-%d_%H_%M_%S", time.localtime(runtime.Time()))
    aside = posixpath.join(layout.QuarantineDir(), f"{name}-{stamp}-{runtime.RandomBytes(4).hex()}")
    runtime.Rename(chroot, aside)
    logging.warning("Instance %s: its chroot was not empty, moved to %s; look at it, then delete it", name, aside)
