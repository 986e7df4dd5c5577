"""Calls from the master to the node daemons: one table, one client, one dispatcher, two transports.

::

    master                                                        node
    job thread -> runner.RpcRunner -> Transport.Submit            server.Dispatcher -> gate -> handler (backend, store)
                    |  encoders        curl.CurlTransport  --TLS-->  http, in a child             ^
                    |                  simulated.SimulatedTransport  --faulty network----------+
                    +--- procedures.PROCEDURES: names, arguments, time-outs, what changes something ---+

What travels is release 3.1's (doc/reference/noderpc.md): POST, a JSON list of arguments, ``[true, payload]`` or ``[false, text]``.
Added by us: the header ``X-Ganeti-Epoch`` on calls that change something, status 409 when a newer master is known, the
``store_*`` procedures.

Glossary

* procedure -- a row of the table; what one call does on one node
* encoding -- how an argument is written for the wire, and the shape the node demands
* epoch -- NUMBER.RUN of the calling master; a node that knows a newer one refuses (``EpochRefused``)
* gate -- looks at the epoch and books a changing call while it runs; the store implements it
* transport -- takes a request, gives exactly one answer
"""

from __future__ import annotations

from ganeti.rpc.base import Answer, EpochRefused, Gate, Request, Transport
from ganeti.rpc.procedures import PROCEDURES, Arg, Procedure
from ganeti.rpc.runner import Notice, RpcResult, RpcRunner

__all__ = [
    "PROCEDURES",
    "Answer",
    "Arg",
    "EpochRefused",
    "Gate",
    "Notice",
    "Procedure",
    "Request",
    "RpcResult",
    "RpcRunner",
    "Transport",
]
