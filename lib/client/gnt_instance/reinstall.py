"""gnt-instance reinstall: runs the operating system's scripts again on stopped instances."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared import many
from ganeti.opcodes import OpInstanceReinstall, OpOsDiagnose


def _ChooseOs(options: Options) -> str | None:
    """Asks which of the systems to install; None if the user gave up."""
    result = jobs.SubmitOpCode(OpOsDiagnose(output_fields=["name", "variants"], names=[]), options)
    names = [full for name, variants in result for full in ([f"{name}+{v}" for v in variants] or [name])]
    if not names:
        raise errors.OpPrereqError("No valid operating system is on all nodes", errors.ECODE_ENVIRON)
    output.ToStdout("Available OS templates:")
    choices: list[ask.Choice] = []
    for number, name in enumerate(names):
        output.ToStdout(f"  {number}: {name}")
        choices.append((str(number), name, name))
    choices.append(("x", "exit", "Leave everything as it is"))
    chosen = ask.AskUser("Enter OS template number (or x to abort):", choices)
    return None if chosen == "exit" else str(chosen)


def _Question(names: list[str], os_name: str | None) -> str:
    what = f"to operating system {os_name}" if os_name else "with the operating system they have"
    return f"Instances {', '.join(names)} will be installed anew {what}; all their data is lost. Continue?"


def Run(options: Options, arguments: list[str]) -> int:
    names = many.SelectInstances(options, arguments)
    if not names:
        raise errors.OpPrereqError("Selection filter does not match any instances", errors.ECODE_INVAL)
    os_name: str | None = options.os
    if options.select_os:
        os_name = _ChooseOs(options)
        if os_name is None:
            output.ToStderr("User aborted reinstall, exiting")
            return constants.EXIT_FAILURE
    several = len(names) > 1 or options.multi_mode != o.SELECT_INSTANCES
    confirmed = options.force_multi or (options.force and not several)
    if not confirmed and not ask.Confirmed(_Question(names, os_name)):
        return constants.EXIT_FAILURE
    settings: dict[str, Any] = {
        "os_type": os_name,
        "force_variant": options.force_variant,
        "osparams": dict(options.osparams) if options.osparams else None,
        "osparams_private": dict(options.osparams_private) if options.osparams_private else None,
        "osparams_secret": dict(options.osparams_secret) if options.osparams_secret else None,
    }
    executor = jobs.JobExecutor(options, verbose=several)
    for name in names:
        executor.QueueJob(name, OpInstanceReinstall(instance_name=name, **settings))
    results = executor.WaitOrShow(not options.submit_only)
    return constants.EXIT_FAILURE if jobs.CountFailures(results) else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Reinstalls the operating system of one or more stopped instances",
    (AnyNumber("instance"),),
    (
        *o.SET_MULTI,
        o.FORCE,
        o.OS_TYPE,
        o.FORCE_VARIANT,
        o.SELECT_OS,
        o.OS_PARAMETERS,
        o.OS_PARAMETERS_PRIVATE,
        o.OS_PARAMETERS_SECRET,
        *o.SET_JOB,
    ),
)
