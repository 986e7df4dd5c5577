"""confd: signed questions about the configuration, sent to master candidates by UDP and answered without the master.

::

    Ask --> Client --> wire.PackRequest --> datagram --> wire.OpenRequest --> answers.Answers --> View   (ganeti-confd)
             |  coverage, expiry, replies                 size, magic, HMAC,    what each query    the configuration,
             '- filter, counter, store                    clock, replays        means              without secrets

A program that wants one answer needs this only; it works while the master is down::

    result = confd.Ask(queries.NODE_ROLE, "node2.example.com", confd.Peers(), coverage=confd.EVERY_PEER)
    if result.reply is None or result.timed_out or result.inconsistent:
        ...                                  # nothing is known for sure
    elif result.reply.status == queries.OK and result.reply.answer == queries.ROLE_OFFLINE:
        ...

``Ask`` returns the newest reply once enough peers have answered; another peer may know something newer.  Where a wrong
answer does harm, use a ``Link`` and wait until all peers have answered, as the watcher does.

* ``Peers()`` -- addresses of the master candidates, from ssconf; ``OwnAddress()`` -- that of this node's daemon
* ``Ask(kind, query, peers, coverage, timeout)`` -- send, wait for enough replies, return a ``Result``; raises
  ConfdClientError for wrong use and ConfigurationError where ``hmac.key`` cannot be read
* ``Link`` -- the same step by step, for several questions at once, or to wait for all peers: ``Send``, ``WaitForReply``
* ``Client`` -- the algorithm without any I/O: its caller sends, receives and has the clock
* ``queries`` -- every query type, status, error, role and field, each with its number

Rooms: ``wire`` and ``queries`` (both sides), ``client``, ``callbacks``, ``link`` (clients), ``view``, ``answers`` (daemon).
The pages: doc/confd.rst for users, doc/reference/interfaces.md (e) for release 3.1.

Glossary

* salt -- of a request: the client's clock; of a reply: the request's rsalt, by which a client recognises it
* peer -- a master candidate's address
* coverage -- how many peers get a question
* serial -- that of the object asked about: of two answers the one with the higher serial is newer; those with the same one
  may differ, where an answer holds more than the object (doc/confd.rst)
"""

from ganeti.confd.callbacks import CountingCallback, FilterCallback, StoreCallback
from ganeti.confd.client import AUTOMATIC, EVERY_PEER, Canonical, Client, Event, Waiting
from ganeti.confd.link import Ask, Link, OwnAddress, Peers, ReadKey, Result
from ganeti.confd.wire import BadDatagram, Reply, Request

__all__ = [
    "AUTOMATIC",
    "EVERY_PEER",
    "Ask",
    "BadDatagram",
    "Canonical",
    "Client",
    "CountingCallback",
    "Event",
    "FilterCallback",
    "Link",
    "OwnAddress",
    "Peers",
    "ReadKey",
    "Reply",
    "Request",
    "Result",
    "StoreCallback",
    "Waiting",
]
