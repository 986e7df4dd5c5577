"""gnt-instance console: connect to the console of a running instance, or say how."""

from __future__ import annotations

import shlex
from typing import Any

from ganeti import constants, errors, pathutils, runtime
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    client = jobs.GetClient()
    answer = client.Query("instance", ["name", "console", "oper_state"], ["|", ["==", "name", name]])
    if not answer["data"]:
        raise errors.OpPrereqError(f"Instance '{name}' does not exist", errors.ECODE_NOENT)
    (_, full_name), (_, console), (_, running) = answer["data"][0]
    if console is None:
        if running:
            raise errors.OpExecError(f"Console information for instance {full_name} is unavailable")
        raise errors.OpExecError(f"Instance {full_name} is not running, can't get console")
    (cluster_name,) = client.Call("QueryConfigValues", [["cluster_name"]])
    return _Show(console, cluster_name, options.show_command)


def _Show(console: dict[str, Any], cluster_name: str, only_show: bool) -> int:
    kind = console["kind"]
    if kind == "msg":
        output.ToStdout(console["message"])
    elif kind == "vnc":
        host, port = console["host"], console["port"]
        display = console.get("display")
        output.ToStdout(
            f"Instance {console['instance']} has VNC listening on {host}:{port} (display {display}), URL <vnc://{host}:{port}/>"
        )
    elif kind == "spice":
        output.ToStdout(f"Instance {console['instance']} has SPICE listening on {console['host']}:{console['port']}")
    elif kind == "ssh":
        argv = ConsoleCommand(console, cluster_name)
        if only_show:
            output.ToStdout(shlex.join(argv))
            return constants.EXIT_SUCCESS
        result = runtime.RunInteractive(argv)
        if result:
            raise errors.OpExecError(
                f"Connection to console of instance {console['instance']} failed (exit code {result}); command was: {shlex.join(argv)}"
            )
    else:
        raise errors.OpExecError(f"Unknown console type '{kind}'")
    return constants.EXIT_SUCCESS


def ConsoleCommand(console: dict[str, Any], cluster_name: str) -> list[str]:
    """Return the program that shows the console: through SSH, or directly where the node is on this machine."""
    command = console["command"]
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if pathutils.IsVirtual():
        environment = pathutils.EnvironmentForHost(console["host"])
        return ["env", *(f"{name}={value}" for name, value in environment.items()), *words]
    return [
        "ssh",
        "-oEscapeChar=none",
        "-oHashKnownHosts=no",
        f"-oGlobalKnownHostsFile={pathutils.SSH_KNOWN_HOSTS_FILE}",
        "-oUserKnownHostsFile=/dev/null",
        "-oCheckHostIp=no",
        "-oConnectTimeout=10",
        f"-oHostKeyAlias={cluster_name}",
        f"-oPort={console.get('port') or 22}",
        "-oBatchMode=yes",
        "-oStrictHostKeyChecking=yes",
        "-4",
        "-t",
        "-t",
        f"{console['user']}@{console['host']}",
        shlex.join(words),
    ]


COMMAND = Command(Run, "Connect to the console of an instance", (One("instance"),), (o.PRIORITY, o.SHOW_CMD))
