"""Whether this node's root reaches another node by SSH, and that one is who it should be (``nodelist`` of node_verify)."""

from __future__ import annotations

from ganeti import _autoconf, errors, runtime, ssconf, ssh

_TIMEOUT = 30
_DEFAULT_PORT = 22
_TELL_NAME = 'if test -z "$GANETI_HOSTNAME"; then hostname --fqdn; else echo "$GANETI_HOSTNAME"; fi'


def JudgeHostName(node: str, answer: str) -> str | None:
    """Return what is wrong with a host name; None when it matches; a short name is enough."""
    found = answer.strip()
    if not found:
        return "the remote host did not report its name"
    if found == node or node.startswith(f"{found}."):
        return None
    return f"hostname mismatch, expected {node} but got {found}"


def HostNameProblem(node: str, cluster_name: str, port: int | None = None) -> str | None:
    """Return what is wrong with a node seen from here; ``port``: None is the one that ssconf has."""
    argv = ssh.BuildCommand(node, _TELL_NAME, cluster_name, port or SshPort(node))
    result = runtime.RunCmd(argv, timeout=_TIMEOUT)
    if result.failed:
        # ssh -q prints nothing: the exit code is all there is.
        return f"ssh problem: {result.fail_reason}; try 'ssh {_autoconf.SSH_LOGIN_USER}@{node}' on this node"
    return JudgeHostName(node, result.stdout)


def SshPort(node: str) -> int:
    """Return the node's SSH port as ssconf has it."""
    try:
        return ssconf.SimpleStore().GetSshPortMap().get(node, _DEFAULT_PORT)
    except (errors.ConfigurationError, ValueError):
        return _DEFAULT_PORT
