"""The helper in which an operating system is installed that no node trusts (doc/design-install.rst).

Its last disk has a package: the operating system's definition and the environment of its script ``create_untrusted``.  When the
helper has ended, the beginning of that disk says how the script went.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ganeti import errors, objects
from ganeti.cmdlib.base import Feedback, LogicalUnit
from ganeti.cmdlib.instance.helper import Helper
from ganeti.params import hv
from ganeti.utils.definitions import LastLines
from ganeti.utils.text import Printable

SCRIPT = "create_untrusted"
# Seconds that it has to start, and to do its work.
START_SECONDS, END_SECONDS = 300.0, 7200.0
_FIRST_LETTER = ord("a") + 1
_REPORT_LIMIT = 64 * 1024
_REPORT = re.compile(r"ganeti-install: exit (\d{1,3})\n(.*)", re.DOTALL)


class Installing(Helper):
    """Installs the operating system of a stopped instance, whose disks are active.

    ``os_params``: all of them, in clear text; ``extra``: variables besides; ``more_time``: what gives the helper more.
    """

    SETTING, SET = "install_image", "gnt-cluster modify --install-image"
    DOING = "installing the operating system"
    UNDONE = "the operating system is not complete"
    OWN_DISKS = 2
    BEFORE_REMOVAL = "as the last of its disks may hold secret parameters, overwrite that first, then "

    def __init__(
        self,
        lu: LogicalUnit[Any],
        instance: objects.Instance,
        feedback: Feedback | None = None,
        os_params: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
        more_time: str = "",
    ):
        super().__init__(lu, instance, feedback)
        self._os_params = dict(os_params or {})
        self._extra = dict(extra or {})
        self._more_time = more_time

    def _Refused(self, why: str, hint: str | None = None) -> errors.OpPrereqError:
        instance = self._instance
        return errors.OpPrereqError(
            f"OS {instance.os} must be installed in a helper VM, as it has a script '{SCRIPT}', which is not possible for instance"
            f" {instance.name}: {why}",
            errors.ECODE_STATE,
            hint=hint,
        )

    def _MoreTime(self) -> str:
        return self._more_time

    def _Boot(self) -> dict[str, Any]:
        """Return its own parameters: it boots the image and nothing of the node, and the names of disks that the script gets are true."""
        return {**super()._Boot(), **hv.TRAITS[self._instance.hypervisor].own_system}

    def _Besides(self) -> int:
        return self._Sized(self._PackageSize(prereq=True)).size

    def _PackageSize(self, prereq: bool = False) -> int:
        result = self._lu.rpc.call_os_package_size(self._instance.primary_node, self._instance.os)
        result.Raise(f"Could not pack OS {self._instance.os} on node {self._node}", prereq=prereq)
        return int(result.payload)

    def _Work(self, first: objects.Disk, start_seconds: float, seconds: float) -> None:
        lu, node = self._lu, self._instance.primary_node
        source, env = (self._instance, self._os_params), self._Environment()
        lost = sorted(name for name, value in self._os_params.items() if "\n" in value)
        if lost:
            lu.LogWarning(
                f"Parameters whose values have more than one line do not reach script {SCRIPT}: {', '.join(lost)}"
            )
        with self._OwnDisk(self._Sized(self._PackageSize())) as package:
            try:
                written = lu.rpc.call_os_package_write(node, source, env, (package, self._instance))
                written.Raise(f"Could not write OS {self._instance.os} to the helper's disk on node {self._node}")
                self._RunFrom(first, (package,), start_seconds, seconds)
                self._CheckReport(package)
            finally:
                if not self.may_run:
                    self._Overwrite(package)

    def _Environment(self) -> dict[str, str]:
        """Return the variables that are others in the helper: its first disk is its own, and then come those of the instance."""
        prefix = hv.TRAITS[self._instance.hypervisor].disk_prefix
        paths = {
            f"DISK_{number}_PATH": f"{prefix}{chr(_FIRST_LETTER + number)}"
            for number in range(len(self._instance.disks))
        }
        return {**self._extra, "OS_SCRIPT": SCRIPT, **paths}

    def _CheckReport(self, package: objects.Disk) -> None:
        """Raise OpExecError unless the helper says that its script was successful."""
        instance, where = self._instance, f"in the helper on instance {self._instance.name}"
        result = self._lu.rpc.call_os_package_report(instance.primary_node, (package, instance))
        result.Raise(f"Could not read on node {self._node} how script {SCRIPT} of OS {instance.os} went {where}")
        found = _REPORT.fullmatch(result.payload[:_REPORT_LIMIT])
        if found is None:
            raise errors.OpExecError(
                f"The helper on instance {instance.name} has powered off without a report of script {SCRIPT}; OS {instance.os}"
                " may be incomplete",
                hint=f"image {self._image} must run the script and report how it went: ganeti-os-interface(7), 'Untrusted"
                f" systems'; while it runs, 'gnt-instance console {instance.name}' shows what it does",
            )
        status, output = found.groups()
        if int(status):
            raise errors.OpExecError(
                f"Script {SCRIPT} of OS {instance.os} failed with exit code {status} {where}, last lines:\n"
                + Printable(LastLines(output), keep="\n")
            )

    def _Overwrite(self, package: objects.Disk) -> None:
        """Leave nothing of what may hold secrets."""
        instance = self._instance
        result = self._lu.rpc.call_blockdev_wipe(instance.primary_node, (package, instance), 0, package.size)
        result.Warn(
            f"The last disk of the helper on node {self._node}, which may hold secret parameters of OS {instance.os}, could not be"
            " overwritten before its removal",
            self._lu.LogWarning,
        )


def NeedsHelper(
    lu: LogicalUnit[Any], instance: objects.Instance, disks: int, besides: Mapping[str, int] | None = None
) -> bool:
    """Return whether a helper has to install an instance's operating system; raise OpPrereqError if it has to and cannot.

    ``instance`` need not exist yet; ``disks``: how many it will have; ``besides``: MiB that they will take of each volume group.
    """
    result = lu.rpc.call_os_diagnose([instance.primary_node])[instance.primary_node]
    result.Raise(f"Could not look at the operating systems of node {result.node_name}", prereq=True)
    name = instance.os.partition("+")[0]
    trusted = next((row[-1] for row in result.payload if row[0] == name), True)
    if trusted:
        return False
    Installing(lu, instance).Check(disks, besides)
    return True
