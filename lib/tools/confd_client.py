"""confd-client: checks that ganeti-confd answers, and how quickly."""

from __future__ import annotations

import optparse
import sys
from typing import Any

from ganeti import confd, constants, errors, runtime
from ganeti.confd import queries
from ganeti.tools import common
from ganeti.tools.query_config import KeyAndAddress, Parser
from ganeti.utils.text import Printable

_SHOWN_ITEMS = 5
_MASTER_FIELDS = [queries.FIELD_NAME, queries.FIELD_CLUSTER_IP, queries.FIELD_MASTER_IP]


class _Checker:
    """Asks one daemon."""

    def __init__(self, key: bytes, address: str):
        self._address = address
        self._store = confd.StoreCallback()
        self._counter = confd.CountingCallback(self._store)
        self.link = confd.Link(key, [address], self._counter)

    def Ask(self, kind: int, query: Any = None) -> Any:
        """Return the answer; raises ConfdClientError without a good one."""
        rsalt = self.link.Send(kind, query)
        self._counter.Register(rsalt)
        self.link.WaitForReply(rsalt)
        event = self._store.Newest(rsalt)
        what = queries.QUERY_TYPES[kind].name
        if event is None or event.reply is None or not self._counter.AllAnswered():
            raise errors.ConfdClientError(f"{what}: {constants.CONFD} did not reply at {self._address}")
        if event.reply.status != queries.OK:
            raise errors.ConfdClientError(f"{what}: {queries.ErrorText(event.reply.status, event.reply.answer)}")
        return event.reply.answer

    def Show(self, kind: int, query: Any = None) -> Any:
        """Ask, and print that it worked; return the answer."""
        answer = self.Ask(kind, query)
        print(f"- {queries.QUERY_TYPES[kind].name}: OK{_Shown(answer)}")
        return answer

    def Time(self, what: str, count: int, kind: int, query: Any = None) -> None:
        """Print how long a question takes on average."""
        begin = runtime.Monotonic()
        for _ in range(count):
            self.Ask(kind, query)
        print(f"  * {(runtime.Monotonic() - begin) * 1000 / count:.3f}ms per {what} request")


def _Shown(answer: Any) -> str:
    if not isinstance(answer, list):
        return "" if answer is None else f" ({Printable(str(answer))})"
    items = [Printable(str(item)) for item in answer[:_SHOWN_ITEMS]]
    return f" ({', '.join([*items, '...'] if len(answer) > _SHOWN_ITEMS else items)})"


def _Run(options: optparse.Values) -> int:
    checker = _Checker(*KeyAndAddress(options))
    with checker.link:
        checker.Show(queries.PING)
        master = checker.Show(queries.CLUSTER_MASTER)
        checker.Show(queries.CLUSTER_MASTER, {queries.KEY_FIELDS: _MASTER_FIELDS})
        checker.Show(queries.NODE_ROLE, master)
        checker.Show(queries.NODE_IPS)
        checker.Show(queries.CANDIDATE_IPS)
        addresses = checker.Show(queries.INSTANCE_IPS)
        if addresses:
            checker.Show(queries.NODE_IP_BY_INSTANCE_IP, {queries.KEY_IPS: addresses[:_SHOWN_ITEMS]})
        if options.requests > 0:
            checker.Time("ping", options.requests, queries.PING)
            checker.Time("instance-ip", options.requests, queries.INSTANCE_IPS)
    return constants.EXIT_SUCCESS


def Main() -> int:
    parser = Parser("%prog [options]")
    parser.add_option(
        "-r",
        "--requests",
        dest="requests",
        type="int",
        default=100,
        help="How many requests are timed, 0 for none [%default]",
    )
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if arguments:
        parser.print_usage(sys.stderr)
        return constants.EXIT_CONFIG
    return common.RunTool(lambda: _Run(options))
