"""The same on many nodes at once: this program on each of them, over SSH, and here without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ganeti import errors, ht, pathutils, runtime, serializer, ssh
from ganeti.tools.adopt import answers
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
            values[node.name] = _Value(result, steps[-1])
        except errors.GenericError as err:
            failures[node.name] = str(err)
    return values, failures


def _Value(result: runtime.RunResult, step: str) -> Any:
    """Return what the last step returned on a node; OpExecError if it failed, ParseError too if the reply cannot be used."""
    if result.failed:
        raise errors.OpExecError(f"{result.cause}: {result.stderr.strip()[-300:]}")
    answer = serializer.Load(result.stdout)
    _Check(answers.ENVELOPE, answer, step)
    if not answer["ok"]:
        raise errors.OpExecError(str(answer["value"]))
    _Check(answers.BY_STEP.get(step, ht.TAny), answer["value"], step)
    return answer["value"]


def _Check(shape: ht.Type, value: Any, step: str) -> None:
    if not shape(value):
        raise errors.ParseError(
            f"its reply to '{step}' cannot be used ({shape.Problem(value)}); install the same version of this release as here"
        )


def Do(nodes: Sequence[Node], *steps: str, **arguments: Any) -> dict[str, Any]:
    """Do these steps on all nodes at once and return what they answered; OpExecError with all reasons if any failed."""
    values, failures = Ask(nodes, *steps, **arguments)
    if failures:
        raise errors.OpExecError("\n".join(f"{name}: {why}" for name, why in failures.items()))
    return values
