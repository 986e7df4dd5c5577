"""gnt-instance reinstall: runs the operating system's scripts again on stopped instances."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_instance import many
from ganeti.client.gnt_instance.options import FORCE_VARIANT, SET_MULTI
from ganeti.opcodes import OpInstanceReinstall, OpOsDiagnose

SELECT_OS = Flag("--select-os", dest="select_os", text="Ask which operating system to install")


def _ChooseOs(options: Options) -> str | None:
    """Ask which operating system to install; return None if the user gave up."""
    result = jobs.SubmitOpCode(OpOsDiagnose(output_fields=["name", "variants"], names=[]), options)
    names = [full for name, variants in result for full in ([f"{name}+{v}" for v in variants] or [name])]
    if not names:
        raise errors.OpPrereqError(
            "No operating system is valid on all nodes", errors.ECODE_ENVIRON, hint="'gnt-os diagnose' shows why"
        )
    output.ToStdout("Available OS templates:")
    choices: list[ask.Choice] = []
    for number, name in enumerate(names):
        output.ToStdout(f"  {number}: {name}")
        choices.append((str(number), name, name))
    choices.append(("x", "exit", "Leave everything as it is"))
    chosen = ask.AskUser("Enter OS template number (or x to abort):", choices)
    return None if chosen == "exit" else str(chosen)


def _Question(names: list[str], os_name: str | None) -> str:
    system = f"operating system {os_name}" if os_name else "the same operating system"
    what = "Instance" if len(names) == 1 else "Instances"
    return f"{what} {', '.join(names)} will be reinstalled with {system}. All data will be lost. Continue?"


def Run(options: Options, arguments: list[str]) -> int:
    names = many.SelectInstances(options, arguments)
    if not names:
        raise errors.OpPrereqError("Selection filter does not match any instances", errors.ECODE_INVAL)
    os_name: str | None = options.os_type
    if options.select_os:
        os_name = _ChooseOs(options)
        if os_name is None:
            output.ToStderr("User aborted reinstall, exiting")
            return constants.EXIT_FAILURE
    several = many.IsSeveral(options, names)
    confirmed = options.force_multi or (options.force and not several)
    if not confirmed and not ask.Confirmed(_Question(names, os_name), "--force-multiple" if several else "--force"):
        return constants.EXIT_FAILURE
    return many.RunJobs(
        names,
        lambda name: jobs.FromOptions(OpInstanceReinstall, options, instance_name=name, os_type=os_name),
        options,
        several,
    )


COMMAND = Command(
    Run,
    "Install the operating system again on stopped instances; their data is lost",
    (AnyNumber("instance"),),
    (
        *SET_MULTI, o.FORCE, o.OS_TYPE, FORCE_VARIANT, SELECT_OS, o.OS_PARAMETERS, o.OS_PARAMETERS_PRIVATE,
        o.OS_PARAMETERS_SECRET, *o.SET_JOB,
    ),
)  # fmt: skip
