"""What became of an instance whose making failed, and what to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ganeti import constants, errors, objects, store

if TYPE_CHECKING:
    from ganeti.cmdlib.instance.create import LUInstanceCreate


@contextlib.contextmanager
def SayingWhatStays(lu: LUInstanceCreate, instance_uuid: str) -> Iterator[None]:
    """After a creation that failed: warn what is left of the instance ``lu.op.instance_name``, and what to do.

    The configuration says it, whichever step failed and whatever was undone.  ``lu.installed``: whether nothing but its
    start was left to do.
    """
    try:
        yield
    except store.MasterEnded:
        # What this master knows is no longer true; the next one says how to go on (``jqueue.unclean``).
        raise
    except errors.GenericError:
        instance = lu.snapshot.instances.get(instance_uuid)
        if instance is None:
            lu.LogWarning(
                f"Instance {lu.op.instance_name} is not in the cluster",
                hint="when the cause is repaired, repeat the command; 'gnt-cluster verify' names what is left of its disks,"
                " if anything is",
            )
        elif not instance.forthcoming:  # of a reservation that stays, whoever made it one again has said that
            _WarnOf(lu, instance)
        raise


def _WarnOf(lu: LUInstanceCreate, instance: objects.Instance) -> None:
    name, remove = instance.name, f"'gnt-instance remove {instance.name}'"
    if any(disk.adopts is not None for disk in lu.snapshot.InstanceDisks(instance)):
        lu.LogWarning(
            f"Instance {name} stays in the configuration, as it may have volumes that were to be adopted",
            hint=f"when the node is repaired, {remove} gives them their own names back",
        )
    elif instance.admin_state == constants.ADMINST_UP:
        lu.LogWarning(
            f"Instance {name} stays in the configuration and is marked to be up, but its start failed",
            hint=f"when the cause is repaired, 'gnt-instance startup {name}' starts it, as the watcher will try, too;"
            f" 'gnt-instance shutdown {name}' keeps it stopped, {remove} removes it",
        )
    elif lu.helper_may_run:
        lu.LogWarning(
            f"Instance {name} stays in the configuration without a complete operating system, and the helper may run in its place",
            hint=f"when 'gnt-instance shutdown --timeout 0 {name}' has ended it, 'gnt-instance reinstall {name}' installs again and"
            f" 'gnt-instance startup {name}' starts the instance; {remove} removes it",
        )
    elif lu.installed:
        lu.LogWarning(
            f"Instance {name} stays in the configuration, complete and stopped",
            hint=f"when the cause is repaired, 'gnt-instance startup {name}' starts it; {remove} removes it",
        )
    elif instance.disks_active and _InstallsAnew(lu, instance):
        lu.LogWarning(
            f"Instance {name} stays in the configuration, stopped and without a complete operating system",
            hint=f"when the cause is repaired, 'gnt-instance reinstall {name}' installs it and 'gnt-instance startup"
            f" {name}' starts it; {remove} removes it",
        )
    else:
        # Its data was to come from an export, or some of its disks may not be ready.
        elsewhere = lu.op.mode == constants.CREATE_REMOTE_IMPORT
        lu.LogWarning(
            f"Instance {name} stays in the configuration, stopped and {'perhaps ' if elsewhere else ''}not complete",
            hint=f"{'if the other cluster still has it, ' if elsewhere else ''}{remove} removes it; then repeat the command",
        )


def _InstallsAnew(lu: LUInstanceCreate, instance: objects.Instance) -> bool:
    """Return whether a reinstallation does what was left to do: nothing else has the data of an export."""
    return lu.op.mode == constants.CREATE_NEW and bool(instance.os or constants.OS_IMAGE in instance.osparams)
