"""Units for testing the cluster itself: delays, messages of the job queue, secret parameters."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, locking, opcodes, pathutils, runtime
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.cmdlib.common import ExpandNode

# How long a client may take to connect and to answer, in seconds.
CLIENT_CONNECT_TIMEOUT = 20.0
CLIENT_CONFIRM_TIMEOUT = 60.0


class LUTestDelay(NoHooksLU[opcodes.OpTestDelay]):
    """Sleeps on the master, on nodes, or both, some number of times."""

    REQ_BGL = False
    CHANGES_NODES = False

    def CheckArguments(self) -> None:
        if self.op.duration < 0:
            raise errors.OpPrereqError("The duration must not be negative", errors.ECODE_INVAL)
        if self.op.interruptible and self.op.on_nodes:
            raise errors.OpPrereqError("Only a delay on the master alone can be interrupted", errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        snapshot = self.snapshot
        nodes = [ExpandNode(snapshot, name) for name in self.op.on_nodes]
        self.op.on_nodes = [node.name for node in nodes]
        self.op.on_node_uuids = [node.uuid for node in nodes]
        wanted = list(self.op.on_node_uuids)
        if self.op.on_master:
            wanted.append(snapshot.cluster.master_node)
        # As in 3.1 the nodes are locked whatever no_locks says (doc/reference/opcodes.md).
        self.needed_locks = {locking.LEVEL_NODE: wanted}

    def Exec(self, feedback: Feedback) -> None:
        if self.op.interruptible:
            self._SleepUntilInterrupted()
            return
        rounds = self.op.repeat or 1
        for number in range(rounds):
            if self.op.repeat:
                self.LogInfo(f"Test delay iteration {number}/{rounds - 1}")
            self._Sleep()

    def _Sleep(self) -> None:
        if self.op.on_master:
            self.Pause(self.op.duration)
        if self.op.on_node_uuids:
            results = self.rpc.call_test_delay(self.op.on_node_uuids, self.op.duration)
            for result in results.values():
                result.Raise(f"Failure during rpc call to node {result.node_name}")

    def _SleepUntilInterrupted(self) -> None:
        """Offer a socket and wait until a client connects or the time is over."""
        path = _SocketPath("delay")
        listener = runtime.ListenUnix(path, 0o600, 1)
        try:
            self.proc.Log(constants.ELOG_DELAY_TEST, [path])
            listener.settimeout(max(self.op.duration, 0.001))
            try:
                client, _ = listener.accept()
                client.close()
                self.LogInfo("The delay was interrupted")
            except TimeoutError:
                self.LogInfo("Nobody interrupted the delay")
        finally:
            listener.close()
            runtime.RemoveFile(path)


class LUTestJqueue(NoHooksLU[opcodes.OpTestJqueue]):
    """Report each stage to a client through a socket, and wait for its answer."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}
        if self.op.notify_waitlock:
            self._Notify("expandnames", None)
        self.LogInfo("Expanding names")
        self.needed_locks = {locking.LEVEL_NODE: [self.snapshot.cluster.master_node]}

    def Exec(self, feedback: Feedback) -> bool:
        if self.op.notify_exec:
            self._Notify("exec", None)
        self.LogInfo("Executing")
        if self.op.log_messages:
            self._Notify("startmsg", len(self.op.log_messages))
            for message in self.op.log_messages:
                self.LogInfo(message)
                self._Notify("logmsg", message)
        if self.op.fail:
            raise errors.OpExecError("Opcode failure was requested")
        return True

    def _Notify(self, test: str, argument: Any) -> None:
        """Offer a socket; the client connects, does its checks, and writes one byte when it is done."""
        path = _SocketPath("jqueue")
        listener = runtime.ListenUnix(path, 0o600, 1)
        try:
            self.proc.Log(constants.ELOG_JQUEUE_TEST, [path, test, argument])
            listener.settimeout(CLIENT_CONNECT_TIMEOUT)
            client, _ = listener.accept()
        except TimeoutError:
            raise errors.OpExecError(f"No client connected to {path} in {CLIENT_CONNECT_TIMEOUT:g} seconds") from None
        finally:
            listener.close()
            runtime.RemoveFile(path)
        try:
            client.settimeout(CLIENT_CONFIRM_TIMEOUT)
            answer = client.recv(1)
        except TimeoutError:
            raise errors.OpExecError(f"The client did not confirm '{test}' in {CLIENT_CONFIRM_TIMEOUT:g} s") from None
        finally:
            client.close()
        if not answer:
            raise errors.OpExecError(f"The client did not confirm '{test}'")


class LUTestOsParams(NoHooksLU[opcodes.OpTestOsParams]):
    """Succeeds only if secret parameters reach the job; the processor rejects those that the queue did not keep."""

    REQ_BGL = False
    CHANGES_NODES = False

    def ExpandNames(self) -> None:
        self.needed_locks = {}

    def Exec(self, feedback: Feedback) -> None:
        if not self.op.osparams_secret:
            raise errors.OpExecError(
                "No secret parameter reached the job",
                hint="give one: 'gnt-debug test-osparams --os-parameters-secret @FILE'",
            )


def _SocketPath(kind: str) -> str:
    # A directory that only the daemons' users can enter.
    return f"{pathutils.SOCKET_DIR}/{kind}-{runtime.NewUuid()[:8]}"
