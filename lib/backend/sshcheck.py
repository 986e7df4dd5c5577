"""Whether this node's root reaches another node by SSH, and that one is who it should be (``nodelist`` of node_verify)."""

from __future__ import annotations

from ganeti import _autoconf, pathutils, runtime

CONNECT_TIMEOUT = 10
_TIMEOUT = 30
_SSCONF_LIMIT = 131072
_DEFAULT_PORT = 22


def BuildHostNameCheck(node: str, cluster_name: str, port: int, known_hosts: str) -> list[str]:
    """argv that prints the other node's full name; it never asks anything and trusts the cluster's host keys only."""
    command = 'if test -z "$GANETI_HOSTNAME"; then hostname --fqdn; else echo "$GANETI_HOSTNAME"; fi'
    variables = pathutils.EnvironmentForHost(node)
    if variables:
        settings = " ".join(f"{name}={runtime.ShellQuote(value)}" for name, value in variables.items())
        command = f"export {settings}; {command}"
    return [
        "ssh",
        "-oEscapeChar=none",
        "-oHashKnownHosts=no",
        f"-oGlobalKnownHostsFile={known_hosts}",
        "-oUserKnownHostsFile=/dev/null",
        "-oCheckHostIp=no",
        f"-oHostKeyAlias={cluster_name}",
        "-oBatchMode=yes",
        "-oStrictHostKeyChecking=yes",
        f"-oConnectTimeout={CONNECT_TIMEOUT}",
        f"-oPort={port}",
        "-q",
        f"{_autoconf.SSH_LOGIN_USER}@{node}",
        command,
    ]


def JudgeHostName(node: str, answer: str) -> str | None:
    """A short name is good enough; None when it fits."""
    found = answer.strip()
    if not found:
        return "remote host did not tell its name"
    if found == node or node.startswith(f"{found}."):
        return None
    return f"hostname mismatch, expected {node} but got {found}"


def HostNameProblem(node: str, cluster_name: str) -> str | None:
    result = runtime.RunCmd(
        BuildHostNameCheck(node, cluster_name, SshPort(node), pathutils.SSH_KNOWN_HOSTS_FILE), timeout=_TIMEOUT
    )
    if result.failed:
        # ssh -q says nothing of its own: the exit code is all there is.
        return f"ssh problem: {result.fail_reason}; try 'ssh {_autoconf.SSH_LOGIN_USER}@{node}' on this node"
    return JudgeHostName(node, result.stdout)


def SshPort(node: str) -> int:
    """The node's SSH port as ssconf has it."""
    try:
        text = runtime.ReadText(pathutils.SsconfFile("ssh_ports"), _SSCONF_LIMIT)
    except OSError:
        return _DEFAULT_PORT
    for line in text.splitlines():
        name, _, port = line.strip().partition("=")
        if name == node and port.isdigit():
            return int(port)
    return _DEFAULT_PORT
