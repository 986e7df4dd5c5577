"""A poller that is given bare descriptor numbers, as curl has them."""

from __future__ import annotations

import fcntl
import os

from ganeti import runtime


def test_a_number_can_be_let_go_and_watched_again() -> None:
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 600)
    poller = runtime.Poller()
    try:
        # Equal numbers made apart are different objects.
        poller.Register(int(str(high)), runtime.IN)
        poller.Unregister(int(str(high)))
        os.write(writer, b"x")
        assert poller.Poll(0) == []
        poller.Unregister(high)
        poller.Register(int(str(high)), runtime.IN)
        assert poller.Poll(0) == [(high, runtime.IN)]
    finally:
        poller.Close()
        for number in (reader, writer, high):
            os.close(number)
