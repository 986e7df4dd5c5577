"""gnt-cluster verify: looks whether everything is as it should be."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options, Values
from ganeti.opcodes import OpClusterVerify
from ganeti.opcodes.types import VERIFY_CODES

IGNORE_ERRORS = Values(
    "-I", "--ignore-errors", dest="ignore_errors", metavar="CODE", choices=sorted(VERIFY_CODES),
    text="Report errors of this kind as warnings; repeat for several",
)  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    skip = [
        name
        for name, wanted in (
            ("nplusone_mem", options.skip_nplusone_mem),
            ("hvparam_assessment", options.skip_hvparam_assessment),
        )
        if wanted
    ]
    op = OpClusterVerify(
        verbose=options.verbose,
        error_codes=options.error_codes,
        debug_simulate_errors=options.debug_simulate_errors,
        skip_checks=skip,
        ignore_errors=options.ignore_errors,
        group_name=options.nodegroup,
        verify_clutter=options.verify_clutter,
    )
    results = jobs.SubmitAndCollect(op, options)
    failed = jobs.CountFailures(results)
    bad = jobs.CountFailures(results, all)
    if failed:
        output.ToStdout(f"{failed} job(s) failed while verifying the cluster.")
    return constants.EXIT_FAILURE if bad else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Does a check on the cluster configuration",
    (),
    (
        o.VERBOSE, o.DEBUG_SIMULATE_ERRORS, o.ERROR_CODES, o.NO_NPLUS1, o.NO_HV_ASSESSMENT, *o.SET_DRY, *o.SET_PRIORITY,
        o.NODE_GROUP, IGNORE_ERRORS, o.VERIFY_CLUTTER,
    ),
)  # fmt: skip
