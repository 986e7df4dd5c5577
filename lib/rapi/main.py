"""ganeti-rapi: the cluster's REST interface, on the master node."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from functools import partial
from typing import Any, NamedTuple, cast

from ganeti import constants, daemon, errors, hosts, pathutils, runtime, ssconf
from ganeti.daemon import logs
from ganeti.daemon.limits import RaiseDescriptorLimit
from ganeti.luxi import client as luxi_client
from ganeti.rapi import resources
from ganeti.rapi.callers import access, accesslog, tokens
from ganeti.rapi.master import MasterPool
from ganeti.rapi.requests import dispatch
from ganeti.rapi.transport import serving
from ganeti.rapi.transport.followed import FollowedFiles
from ganeti.runtime import protocols

_BACKLOG = 1024
# Seconds that a start waits for the master daemon's word.
_ASK_TIMEOUT = 10.0


def _Options() -> list[daemon.Option]:
    return [
        *daemon.NetworkOptions(constants.RAPI, constants.DEFAULT_RAPI_PORT),
        *daemon.SslOptions(pathutils.RAPI_CERT_FILE),
        daemon.Option(
            "--ssl-chain",
            dest="ssl_chain",
            default=None,
            metavar="FILE",
            help="Certificates between that of this daemon and that of the root",
        ),
        daemon.Option(
            "--require-authentication",
            dest="require_authentication",
            action="store_true",
            default=False,
            help="Let nobody read without logging in",
        ),
        daemon.ClientsOption("Calls to the master daemon at the same time, apart from those that wait for changes"),
    ]


def _Check(options: Any) -> int:
    daemon.CheckClients(options)
    try:
        master = ssconf.SimpleStore().GetMasterNode()
    except (OSError, errors.GenericError) as err:
        sys.stderr.write(f"{constants.RAPI}: this node is not in a cluster: {err}\n")
        return constants.EXIT_NOTCLUSTER
    own = hosts.OwnName()
    if own != master and own != _NameOfMaster():
        sys.stderr.write(f"{constants.RAPI}: this node, {own}, is not the master: {master} is\n")
        return constants.EXIT_NOTMASTER
    return constants.EXIT_SUCCESS


def _NameOfMaster() -> str:
    """Return what the master daemon here says, if there is one: after a fail-over the files may be a moment older."""
    try:
        with luxi_client.Client(connect_timeout=0, io_timeout=_ASK_TIMEOUT, retry_delays=()) as client:
            return str(client.QueryConfigValues(["master_node"])[0])
    except (errors.GenericError, OSError):
        return ""


class _Prepared(NamedTuple):
    listener: protocols.Socket
    context: ssl.SSLContext | None
    users: access.Users


def _Prepare(options: Any) -> _Prepared:
    RaiseDescriptorLimit()
    if options.syslog != logs.SYSLOG_ONLY:
        accesslog.Open(pathutils.LOG_RAPI_ACCESS)
    context = serving.TlsContext(*_TlsFiles(options)) if options.ssl else None
    users = access.Users(pathutils.RAPI_USERS_FILE)
    try:
        listener = runtime.ListenTcp(_Address(options), options.port, _BACKLOG)
    except OSError as err:
        raise errors.GenericError(f"{constants.RAPI}: {err.strerror or err}") from err
    return _Prepared(listener, context, users)


def _Address(options: Any) -> str:
    if options.bind_address is not None:
        return str(options.bind_address)
    return "::" if ssconf.SimpleStore().GetPrimaryIPFamily() == constants.IP6_FAMILY else ""


def _Execute(options: Any, prepared: _Prepared, stop: daemon.StopSignal) -> int:
    asyncio.run(_Serve(options, prepared, stop))
    return constants.EXIT_SUCCESS


async def _Serve(options: Any, prepared: _Prepared, stop: daemon.StopSignal) -> None:
    master = MasterPool(options.max_clients)
    gate = access.Access(prepared.users, options.require_authentication, tokens.Finder(master))
    application = dispatch.Application(resources.RESOURCES, master, gate)
    server = serving.MakeServer(application, prepared.context, stop)
    followed = [FollowedFiles([pathutils.RAPI_USERS_FILE], prepared.users.Load)]
    if prepared.context is not None:
        files = _TlsFiles(options)
        followed.append(FollowedFiles([name for name in files if name], partial(_Renew, prepared.context, files)))
    host, port, *_ = prepared.listener.getsockname()
    logging.info("Listening on %s, port %d", host, port)
    try:
        for files_followed in followed:
            files_followed.Start()
        prepared.users.Load()
        await server.serve([cast(Any, prepared.listener)])
    finally:
        for files_followed in followed:
            files_followed.Stop()
        master.Close()


def _TlsFiles(options: Any) -> tuple[str, str, str | None]:
    return options.ssl_cert, options.ssl_key, options.ssl_chain


def _Renew(context: ssl.SSLContext, files: tuple[str, str, str | None]) -> None:
    """Use the certificate as it is now, unless it cannot be used: then the one of before stays."""
    try:
        serving.TlsContext(*files)
        serving.LoadCertificate(context, *files)
    except errors.X509CertError as err:
        logging.error("The certificate is not read again: %s", err)
    else:
        logging.info("New connections get the certificate of %s as it is now", files[0])


def Main() -> int:
    return daemon.GenericMain(constants.RAPI, "Ganeti Remote API", _Options(), _Check, _Prepare, _Execute)
