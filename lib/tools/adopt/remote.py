"""The same on many nodes at once: this program on each of them, over SSH, and here without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ganeti import errors, pathutils, runtime, serializer, ssh
from ganeti.utils import parallel

_TIMEOUT = 900.0
_WORDS = "--on-node"


class Node(NamedTuple):
    """``own``: this machine.  ``cluster``: its name, which its host key is known by."""

    name: str
    port: int
    own: bool
    cluster: str


def Ask(nodes: Sequence[Node], *steps: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Do these steps on all nodes at once; return what they answered and why others failed, by name."""
    text = serializer.Dump({"steps": steps, **arguments})

    def ask(node: Node) -> runtime.RunResult:
        argv = [pathutils.ADOPT, _WORDS]
        if not node.own:
            argv = ssh.BuildCommand(node.name, " ".join(argv), node.cluster, port=node.port)
        return runtime.RunCmd(argv, stdin=text + "\n", timeout=_TIMEOUT)

    values: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for node, result in parallel.Each(nodes, ask):
        try:
            if result.failed:
                raise ValueError(f"{result.cause}: {result.stderr.strip()[-300:]}")
            answer = serializer.Load(result.stdout)
            if not answer["ok"]:
                raise ValueError(answer["value"])
            values[node.name] = answer["value"]
        except (errors.ParseError, LookupError, TypeError, ValueError) as err:
            failures[node.name] = str(err)
    return values, failures


def Do(nodes: Sequence[Node], *steps: str, **arguments: Any) -> dict[str, Any]:
    """Do these steps on all nodes at once and return what they answered; OpExecError with all reasons if any failed."""
    values, failures = Ask(nodes, *steps, **arguments)
    if failures:
        raise errors.OpExecError("\n".join(f"{name}: {why}" for name, why in failures.items()))
    return values
