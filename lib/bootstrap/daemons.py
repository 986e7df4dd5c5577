"""Starting, stopping and awaiting the daemons of this node."""

from __future__ import annotations

from collections.abc import Callable

from ganeti import constants, errors, pathutils, runtime
from ganeti.bootstrap.calls import BootstrapRunner
from ganeti.luxi import client as luxi_client
from ganeti.rpc import RpcRunner

DAEMON_WAIT = 10.0
_STEP = 0.1


def DaemonUtil(*words: str) -> None:
    """Run ``daemon-util``; OpExecError names the command and what it said."""
    result = runtime.RunCmd([pathutils.DAEMON_UTIL, *words], timeout=120)
    if result.failed:
        raise errors.OpExecError(
            f"Could not run {pathutils.DAEMON_UTIL} {' '.join(words)}: {result.fail_reason}\n{result.output}".rstrip()
        )


def WaitFor(ready: Callable[[], bool], what: str, timeout: float = DAEMON_WAIT) -> None:
    """Ask until it is so; raise OpExecError when that takes too long."""
    deadline = runtime.Monotonic() + timeout
    while not ready():
        if runtime.Monotonic() >= deadline:
            raise errors.OpExecError(f"{what} within {timeout:.0f} seconds")
        runtime.Sleep(_STEP)


def WaitForNodeDaemon(runner: RpcRunner, node: str) -> None:
    """Until the node daemon answers, with our protocol version."""
    last = ""

    def answers() -> bool:
        nonlocal last
        result = runner.call_version([node])[node]
        last = result.fail_msg or ""
        if not last and result.payload != constants.PROTOCOL_VERSION:
            raise errors.OpExecError(
                f"Node {node} speaks protocol {result.payload}, this one {constants.PROTOCOL_VERSION}: install the same release"
            )
        return not last

    try:
        WaitFor(answers, f"Node daemon on {node} didn't answer queries")
    except errors.OpExecError as err:
        raise errors.OpExecError(f"{err}: {last}" if last else str(err)) from err


def WaitForOwnNodeDaemon(node: str) -> None:
    """Until this node's own daemon answers, called as the master will call it."""
    with BootstrapRunner() as runner:
        WaitForNodeDaemon(runner, node)


def WaitForMaster() -> None:
    """Until the master daemon answers on its socket."""

    def answers() -> bool:
        try:
            with luxi_client.Client(connect_timeout=0, retry_delays=()) as client:
                client.Call("QueryConfigValues", [["cluster_name"]])
        except (errors.LuxiError, OSError):
            return False
        return True

    WaitFor(
        answers,
        f"The master daemon did not answer on {pathutils.QUERY_SOCKET}; see {pathutils.LOG_DIR}/master-daemon.log",
    )
