"""The SSH daemon of a machine, at its own address: asyncssh, with the keys below the machine's directory.

::

    with SshServer(node, address, path):     the real ssh, called by a node, logs in and runs programs of the tree there

As a daemon that was told to, it reads its host key anew for each connection; authorized_keys at each login.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from typing import Any

import asyncssh

from support.layout import WriteProgram
from support.virtualnode import TOP, VirtualNode

# Not 22: a machine with an SSH daemon of its own has that port at every address.
PORT = 2222
HOST_KEY = "/etc/ssh/ssh_host_rsa_key"
USER_KEY = "/root/.ssh/id_rsa"
AUTHORIZED = "/root/.ssh/authorized_keys"
# The keys of the calling node, which has a directory of its own, and none of this machine's; names as the nodes know them.
# All that ssh looks for by itself, unless the command names one.
_SSH = """#!/bin/sh
keys= named=
for word; do
  case $word in
    root@*) address=$(awk -v name="${{word#root@}}" '$2 == name {{ print $1 }}' "$GANETI_ROOTDIR/../hosts") ;;
    -oIdentityFile=*) named=1 ;;
  esac
done
[ "$named" ] || for kind in rsa ecdsa ed25519 dsa; do
  key="$GANETI_ROOTDIR{folder}/id_$kind"
  [ ! -e "$key" ] || keys="$keys -oIdentityFile=$key"
done
[ "$named" ] || keys="-oIdentitiesOnly=yes $keys"
exec {ssh} -F none $keys -oHostName="$address" "$@"
"""


def WriteClient(folder: str) -> str:
    """An ``ssh`` for the PATH of nodes that logs in with the keys of the node that calls it; returns the folder."""
    program = shutil.which("ssh")
    assert program
    WriteProgram(os.path.join(folder, "ssh"), _SSH.format(ssh=program, folder=os.path.dirname(USER_KEY)))
    return folder


def MakeKey(path: str) -> str:
    """A key pair without a passphrase, unless it is there; returns the public line."""
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path], check=True, timeout=60)
    with open(path + ".pub", encoding="utf-8") as stream:
        return stream.read().strip()


class _Login(asyncssh.SSHServer):
    def __init__(self, node: VirtualNode):
        self._node = node
        self._connection: Any = None

    def connection_made(self, conn: Any) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        path = self._node.Path(AUTHORIZED)
        if username == "root" and os.path.exists(path) and os.path.getsize(path):
            self._connection.set_authorized_keys(path)
        return True


class SshServer:
    """Serves until Close.  ``path``: where programs are looked for.  ``commands``: what was run, in order.

    ``broken``: a word; commands that contain it fail with what the shell says in its place.  ``rejected``: a pattern of types
    of keys that the daemon's own settings do not allow, as ``PubkeyAcceptedAlgorithms``.
    """

    def __init__(self, node: VirtualNode, address: str, path: str):
        self.node = node
        self._path = path
        self.commands: list[str] = []
        self.broken: dict[str, str] = {}
        self.rejected = ""
        MakeKey(node.Path(HOST_KEY))
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server((address, PORT))
        self._socket.setblocking(False)
        self._thread = threading.Thread(target=self._Run, name=f"sshd-{node.name}")
        self._thread.start()

    def __enter__(self) -> SshServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    def Close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._socket.close()

    def _Run(self) -> None:
        serving = self._loop.create_task(self._Serve())
        self._loop.run_forever()
        tasks = [*asyncio.all_tasks(self._loop), serving]
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _Serve(self) -> None:
        connections = set()
        while True:
            sock, _ = await self._loop.sock_accept(self._socket)
            connection = self._loop.create_task(self._Connection(sock))
            connections.add(connection)
            connection.add_done_callback(connections.discard)

    async def _Connection(self, sock: socket.socket) -> None:
        try:
            connection = await asyncssh.run_server(
                sock,
                server_host_keys=[self.node.Path(HOST_KEY)],
                server_factory=lambda: _Login(self.node),
                process_factory=self._Command,
                encoding=None,
                signature_algs=f"-{self.rejected}" if self.rejected else (),
            )
            await connection.wait_closed()
        except (asyncssh.Error, OSError):
            pass  # a client that did not like the key, or was not let in

    async def _Command(self, process: Any) -> None:
        command = str(process.command)
        self.commands.append(command)
        for word, instead in self.broken.items():
            if word in command:
                command = instead
        environment = {"PATH": self._path, "HOME": "/root", "PYTHONPATH": TOP, "LC_ALL": "C"}
        stdin = await process.stdin.read()
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, env=environment, cwd=self.node.root,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            stdout, stderr = await shell.communicate(stdin)
        except asyncio.CancelledError:
            # The daemon ends in the middle of a command.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            await shell.communicate()
            raise
        process.stdout.write(stdout)
        process.stderr.write(stderr)
        process.exit(shell.returncode or 0)
