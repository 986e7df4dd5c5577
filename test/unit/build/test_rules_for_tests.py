"""The rules of test/conftest.py bite: time limit, skips, leftovers, seed."""

import os
import shutil
import socket
import subprocess
import sys

import pytest
from support import patience
from support.realcluster import WaitUntil

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


@pytest.fixture
def inner(tmp_path):
    """Runs pytest on one test file under our conftest; gives (exit code, output)."""
    shutil.copy(os.path.join(TOP, "test", "conftest.py"), tmp_path)
    (tmp_path / "skips.txt").write_text("test_inner.py::test_allowed*: the reason\n")

    def run(text, **variables):
        (tmp_path / "test_inner.py").write_text(text)
        environment = {k: v for k, v in os.environ.items() if k not in ("CI", "GANETI_TEST_RUN", "SEED")}
        environment["PYTHONPATH"] = os.path.join(TOP, "test")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "test_inner.py"],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=50 * patience.MOST,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_quiet_run_is_fine(inner):
    code, text = inner("def test_a(): pass\n")
    assert code == 0, text


def test_overtime_fails_with_the_stacks_of_all_threads(inner):
    code, text = inner(
        """
import pytest, threading
def _Waiter(event): event.wait()
@pytest.mark.limit(0.3)
def test_a():
    thread = threading.Thread(target=_Waiter, args=(threading.Event(),), daemon=True)
    thread.start()
    thread.join()
def test_next(): pass
"""
    )
    assert code == 1
    assert "took longer than 0.3 s" in text
    assert "in _Waiter" in text
    assert "1 failed, 1 passed" in text


def test_skip_needs_a_listed_reason(inner):
    text = "import pytest\n@pytest.mark.skip(reason='not today')\ndef test_{}(): assert 0\n"
    code, output = inner(text.format("allowed_one"))
    assert code == 0, output
    code, output = inner(text.format("other"))
    assert code == 1
    assert "test_inner.py::test_other: Skipped: not today" in output


def test_expected_failure_is_a_skip_too(inner):
    code, output = inner("import pytest\n@pytest.mark.xfail\ndef test_a(): assert 0\n")
    assert code == 1
    assert "not listed" in output


def test_process_left_behind(inner):
    left = f"sleep 987.{os.getpid()}"  # nobody else's: another run may play the same story
    code, output = inner(
        f"""
import subprocess
def test_a():
    subprocess.Popen(["sh", "-c", "setsid {left} >/dev/null 2>&1 </dev/null &"])
"""
    )
    assert code == 1
    assert left in output
    # It was killed; on a busy machine it may take a moment until it is gone.
    WaitUntil(lambda: not subprocess.run(["pgrep", "-fx", left], stdout=subprocess.PIPE).stdout, "it is gone")


def test_socket_left_behind(inner):
    code, output = inner(
        """
import socket
KEPT = []
def test_a():
    server = socket.create_server(("127.0.0.1", 0))
    KEPT.append(server)
"""
    )
    assert code == 1
    assert "listening socket tcp" in output


def test_seed_repeats_a_run(inner):
    text = "import random\ndef test_a(seed): print('drawn', seed, random.random()); assert 0\n"
    first, again, other = (inner(text, SEED=s)[1] for s in ("17", "17", "18"))

    def drawn(output):
        return next(line for line in output.splitlines() if line.startswith("drawn"))

    assert drawn(first) == drawn(again) != drawn(other)
    assert "seed: 17 (repeat with SEED=17)" in first


def test_leases_do_not_meet(addresses):
    from support import allocator

    other = allocator.Lease()
    try:
        mine = {addresses.Address() for _ in range(254)}
        assert len(mine) == 254
        assert other.Address() not in mine
        assert addresses.Port() != addresses.Port()
        with pytest.raises(RuntimeError, match="given out"):
            addresses.Address()
    finally:
        other.Release()


def test_a_network_on_which_a_killed_run_still_listens_is_passed_over(addresses):
    from support import allocator

    left = allocator.Lease()
    with socket.create_server((left.Address(), left.Port())):
        left.Release()
        other = allocator.Lease()
        try:
            assert other.prefix != left.prefix
        finally:
            other.Release()
