"""Procedures that run an administrator's programs: hooks, allocators, out-of-band helpers, restricted commands."""

from __future__ import annotations

import logging
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ganeti import _autoconf, constants, errors, pathutils, runtime
from ganeti.utils import oob, owndirs, programs

# Less than the master waits for the answer.
_CALL_TIME = constants.RPC_TMO_NORMAL - 30
_SLOW_CALL_TIME = constants.RPC_TMO_SLOW - 30
HOOKS_VERSION = 2
RESTRICTED_LOCK_TIMEOUT = 8
RESTRICTED_FAILURE_DELAY = 10
_MAX_MODE = 0o755
# Characters of an allocator's name and of its output in a message.
_MAX_NAME = 200
_MAX_OUTPUT = 30000


# Hooks


def RunHooks(hpath: str, phase: str, env: Mapping[str, str]) -> list[list[Any]]:
    """Return [[script, status, output]] of a hook directory's scripts in byte order; no directory, no scripts."""
    subdir = f"{hpath}-{phase}.d"
    directory = posixpath.join(pathutils.HOOKS_BASE_DIR, subdir)
    if not programs.IsPluginName(hpath):
        raise errors.RpcCallError(f"'{hpath}' is not a valid hook path")
    return [
        [posixpath.join(subdir, name), status, output]
        for name, status, output in programs.RunPlugins(directory, env, _CALL_TIME)
    ]


@contextmanager
def LocalHooks(hpath: str, op_code: str, variables: Mapping[str, str]) -> Iterator[None]:
    """Run this node's hooks around an action of the node itself; a pre hook may forbid it.

    ``op_code``: how hooks call the action, which is no opcode (doc/reference/interfaces.md c).
    """
    _RunLocalPhase(hpath, op_code, constants.HOOKS_PHASE_PRE, variables)
    yield
    _RunLocalPhase(hpath, op_code, constants.HOOKS_PHASE_POST, variables)


def _RunLocalPhase(hpath: str, op_code: str, phase: str, variables: Mapping[str, str]) -> None:
    env = {
        "PATH": constants.SCRIPT_PATH,
        "GANETI_HOOKS_VERSION": str(HOOKS_VERSION),
        "GANETI_HOOKS_PHASE": phase,
        "GANETI_HOOKS_PATH": hpath,
        "GANETI_OP_CODE": op_code,
        "GANETI_OBJECT_TYPE": "CLUSTER",
        "GANETI_DATA_DIR": pathutils.DATA_DIR,
        **{f"GANETI_{name}": value for name, value in variables.items()},
    }
    for script, status, output in RunHooks(hpath, phase, env):
        if status != constants.HKR_FAIL:
            continue
        text = f"{phase} hook {script} failed: {output or '(no output)'}"
        if phase == constants.HOOKS_PHASE_PRE:
            raise errors.RpcCallError(text)
        logging.warning("%s", text)


# Allocators


def FindAllocator(name: str) -> str:
    """Return the first regular file of that name in the search path."""
    if posixpath.basename(name) == name and name not in (".", ".."):
        for directory in pathutils.IALLOCATOR_SEARCH_PATH:
            path = posixpath.join(directory, name)
            try:
                mode = runtime.Stat(path).st_mode
            except OSError:
                continue
            if not stat.S_ISREG(mode):
                continue
            if not mode & 0o111:
                raise errors.RpcCallError(f"iallocator module '{name}' cannot be run: {path} is not executable")
            return path
    raise errors.RpcCallError(
        f"iallocator module '{name[:_MAX_NAME]}' not found in the search path"
        f" ({', '.join(pathutils.IALLOCATOR_SEARCH_PATH)})"
    )


def BuildAllocator(path: str, input_path: str, params: Mapping[str, Any] | None) -> list[str]:
    options = [f"--{key}" if value is None else f"--{key}={value}" for key, value in (params or {}).items()]
    return [path, input_path, *options]


def RunAllocator(name: str, idata: str, default_iallocator_params: Mapping[str, Any] | None) -> str:
    """Return the standard output of the allocator, which finds its question in a temporary file."""
    path = FindAllocator(name)
    question = f"{pathutils.RUN_DIR}/ganeti-iallocator.{runtime.RandomBytes(8).hex()}"
    runtime.WriteFile(question, idata, mode=0o600, sync=False)
    try:
        result = runtime.RunCmd(BuildAllocator(path, question, default_iallocator_params), timeout=_CALL_TIME)
    finally:
        runtime.RemoveFile(question)
    if result.failed:
        raise errors.RpcCallError(
            f"iallocator module '{name}' failed: command '{result.cmd}': {result.cause},"
            f" output '{_Shortened(result.output.strip())}'"
        )
    if result.truncated:
        raise errors.RpcCallError(
            f"iallocator module '{name}' printed more than {runtime.OUTPUT_LIMIT >> 20} MiB; an answer is much shorter"
        )
    return result.stdout


def _Shortened(text: str) -> str:
    """Return a text without its middle if it is too long for a message."""
    if len(text) <= _MAX_OUTPUT:
        return text
    half = _MAX_OUTPUT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


# Out-of-band helpers


def RunOob(oob_program: str, command: str, remote_node: str, timeout: float) -> Any:
    """Return the program's output as JSON, None when there is none."""
    try:
        return oob.Run(oob_program, command, remote_node, timeout)
    except errors.OpExecError as err:
        raise errors.RpcCallError(str(err)) from err


# Restricted commands


def RunRestrictedCommand(cmd: str) -> str:
    """Return the output of an administrator's command; a request for one that may not run is answered slowly, without a reason."""
    if not _autoconf.ENABLE_RESTRICTED_COMMANDS:
        raise errors.RpcCallError(
            "Restricted commands disabled at configure time; 'configure --enable-restricted-commands' builds a version that"
            " runs them"
        )
    try:
        path = PrepareRestrictedCommand(cmd)
    except (errors.GenericError, OSError) as err:
        logging.error("Restricted command %a rejected: %s", cmd, err)
        runtime.Sleep(RESTRICTED_FAILURE_DELAY)
        raise errors.RpcCallError(f"Executing command '{cmd}' failed") from None
    result = runtime.RunCmd([path], env={}, timeout=_SLOW_CALL_TIME, cwd="/")
    if result.failed or result.exit_code is None:
        raise errors.RpcCallError(
            f"Restricted command '{cmd}' failed: {result.fail_reason}; output: {_Shortened(result.output)}"
        )
    # It becomes part of a job, beside what all other nodes say.
    return _Shortened(result.output)


def PrepareRestrictedCommand(cmd: str, owner: tuple[int, int] = (0, 0)) -> str:
    """Return the path of a command that may run; raises with the reason why not."""
    owndirs.MakeOwn(pathutils.RUN_EXT_DIR, 0o770)
    with runtime.LockFile(pathutils.RESTRICTED_COMMANDS_LOCK_FILE, timeout=RESTRICTED_LOCK_TIMEOUT):
        directory = pathutils.RESTRICTED_COMMANDS_DIR
        info = runtime.Stat(directory, follow=False)
        if not stat.S_ISDIR(info.st_mode):
            raise errors.RpcCallError(f"{directory} is not a directory")
        _CheckOwnership(directory, info, owner)
        if not cmd.strip():
            raise errors.RpcCallError("no command named")
        if posixpath.basename(cmd) != cmd or not programs.IsPluginName(cmd):
            raise errors.RpcCallError("the command is not a plain name")
        path = posixpath.join(directory, cmd)
        info = runtime.Stat(path, follow=False)
        if not stat.S_ISREG(info.st_mode):
            raise errors.RpcCallError(f"{path} is not a regular file")
        _CheckOwnership(path, info, owner)
        if not info.st_mode & 0o111:
            raise errors.RpcCallError(f"{path} is not executable")
        return path


def _CheckOwnership(path: str, info: Any, owner: tuple[int, int]) -> None:
    mode = stat.S_IMODE(info.st_mode)
    if mode & ~_MAX_MODE:
        raise errors.RpcCallError(f"{path} has mode {mode:o}, at most {_MAX_MODE:o} is allowed")
    if (info.st_uid, info.st_gid) != owner:
        raise errors.RpcCallError(f"{path} belongs to {info.st_uid}:{info.st_gid}, not to {owner[0]}:{owner[1]}")


HANDLERS: dict[str, Callable[..., Any]] = {
    "hooks_runner": RunHooks,
    "iallocator_runner": RunAllocator,
    "run_oob": RunOob,
    "restricted_command": RunRestrictedCommand,
}
