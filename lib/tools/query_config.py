"""query-config PATH...: prints parts of the configuration, which ganeti-confd reports."""

from __future__ import annotations

import logging
import optparse
import sys
from typing import Any

from ganeti import confd, constants, serializer
from ganeti.confd import queries
from ganeti.tools import common
from ganeti.utils.text import Printable


def Parser(usage: str) -> optparse.OptionParser:
    """Return a parser with the options of the tools that ask confd."""
    parser = common.Parser(usage)
    parser.add_option(
        "--hmac", dest="hmac", metavar="KEY", help="Key to sign with, visible in the process list [content of hmac.key]"
    )
    parser.add_option("-a", "--address", dest="address", help="Address of the daemon [this machine's]")
    return parser


def KeyAndAddress(options: optparse.Values) -> tuple[bytes, str]:
    """Return the key and the address that the options mean; raises ConfigurationError."""
    key = confd.ReadKey() if options.hmac is None else options.hmac.encode("utf-8", "surrogateescape")
    return key, confd.OwnAddress() if options.address is None else options.address


def _Text(reply: confd.Reply) -> str:
    answer: Any = reply.answer
    return answer if isinstance(answer, str) else serializer.Dump(answer)


def _Run(options: optparse.Values, paths: list[str]) -> int:
    key, address = KeyAndAddress(options)
    width = max(map(len, paths))
    store = confd.StoreCallback()
    with confd.Link(key, [address], store) as link:
        for path in paths:
            rsalt = link.Send(queries.CONFIG, path)
            link.WaitForReply(rsalt)
            event = store.Newest(rsalt)
            if event is None or event.reply is None:
                logging.error("%s did not reply at %s", constants.CONFD, address)
                return constants.EXIT_FAILURE
            print(f"{Printable(path).ljust(width)}\t{Printable(_Text(event.reply))}")
    return constants.EXIT_SUCCESS


def Main() -> int:
    parser = Parser("%prog [options] PATH...")
    options, paths = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if not paths:
        parser.print_usage(sys.stderr)
        return constants.EXIT_CONFIG
    return common.RunTool(lambda: _Run(options, paths))
