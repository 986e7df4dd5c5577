"""Messages and exit codes of errors on the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import constants, errors


def _PrereqText(err: errors.OpPrereqError) -> list[str]:
    if len(err.args) == 2:
        return [
            "Failure: prerequisites not met for this operation:",
            f"error type: {err.args[1]}, error details:",
            str(err.args[0]),
        ]
    return ["Failure: prerequisites not met for this operation:", str(err)]


def _HooksText(err: errors.HooksAbort) -> list[str]:
    lines = ["Failure: hooks execution failed:"]
    for node, script, output in err.args[0] if err.args else []:
        shown = f", output: {output}" if output else " (no output)"
        lines.append(f"  node: {node}, script: {script}{shown}")
    return lines


def _ResolverText(err: errors.ResolverError) -> list[str]:
    host = err.args[0] if err.args else "?"
    from ganeti import pathutils

    if host == pathutils.HostName():
        return [f"Failure: can't resolve my own hostname ('{host}')"]
    return [f"Failure: can't resolve hostname '{host}'"]


def _FilterText(err: errors.QueryFilterParseError) -> list[str]:
    details = err.args[1] if len(err.args) > 1 and isinstance(err.args[1], (list, tuple)) else []
    return [f"Error while parsing query filter: {err.args[0]}", *map(str, details)]


def _DaemonName(path: str) -> str:
    from ganeti import pathutils

    return "the master daemon" if path in (pathutils.MASTER_SOCKET, pathutils.QUERY_SOCKET) else f"socket '{path}'"


def _ProtocolText(err: errors.LuxiError) -> list[str]:
    from ganeti.luxi import protocol

    if isinstance(err, protocol.NoMasterError):
        daemon = _DaemonName(str(err.args[0]) if err.args else "")
        return [f"Cannot communicate with {daemon}.", "Is it running and listening for connections?"]
    if isinstance(err, protocol.TimeoutError):
        return [
            "Timeout while talking to the master daemon. Jobs might have been submitted and will continue to run even if"
            " the call timed out. Useful commands in this situation are 'gnt-job list', 'gnt-job cancel"
            " JOB_ID' and 'gnt-job watch JOB_ID'. Error:",
            str(err),
        ]
    if isinstance(err, protocol.PermissionError):
        daemon = _DaemonName(str(err.args[0]) if err.args else "")
        return [f"It seems you don't have permissions to connect to {daemon}. Please retry as a different user."]
    if isinstance(err, protocol.StrangerError):
        return [str(err)]
    if isinstance(err, protocol.RequestError):
        return ["The master daemon rejected the request:", str(err)]
    return ["Unhandled protocol error while talking to the master daemon:", str(err)]


# The first class that matches counts.
_TEXTS: tuple[tuple[type[errors.GenericError], Callable[[Any], list[str]]], ...] = (
    (errors.OpPrereqError, _PrereqText),
    (errors.HooksAbort, _HooksText),
    (errors.ResolverError, _ResolverText),
    (errors.QueryFilterParseError, _FilterText),
    (errors.LuxiError, _ProtocolText),
)
_FORMATS: tuple[tuple[type[errors.GenericError], str], ...] = (
    (errors.ConfigurationError, "Corrupt configuration file: {}\nAborting."),
    (errors.OpExecError, "Failure: command execution error:\n{}"),
    (errors.HooksFailure, "Failure: hooks general failure: {}"),
    (errors.TagError, "Failure: invalid tag(s) given:\n{}"),
    (
        errors.JobQueueDrainError,
        "Failure: the job queue is marked for drain and doesn't accept new requests\n"
        "('gnt-cluster queue undrain' makes it accept jobs again)",
    ),
    (
        errors.JobQueueFull,
        "Failure: the job queue is full and doesn't accept new job submissions until old jobs are archived",
    ),
    (errors.TypeEnforcementError, "Parameter Error: {}"),
    (errors.ParameterError, "Failure: unknown/wrong parameter name '{}'"),
    (errors.JobLost, "Error checking job status: {}"),
    (errors.JobCanceled, "Failure: {}"),
)


def FormatError(err: errors.GenericError) -> tuple[int, str]:
    """Return (exit code, text of one or more lines)."""
    from ganeti.cli.command import UsageError

    if isinstance(err, UsageError):
        return (constants.EXIT_FAILURE, _WithHint(f"Error: {err}", err))
    for cls, lines in _TEXTS:
        if isinstance(err, cls):
            return (_Code(err), _WithHint("\n".join(lines(err)), err))
    for cls, shape in _FORMATS:
        if isinstance(err, cls):
            return (_Code(err), _WithHint(shape.format(err), err))
    # An error that names the next step was foreseen.
    return (_Code(err), _WithHint(f"{'Failure' if err.hint else 'Unhandled Ganeti error'}: {err}", err))


def _Code(err: errors.GenericError) -> int:
    return (
        constants.EXIT_CONFIG if isinstance(err, errors.ConfigurationError) else err.exit_code or constants.EXIT_FAILURE
    )


def _WithHint(text: str, err: errors.GenericError) -> str:
    return f"{text}\n{err.hint}" if err.hint else text
