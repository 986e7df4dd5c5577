"""Whether this node's root reaches another node by SSH, and that one is who it should be (``nodelist`` of node_verify)."""

from __future__ import annotations

from ganeti import errors, runtime, ssconf, ssh
from ganeti.utils.text import Printable, Shortened

_TIMEOUT = 30
_DEFAULT_PORT = 22
_LONGEST, _LONGEST_REASON = 100, 500
_MOST = 4096
_TELL_NAME = 'if test -z "$GANETI_HOSTNAME"; then hostname --fqdn; else echo "$GANETI_HOSTNAME"; fi'


def JudgeHostName(node: str, answer: str) -> str | None:
    """Return what is wrong with a host name; None when it matches; a short name is enough."""
    found = answer.strip()
    if not found:
        return "the remote host did not report its name"
    if found == node or node.startswith(f"{found}."):
        return None
    # It is what a node likes to say, up to the limit of a program's output; what asked it puts it into an answer.
    return f"hostname mismatch, expected {node} but got {Shortened(Printable(found[:_MOST]), _LONGEST)}"


def HostNameProblem(node: str, cluster_name: str, port: int | None = None) -> str | None:
    """Return what is wrong with a node seen from here; ``port``: None is the one that ssconf has."""
    used = port or SshPort(node)
    result = runtime.RunCmd(ssh.BuildCommand(node, _TELL_NAME, cluster_name, used), timeout=_TIMEOUT)
    if result.failed:
        # An administrator's ssh has known_hosts and a port of its own.
        return f"ssh problem: {Reason(result)}; to try it on this node: {ssh.TrialCommand(node, cluster_name, used)}"
    return JudgeHostName(node, result.stdout)


def Reason(result: runtime.RunResult) -> str:
    """Return why ssh failed, in one line: the command line is long, and only the end of what was said is telling."""
    last = (result.stderr.strip().split("\n") or [""])[-1].strip()
    return Shortened(Printable(last[-_MOST:]), _LONGEST_REASON) or result.cause


def SshPort(node: str) -> int:
    """Return the node's SSH port as ssconf has it."""
    try:
        return ssconf.SimpleStore().GetSshPortMap().get(node, _DEFAULT_PORT)
    except (errors.ConfigurationError, ValueError):
        return _DEFAULT_PORT
