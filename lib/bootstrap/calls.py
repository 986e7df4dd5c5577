"""Calls to nodes without a master: by ssconf and by name, without an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ganeti.rpc import RpcRunner, resolver
from ganeti.rpc.curl import CurlTransport


@contextmanager
def BootstrapRunner() -> Iterator[RpcRunner]:
    """Yield a runner for the block; noded lets it do the few things that bootstrap needs."""
    transport = CurlTransport()
    try:
        yield RpcRunner(transport, resolver.ResolveBySsconf, lambda: None)
    finally:
        transport.Close()
