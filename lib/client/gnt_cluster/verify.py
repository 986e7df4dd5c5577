"""gnt-cluster verify: checks the cluster."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import ElementsOf, Flag, Options, Values
from ganeti.opcodes import OpClusterVerify

IGNORE_ERRORS = Values(
    "-I", "--ignore-errors", dest="ignore_errors", metavar="CODE", choices=ElementsOf("TVerifyCode"),
    text="Report errors of this code as warnings; repeat it for several", grammar="verify-codes",
)  # fmt: skip
DEBUG_SIMULATE_ERRORS = Flag(
    "--debug-simulate-errors", dest="debug_simulate_errors", text="Let nearly every check report a failure"
)
ERROR_CODES = Flag("--error-codes", dest="error_codes", text="Print messages in a form for programs, with error codes")
NO_NPLUS1 = Flag("--no-nplus1-mem", dest="skip_nplusone_mem", text="Skip the check of N+1 memory redundancy")
NO_HV_ASSESSMENT = Flag(
    "--no-hv-param-assessment", dest="skip_hvparam_assessment", text="Skip the assessment of hypervisor parameters"
)
VERIFY_CLUTTER = Flag(
    "--verify-ssh-clutter",
    dest="verify_clutter",
    text="Check the nodes' SSH keys as well: missing ones, and in authorized_keys those of no candidate or several of one node",
)


def Run(options: Options, arguments: list[str]) -> int:
    skip = [name for name in ("nplusone_mem", "hvparam_assessment") if getattr(options, f"skip_{name}")]
    results = jobs.SubmitAndCollect(jobs.FromOptions(OpClusterVerify, options, skip_checks=skip), options)
    failed = jobs.CountFailures(results)
    bad = jobs.CountFailures(results, all)
    if failed:
        output.ToStdout(f"{failed} job(s) failed while verifying the cluster.")
    return constants.EXIT_FAILURE if bad else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Check configuration, nodes and instances; the exit code is 1 if there is an error",
    (),
    (
        o.VERBOSE, DEBUG_SIMULATE_ERRORS, ERROR_CODES, NO_NPLUS1, NO_HV_ASSESSMENT, *o.SET_DRY, *o.SET_PRIORITY,
        o.NODE_GROUP, IGNORE_ERRORS, VERIFY_CLUTTER,
    ),
)  # fmt: skip
