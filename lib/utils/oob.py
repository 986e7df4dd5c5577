"""Out-of-band programs: the administrator's way to a machine's power (doc/reference/interfaces.md g.4)."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, runtime, serializer
from ganeti.utils import programs

HEALTH, POWER_STATUS = "health", "power-status"
POWER_ON, POWER_OFF, POWER_CYCLE = "power-on", "power-off", "power-cycle"
COMMANDS = (POWER_ON, POWER_OFF, POWER_CYCLE, POWER_STATUS, HEALTH)

# The answer is a state, or a list of a machine's sensors.
_MAX_OUTPUT = 64 * 1024
# The call of a node ends after this time, and must outlast the program, which is killed first.
_MAX_TIMEOUT = constants.RPC_TMO_NORMAL - 60
_MAX_DELAY = 3600.0
_MAX_SHOWN = 2000


def CheckLimits(timeout: float, power_delay: float) -> None:
    """Raise OpPrereqError if a program cannot be given so much time, or there cannot be such a delay between nodes."""
    if not 1 <= timeout <= _MAX_TIMEOUT:
        raise errors.OpPrereqError(
            f"An out-of-band program cannot be given {timeout} seconds; 1 to {_MAX_TIMEOUT} are possible",
            errors.ECODE_INVAL,
        )
    if not 0 <= power_delay <= _MAX_DELAY:
        raise errors.OpPrereqError(
            f"A delay of {power_delay:g} seconds between nodes is not possible; 0 to {_MAX_DELAY:g} are",
            errors.ECODE_INVAL,
        )


def CommandLine(program: str, command: str, node: str) -> str:
    """Return what an administrator types to do the same by hand."""
    return " ".join(map(runtime.ShellQuote, (program, command, node)))


def MasterRefusal(program: str, command: str, node: str) -> errors.OpPrereqError:
    """Return the refusal to switch off or reset the master node; ``program`` is empty if it has none."""
    if program:
        more = f"run '{CommandLine(program, command, node)}' if you want to operate on the master regardless"
    else:
        by_hand = "poweroff" if command == POWER_OFF else "reboot"
        more = f"it does not support out-of-band operations; '{by_hand}' on it does that by hand"
    return errors.OpPrereqError(
        f"Operating on the master node {node} is not allowed for {command}; {more}",
        errors.ECODE_INVAL,
        hint="'gnt-cluster master-failover' on another node makes that one the master",
    )


def Run(program: str, command: str, node: str, timeout: float) -> Any:
    """Run a program and return its output as JSON, None when there is none; raise OpExecError with the next step."""
    problem = programs.Problem(program)
    if problem:
        raise errors.OpExecError(
            f"Out-of-band program '{program}' of node {node} cannot be run: {problem}; it must be an executable file on the"
            " master node that belongs to root and that nobody else can write to"
        )
    typed = CommandLine(program, command, node)
    result = runtime.RunCmd([program, command, node], timeout=timeout)
    if result.timeout is not None:
        raise errors.OpExecError(
            f"'{typed}' did not end within {timeout:g} seconds and was killed ({_Said(result.output)}); whether it had an"
            " effect is not known; run it by hand to see what it waits for, or allow more time with --oob-timeout"
        )
    if result.failed:
        how = f"signal {result.signal}" if result.exit_code is None else f"exit code {result.exit_code}"
        cause = result.fail_reason if result.exit_code in (126, 127) and not result.output else how
        raise errors.OpExecError(f"'{typed}' failed: {cause} ({_Said(result.output)}); run it by hand to see more")
    if result.truncated or len(result.stdout) > _MAX_OUTPUT:
        raise errors.OpExecError(
            f"'{typed}' printed more than {_MAX_OUTPUT >> 10} KiB, which is not a valid answer; repair the program"
        )
    if not result.stdout.strip():
        return None
    try:
        return serializer.Load(result.stdout)
    except errors.ParseError as err:
        raise errors.OpExecError(f"'{typed}' did not print valid JSON ({_Said(result.stdout)})") from err


def _Said(text: str) -> str:
    """Return the end of what a program printed, where its complaint stands."""
    text = text.strip()
    if not text:
        return "it printed nothing"
    more = "[...] " if len(text) > _MAX_SHOWN else ""
    return f"it printed: {more}{text[-_MAX_SHOWN:]}"


def AnswerProblem(command: str, answer: Any) -> str | None:
    """Return what is wrong with the answer to a command; None if nothing is."""
    if command == POWER_STATUS:
        if isinstance(answer, dict) and isinstance(answer.get("powered"), bool):
            return None
        return 'it should have printed {"powered": true} or {"powered": false}'
    if command == HEALTH:
        return _HealthProblem(answer)
    return None if answer is None else "it should have printed nothing"


_STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


def _HealthProblem(answer: Any) -> str | None:
    wanted = f"it should have printed a list of [ITEM, STATE], with one of the states {', '.join(_STATES)}"
    if not isinstance(answer, list):
        return wanted
    for pair in answer:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            return wanted
        if pair[1] not in _STATES:
            return f"{wanted}; '{pair[0][:80]}' has {str(pair[1])[:80]!r}"
    return None
