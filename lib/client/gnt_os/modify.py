"""gnt-os modify: settings of an operating system for all instances."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options, Value
from ganeti.client.shared import typed
from ganeti.opcodes import OpClusterSetParams

HIDDEN = Value("--hidden", dest="hidden", type="bool", text="Whether lists leave it out; it can still be installed")
BLACKLISTED = Value("--blacklisted", dest="blacklisted", type="bool", text="Whether new instances with it are rejected")


def _Listing(name: str, wanted: bool) -> list[list[str]]:
    return [["add" if wanted else "remove", name]]


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    fields: dict[str, Any] = {}
    if options.hvparams:
        fields["os_hvp"] = {name: typed.Hypervisors(options.hvparams, typed.RESET)}
    if options.osparams:
        fields["osparams"] = {name: options.osparams}
    if options.osparams_private:
        fields["osparams_private_cluster"] = {name: options.osparams_private}
    if options.hidden is not None:
        fields["hidden_os"] = _Listing(name, options.hidden)
    if options.blacklisted is not None:
        fields["blacklisted_os"] = _Listing(name, options.blacklisted)
    if not fields:
        output.ToStderr("At least one of OS parameters or hypervisor parameters must be passed")
        return constants.EXIT_FAILURE
    jobs.SubmitOrSend(OpClusterSetParams(**fields), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Change the parameters and the visibility of an operating system",
    (One("os"),),
    (*o.SET_JOB, o.HYPERVISORS_KEYVALS, o.OS_PARAMETERS, o.OS_PARAMETERS_PRIVATE, HIDDEN, BLACKLISTED),
)
