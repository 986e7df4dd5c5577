"""Daemons of this node: start what does not run, restart one that can be asked and does not answer."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

from ganeti import confd, constants, errors, hosts, pathutils, runtime, ssconf
from ganeti.confd import link, queries
from ganeti.daemon import pidfile
from ganeti.http import fetch

# A daemon may take a while to start, and systemd to say so.
_START_TIMEOUT = 720.0
_STOP_TIMEOUT = 60.0
_KILL_SECONDS = 10.0
_LIMITS = fetch.Limits(connect=5, total=15, size=4096)
_OK, _UNAUTHORIZED = 200, 401
_LOOPBACK = "127.0.0.1"
# A question may be lost where many come in at once.
_PINGS = 2
_PING_SECONDS = 5.0


def Installed(name: str) -> bool:
    """Return whether the daemon's program is there: a package may leave out what a node does not need."""
    return runtime.Exists(pathutils.DaemonProgram(name))


def EnsureRunning(name: str) -> bool:
    """Start a daemon that does not run; return whether it runs now."""
    if pidfile.Running(name) is not None:
        return True
    logging.warning("%s does not run: starting it", name)
    return _DaemonUtil("check-and-start", name, _START_TIMEOUT)


def _DaemonUtil(verb: str, name: str, timeout: float) -> bool:
    result = runtime.RunCmd([pathutils.DAEMON_UTIL, verb, name], timeout=timeout)
    if result.failed:
        said = " ".join((result.stderr or result.stdout).split())[:1000]
        logging.error("%s: '%s %s' failed: %s", name, pathutils.DAEMON_UTIL, verb, said or result.fail_reason)
    return not result.failed


def EnsureRapi(ip: str | None) -> None:
    """Start the REST daemon; restart it once if it answers at none of its addresses, or not at the one given."""
    _EnsureAnswering(
        constants.RAPI,
        lambda: _LookForRapi(ip),
        "If it listens at another address, give that address to the watcher with --rapi-ip",
    )


def EnsureConfd() -> None:
    """Start the daemon that answers about the configuration; restart it once if it does not react to a ping."""
    _EnsureAnswering(constants.CONFD, _LookForConfd, "The watcher asks it at each address at which it listens")


def _EnsureAnswering(name: str, look: Callable[[], str | None], advice: str) -> None:
    """Start a daemon; restart it once if it does not answer.

    ``look`` returns why it does not, None if it does or if it could not be asked.
    """
    if not Installed(name) or not EnsureRunning(name):
        return
    why = look()
    if why is None:
        return
    logging.warning("%s does not answer (%s): restarting it", name, why)
    if not _DaemonUtil("stop", name, _STOP_TIMEOUT):
        _Kill(name)
    if not _DaemonUtil("start", name, _START_TIMEOUT):
        return
    why = look()
    if why is None:
        logging.info("%s answers again", name)
    else:
        logging.error(
            "%s does not answer after a restart either (%s); see %s. %s", name, why, pathutils.DaemonLog(name), advice
        )


def _LookForConfd() -> str | None:
    """Return why the daemon of this node does not answer a ping; None if it does, or need not."""
    try:
        store = ssconf.SimpleStore()
        if hosts.OwnName() not in store.GetMasterCandidates() or not runtime.Exists(pathutils.CLUSTER_CONF_FILE):
            return None  # only candidates answer
        port = link.Port()
        reasons = []
        for ip in _ConfdAddresses(port):
            for _ in range(_PINGS):
                if confd.Ask(queries.PING, None, [ip], timeout=_PING_SECONDS).received:
                    return None
            reasons.append(f"{ip} port {port}: no answer within {_PINGS * _PING_SECONDS:g} s")
    except errors.GenericError as err:
        logging.warning("%s cannot be checked: %s", constants.CONFD, err)
        return None
    return "; ".join(reasons) or "it does not listen"


def _ConfdAddresses(port: int) -> list[str]:
    """Return where the daemon listens.  In a virtual cluster others may listen everywhere: each has its own address."""
    if pathutils.IsVirtual():
        return [confd.OwnAddress()]
    listening = hosts.ListeningAt(port, pidfile.OwnUsers(constants.CONFD), udp=True)
    return sorted({{"0.0.0.0": _LOOPBACK, "::": "::1"}.get(ip, ip) for ip in listening})  # noqa: S104 - only compared


def _OwnAddresses() -> list[str]:
    """Return where the daemon may listen: everywhere, at this node's address, or at the cluster's if it is here."""
    store = ssconf.SimpleStore()
    found = [_LOOPBACK, store.GetNodePrimaryIPs().get(hosts.OwnName(), ""), store.GetMasterIP()]
    return [ip for ip in dict.fromkeys(filter(None, found)) if hosts.IsOwnAddress(ip)]


def _LookForRapi(given: str | None) -> str | None:
    """Return None if the daemon answers at the address given, else at one of its own; why not at each otherwise.

    None too where the address given is not of this machine: whoever answers there or not is not this daemon.

    Of its own addresses those count at which its user listens: whoever has an account here could answer at the others.
    """
    port = hosts.DaemonPort(constants.RAPI, constants.DEFAULT_RAPI_PORT)
    if given and not hosts.IsOwnAddress(given):
        logging.error("%s is not checked: %s is not an address of this machine", constants.RAPI, given)
        return None
    addresses = [given] if given else _OwnAddresses()
    listening = hosts.ListeningAt(port, pidfile.OwnUsers(constants.RAPI))
    reasons = []
    for ip in addresses:
        everywhere = {"::"} if ":" in ip else {"::", "0.0.0.0"}  # noqa: S104 - only compared
        if given or listening.intersection({ip, *everywhere}):
            why = ProbeRapi(ip, port)
            if why is None:
                return None
        else:
            why = "it does not listen there"
        reasons.append(f"{ip} port {port}: {why}")
    return "; ".join(reasons)


def _Kill(name: str) -> None:
    """End a daemon that does not even react to a signal; the REST daemon has nothing to lose."""
    pid = pidfile.Running(name)
    if pid is not None:
        logging.warning("%s (process %d) does not end when asked to: killing it", name, pid)
        try:
            pidfile.Signal(name, pid, signal.SIGKILL)
        except errors.PidFileLockError as err:
            logging.error("%s", err)
            return
        runtime.WaitProcess(pid, _KILL_SECONDS)


def ProbeRapi(ip: str, port: int) -> str | None:
    """Ask for the protocol's version; return why the answer shows no living daemon, None for one that lives.

    Whoever needs a password to ask has met a living one too.  The certificate is the administrator's and says nothing
    about an address of this machine, so it is not verified: nothing secret is sent.
    """
    host = f"[{ip}]" if ":" in ip else ip
    try:
        code, body = fetch.Fetch(f"https://{host}:{port}/version", _LIMITS)
    except fetch.FetchError as err:
        return str(err)
    if code == _UNAUTHORIZED:
        return None
    if code != _OK:
        return f"its answer has the status {code}"
    if body.strip() != b"%d" % constants.RAPI_VERSION:
        return "its answer is not the version that was expected"
    return None
