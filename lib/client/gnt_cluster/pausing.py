"""The pause of the watcher while ``gnt-cluster epo`` stops instances: begun, renewed, ended or left with a message."""

from __future__ import annotations

from ganeti import errors, runtime
from ganeti.cli import jobs, output
from ganeti.luxi import protocol

# The daemon keeps whole seconds.
_ROUNDING = 1.0


def _Set(until: float | None) -> None:
    """Set the end of the pause; raise OpExecError if it is not set on the master, where instances are started from."""
    client = jobs.GetClient()
    try:
        client.SetWatcherPause(until)
    except errors.OpExecError as err:
        # Nodes that do not answer start nothing either.
        now = client.QueryConfigValues(["watcher_pause"])[0]
        if (now or 0) < (until or 0) - _ROUNDING or (until is None and now is not None):
            err.hint = "nothing further is done until the master can write the file of the pause"
            raise


class Pause:
    """Pauses the watcher for ``seconds`` at least, again and again while the command works."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._before = self._until = self._Current()
        self.Renew()

    def _Current(self) -> float:
        return float(jobs.GetClient().QueryConfigValues(["watcher_pause"])[0] or 0)

    def Renew(self) -> None:
        """Move the end on, if less than nine tenths are left, or somebody ended the pause."""
        now = runtime.Time()
        self._until = self._Current()
        if self._until < now + 0.9 * self._seconds:
            _Set(now + self._seconds)
            self._until = now + self._seconds

    def End(self) -> None:
        """Restore the pause that was set before, if it has not ended meanwhile."""
        if self._before > runtime.Time():
            _Set(self._before)
            output.ToStdout("The watcher stays paused as it was before; 'gnt-cluster watcher continue' ends the pause")
        else:
            _Set(None)

    def Explain(self) -> None:
        """Say that the watcher stays paused, and why."""
        import time

        output.ToStderr(
            f"The watcher is paused until {time.ctime(self._until)}, so that it does not start the instances that are"
            " stopped; 'gnt-cluster watcher continue' ends the pause"
        )


class Renewing(jobs.Feedback):
    """Renews the pause while a job is waited for."""

    def __init__(self, pause: Pause):
        self._pause = pause

    def Polled(self) -> None:
        self._pause.Renew()


def Lift() -> None:
    """End the pause, if there is one."""
    try:
        if jobs.GetClient().QueryConfigValues(["watcher_pause"])[0] is None:
            return
        _Set(None)
    except (errors.OpExecError, protocol.TimeoutError) as err:
        output.ToStderr(f"The watcher may still be paused ({err}); 'gnt-cluster watcher continue' ends the pause")
        return
    output.ToStdout("The watcher's pause is ended")
