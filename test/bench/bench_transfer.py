"""The transfer program, both ends on this machine.  Run by hand: ``python test/bench/bench_transfer.py [MiB [address]]``.

Random data goes from a file through TLS into another one, and with nothing done to it for comparison (``cp``).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.realcluster import WaitUntil  # noqa: E402

from ganeti import serializer, x509  # noqa: E402

_PROGRAM = (
    f"import sys; sys.path[:1] = [{sys.path[0]!r}]; from ganeti.tools.import_export import Main; sys.exit(Main())"
)


def _Start(folder: Path, mode: str, *options: str) -> tuple[subprocess.Popen[bytes], Path]:
    place = folder / mode
    place.mkdir()
    pem = str(folder / "pem")
    argv = [sys.executable, "-c", _PROGRAM, f"--key={pem}", f"--cert={pem}", f"--ca={pem}", "--magic=magic", *options]
    return subprocess.Popen([*argv, str(place / "status"), mode]), place / "status"


def _Port(status: Path) -> int:
    return int(WaitUntil(lambda: serializer.Load(status.read_bytes())["listen_port"], "the import listens"))


def _Transfer(source: Path, compress: str, address: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gnt-", dir=source.parent) as name:
        folder = Path(name)
        (folder / "pem").write_text(x509.MakeServerPem())
        how = f"--compress={compress}"
        to = f"--cmd-suffix=| dd of={folder}/target bs=1M conv=fsync status=none"
        receiver, status = _Start(folder, "import", how, f"--bind={address}", to)
        port = _Port(status)
        where = [f"--host={address}", f"--port={port}"]
        sender, _ = _Start(folder, "export", how, *where, f"--cmd-prefix=dd if={source} bs=1M status=none |")
        assert (sender.wait(), receiver.wait()) == (0, 0)


def Main(mib: int = 1024, address: str = "127.0.0.1") -> None:
    with tempfile.TemporaryDirectory(prefix="gnt-", dir="/var/tmp") as folder:
        source = Path(folder) / "source"
        subprocess.run(["dd", "if=/dev/urandom", f"of={source}", "bs=1M", f"count={mib}", "status=none"], check=True)
        for what in ("cp", "none", "gzip"):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            if what == "cp":
                subprocess.run(
                    ["dd", f"if={source}", f"of={folder}/copy", "bs=1M", "conv=fsync", "status=none"], check=True
                )
            else:
                _Transfer(source, what, address)
            seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{what:5} {mib} MiB: {seconds:.2f} s, {mib / seconds:.0f} MiB/s; CPU of both ends {used:.2f} s")


if __name__ == "__main__":
    Main(*(int(word) if word.isdigit() else word for word in sys.argv[1:]))  # type: ignore[arg-type]
