"""The scheduler, time, processes and faults of the simulation."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading

import pytest
from simulated import Deadlock, Invocation, SimulationError, StepsExceeded, World, pool

from ganeti import errors, runtime

_ROOT = pathlib.Path(__file__).parents[3]


def _Busy() -> None:
    """A program with a bit of everything."""
    lock, queue = runtime.Lock(), runtime.Queue()
    runtime.MakeDirs("/srv")
    database = runtime.OpenDatabase("/srv/db")
    with database.Transaction():
        database.Execute("CREATE TABLE t (a)")

    def work(number: int) -> None:
        for turn in range(4):
            with lock:
                runtime.WriteFile(f"/srv/{number}", str(turn))
            runtime.Sleep(runtime.Random().random() / 10)
            with database.Transaction():
                database.Execute("INSERT INTO t VALUES (?)", (runtime.NewUuid(),))
        queue.put(number)

    for number in range(4):
        runtime.Thread(work, f"worker {number}", (number,)).start()
    assert sorted(queue.get() for _ in range(4)) == [0, 1, 2, 3]


def _TraceOf(seed: int) -> list:
    with World(seed, trace=True) as world:
        first, second = world.AddMachine("node1"), world.AddMachine("node2")
        first.StartProcess(_Busy, "busy")
        second.StartProcess(_Busy, "busy")
        world.Schedule(0.05, second.PowerOff)
        assert world.Run()
        assert world.failures == []
        assert world.trace is not None
        return world.trace


class TestDeterminism:
    def test_a_seed_gives_the_same_steps_every_time(self) -> None:
        first = _TraceOf(7)
        assert len(first) > 200
        assert _TraceOf(7) == first
        assert _TraceOf(8) != first

    def test_a_seed_gives_the_same_steps_in_every_process(self) -> None:
        script = (
            "import test_simulation as t, hashlib; print(hashlib.sha256(repr(t._TraceOf(11)).encode()).hexdigest())"
        )
        env = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": f"{_ROOT}:{_ROOT}/test:{pathlib.Path(__file__).parent}",
        }
        hashes = [subprocess.check_output([sys.executable, "-c", script], env=env, cwd=_ROOT) for _ in range(2)]
        assert len(hashes[0]) == 65
        assert hashes[0] == hashes[1]

    def test_ids_and_random_numbers_come_from_the_seed(self) -> None:
        def draw() -> tuple:
            return runtime.NewUuid(), runtime.RandomBytes(4), runtime.Random().random()

        def drawn(seed: int) -> list:
            with World(seed) as world:
                machines = [world.AddMachine(name) for name in ("a", "b")]
                return [machine.Call(draw) for machine in machines]

        assert drawn(1) == drawn(1)
        assert drawn(1) != drawn(2)
        assert drawn(1)[0] != drawn(1)[1]

    def test_a_race_is_found_by_some_seed_and_not_by_a_lock(self) -> None:
        def count(guarded: bool) -> int:
            lock = runtime.Lock()
            total = [0]

            def add() -> None:
                for _ in range(3):
                    if guarded:
                        lock.acquire()
                    value = total[0]
                    runtime.Time()  # where another thread may go on
                    total[0] = value + 1
                    if guarded:
                        lock.release()

            threads = [runtime.Thread(add, f"adder {n}") for n in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return total[0]

        def results(guarded: bool) -> set[int]:
            found = set()
            for seed in range(20):
                with World(seed) as world:
                    found.add(world.AddMachine("n").Call(count, guarded))
            return found

        assert results(True) == {9}
        assert len(results(False)) > 2


class TestTime:
    def test_time_jumps_when_nobody_can_run(self) -> None:
        def sleep() -> list[float]:
            seen = [runtime.Time()]
            runtime.Sleep(86400)
            seen.append(runtime.Time())
            return seen

        with World(1) as world:
            machine = world.AddMachine("n")
            assert world.now == 1_700_000_000
            machine.clock_offset = 30.0
            first, second = machine.Call(sleep)
            assert first == pytest.approx(1_700_000_030, abs=0.01)
            assert second == pytest.approx(first + 86400, abs=0.01)
            assert world.elapsed == pytest.approx(86400, abs=0.01)

    def test_a_clock_that_jumps_leaves_the_monotonic_one_alone(self) -> None:
        def look() -> tuple[float, float]:
            return runtime.Time(), runtime.Monotonic()

        with World(1) as world:
            machine = world.AddMachine("n")
            wall, steady = machine.Call(look)
            machine.clock_offset = -3600.0
            world.RunFor(10)
            later_wall, later_steady = machine.Call(look)
            assert later_wall - wall == pytest.approx(-3590, abs=0.01)
            assert later_steady - steady == pytest.approx(10, abs=0.01)

    def test_a_loop_that_only_looks_at_the_clock_ends(self) -> None:
        def loop() -> None:
            until = runtime.Monotonic() + 0.05
            while runtime.Monotonic() < until:
                pass

        with World(1) as world:
            world.AddMachine("n").Call(loop)
            assert 0.05 <= world.elapsed < 0.06

    def test_scheduled_actions_happen_between_steps_outside_of_threads(self) -> None:
        with World(3) as world:
            machine = world.AddMachine("n")
            seen = []

            def note() -> None:
                seen.append((round(world.elapsed, 3), threading.current_thread() is threading.main_thread()))
                assert runtime.Time() < 1_600_000_000 or world.current is None

            world.Schedule(5, note)
            world.Schedule(2, note)
            machine.Call(lambda: runtime.Sleep(10))
            assert [when for when, _ in seen] == [pytest.approx(2, abs=0.01), pytest.approx(5, abs=0.01)]
            assert all(outside for _, outside in seen)


class TestRun:
    def test_run_stops_where_it_is_told_to(self) -> None:
        def tick(seen: list[int]) -> None:
            for number in range(100):
                seen.append(number)
                runtime.Sleep(1)

        with World(1) as world:
            seen: list[int] = []
            process = world.AddMachine("n").StartProcess(tick, "ticker", (seen,))
            assert world.Run(until=lambda: len(seen) == 5)
            assert seen == [0, 1, 2, 3, 4]
            assert world.Run(max_steps=3) is False
            assert len(seen) == 8
            world.RunFor(10.5)
            assert len(seen) == 18
            with pytest.raises(StepsExceeded, match="ticker"):
                world.Run(until=lambda: False, max_steps=10)
            assert world.Run()
            assert len(seen) == 100
            assert not process.alive
            assert process.exit_code == 0
            with pytest.raises(SimulationError, match="ended"):
                world.Run(until=lambda: False)

    def test_step_lets_one_thread_go_to_its_next_call(self) -> None:
        seen: list[str] = []

        def work(name: str) -> None:
            for number in range(3):
                seen.append(f"{name}{number}")
                runtime.Time()

        with World(1) as world:
            machine = world.AddMachine("n")
            machine.StartProcess(work, "p", ("a",))
            machine.StartProcess(work, "p", ("b",))
            count = 0
            while world.Step():
                count += 1
                assert len(seen) <= count
            assert sorted(seen) == ["a0", "a1", "a2", "b0", "b1", "b2"]
            assert world.Step() is False

    def test_a_deadlock_shows_who_waits_where(self) -> None:
        def lock_both(first, second) -> None:
            with first:
                runtime.Sleep(1)
                with second:
                    raise AssertionError("never")

        def program() -> None:
            one, two = runtime.Lock(), runtime.Lock()
            runtime.Thread(lock_both, "forward", (one, two)).start()
            runtime.Thread(lock_both, "backward", (two, one)).start()
            runtime.Event().wait()

        with World(5) as world:
            machine = world.AddMachine("node1")
            with pytest.raises(Deadlock) as caught:
                machine.Call(program)
            text = str(caught.value)
            for part in ("seed 5", "/forward waits in Lock.acquire", "/backward waits in Lock.acquire", "with second:"):
                assert part in text
            with pytest.raises(Deadlock):
                while world.Step():
                    pass

    def test_what_a_condition_raises_comes_out_of_run(self) -> None:
        def condition() -> bool:
            raise ZeroDivisionError

        with World(1) as world:
            world.AddMachine("n").StartProcess(lambda: runtime.Sleep(1), "p")
            with pytest.raises(ZeroDivisionError):
                world.Run(until=condition)
            assert world.Run()

            def inside() -> None:
                world.Run()

            with pytest.raises(SimulationError, match="may not be called"):
                world.machines["n"].Call(inside)

    def test_a_condition_may_kill(self) -> None:
        with World(1) as world:
            machine = world.AddMachine("n")
            done: list[int] = []

            def program() -> None:
                try:
                    runtime.Sleep(1)
                    runtime.Sleep(1)
                finally:
                    done.append(1)
                    runtime.Sleep(1)
                    done.append(2)

            victim = machine.StartProcess(program, "victim")
            machine.StartProcess(lambda: runtime.Sleep(20), "other")

            def condition() -> bool:
                if world.elapsed >= 1 and victim.alive:
                    victim.Kill()
                return world.elapsed > 10

            world.Run(until=condition)
            assert done == [1]
            assert victim.signal == 9

    def test_failures_are_kept_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        def program() -> None:
            thread = runtime.Thread(lambda: {}["key"], "committer")
            thread.start()
            thread.join()
            raise SystemExit(3)

        with World(1) as world:
            process = world.AddMachine("node1").StartProcess(program, "masterd")
            world.Run()
            assert process.exit_code == 3
            (failure,) = world.failures
            assert isinstance(failure.error, KeyError)
            assert failure.thread == "committer"
            assert 'lambda: {}["key"]' in failure.text
            assert "node1/masterd" in caplog.text

            with pytest.raises(ZeroDivisionError):
                world.machines["node1"].Call(lambda: 1 // 0)
            assert world.failures == [failure]

    def test_an_object_of_one_world_is_refused_in_another(self) -> None:
        with World(1) as one, World(2) as two:
            lock = one.AddMachine("n").Call(runtime.Lock)
            with pytest.raises(SimulationError, match="another world"):
                two.AddMachine("n").Call(lock.acquire)
            assert lock.acquire()  # looked at from outside
            assert not lock.acquire(False)
            with pytest.raises(SimulationError, match="only a simulated thread can wait"):
                lock.acquire()
            queue = one.machines["n"].Call(runtime.Queue)
            queue.put(5)
            assert one.machines["n"].Call(queue.get) == 5

    def test_a_thread_that_waits_for_something_real_is_found(self) -> None:
        real = threading.Lock()

        def stuck() -> None:
            with real:
                runtime.Time()

        with World(1) as world:
            world.watchdog = 0.1
            world.AddMachine("n").StartProcess(stuck, "stuck")
            with real, pytest.raises(SimulationError, match="not simulated") as caught:
                world.Run()
            assert "with real:" in str(caught.value)
            with pytest.raises(SimulationError, match="can only be closed"):
                world.Run()

    def test_a_process_gets_another_thread_from_outside(self) -> None:
        seen: list[str] = []
        with World(1) as world:
            process = world.AddMachine("n").StartProcess(lambda: runtime.Sleep(5), "p")
            process.StartThread(lambda text: seen.append(text + runtime.ThreadName()), "extra", ("by ",))
            world.Run()
            assert seen == ["by extra"]
            with pytest.raises(SimulationError, match="has ended"):
                process.StartThread(seen.clear, "late")

    def test_threads_of_the_system_are_used_again(self) -> None:
        def workers() -> int:
            """Threads of other tests may end meanwhile."""
            return sum(isinstance(thread, pool.Worker) for thread in threading.enumerate())

        def program() -> None:
            threads = [runtime.Thread(lambda: runtime.Sleep(1), f"t{n}") for n in range(10)]
            for thread in threads:
                thread.start()
            runtime.Event().wait()

        counts = []
        for seed in range(30):
            with World(seed) as world:
                process = world.AddMachine("n").StartProcess(program, "p")
                world.Run(until=lambda process=process: len(process.threads) == 11)
                counts.append(workers())
            assert workers() == counts[-1]  # kept, for the next world
            with pytest.raises(SimulationError, match="closed"):
                world.Run()
        assert max(counts) == counts[0]

    def test_not_too_many_idle_threads_are_kept(self) -> None:
        def program() -> None:
            for number in range(300):
                runtime.Thread(runtime.Event().wait, f"t{number}").start()
            runtime.Event().wait()

        before = threading.active_count()
        with World(1) as world:
            process = world.AddMachine("n").StartProcess(program, "p")
            world.Run(until=lambda: len(process.threads) == 301)
            assert threading.active_count() > 300
        ended = threading.Event()
        while threading.active_count() > before + 270:
            assert not ended.wait(0.01)


class TestProcesses:
    def test_a_killed_process_changes_nothing_any_more(self) -> None:
        tried: list[str] = []

        def program() -> None:
            runtime.WriteFile("/tmp/file", "before")
            for _ in range(3):
                try:
                    try:
                        runtime.Sleep(100)
                    finally:
                        tried.append("finally")
                        runtime.WriteFile("/tmp/file", "after")
                        tried.append("never")
                except BaseException:  # noqa: BLE001
                    tried.append("except")

        for seed in range(5):
            tried.clear()
            with World(seed) as world:
                machine = world.AddMachine("n")
                process = machine.StartProcess(program, "p")
                world.RunFor(1)
                process.Kill()
                assert not process.alive
                assert process.exit_code is None
                assert tried == ["finally", "except"] * 3
                assert machine.Call(lambda: runtime.ReadText("/tmp/file")) == "before"
                assert world.failures == []

    def test_with_the_first_thread_the_process_ends(self) -> None:
        seen: list[float] = []

        def forever() -> None:
            while True:
                seen.append(runtime.Time())
                runtime.Sleep(1)

        def program() -> str:
            runtime.Thread(forever, "forever").start()
            runtime.Sleep(3.5)
            return "result"

        with World(1) as world:
            machine = world.AddMachine("n")
            assert machine.Call(program) == "result"
            world.RunFor(10)
            assert len(seen) == 4
            assert machine.processes == {}

    def test_the_dead_let_go_of_everything(self) -> None:
        def hold() -> None:
            runtime.LockFile("/tmp/lock")
            database = runtime.OpenDatabase("/tmp/db")
            listener = runtime.ListenUnix("/tmp/sock")
            runtime.ListenTcp("", 1811)
            with database.Transaction():
                database.Execute("CREATE TABLE t (a)")
                sock, _ = listener.accept()
                sock.sendall(b"partly")
                runtime.Event().wait()

        def connect() -> list:
            sock = runtime.ConnectUnix("/tmp/sock", 10)
            seen = [sock.recv(100)]
            pid = next(iter(machine.processes))
            assert runtime.KillProcess(pid, 15)
            assert not runtime.ProcessAlive(pid)
            seen.append(sock.recv(100))
            with pytest.raises(BrokenPipeError):
                sock.sendall(b"x")
            with runtime.LockFile("/tmp/lock", timeout=0):
                pass
            database = runtime.OpenDatabase("/tmp/db")
            with database.Transaction():
                seen.append(database.Query("SELECT count(*) FROM sqlite_master"))
            for call in (lambda: runtime.ConnectUnix("/tmp/sock", 1), lambda: runtime.ConnectTcp("n", 1811, 1)):
                with pytest.raises(ConnectionRefusedError):
                    call()
            return seen

        for seed in range(10):
            with World(seed) as world:
                machine = world.AddMachine("n")
                process = machine.StartProcess(hold, "holder")
                world.Run(until=lambda machine=machine: machine.listeners)
                assert machine.Call(connect) == [b"partly", b"", [(0,)]]
                assert process.signal == 15

    @pytest.mark.parametrize("seed", range(8))
    def test_a_dead_waiter_does_not_swallow_the_wake_up(self, seed: int) -> None:
        """Two threads of a process that dies wait for a lock, and so does a process that lives."""

        def hold() -> None:
            lock = runtime.LockFile("/tmp/lock")
            database = runtime.OpenDatabase("/tmp/db")
            with database.Transaction():
                for n in range(2):
                    runtime.Thread(lambda: database.Transaction().__enter__(), f"t{n}").start()
                    runtime.Thread(lambda: runtime.LockFile("/tmp/lock"), f"l{n}").start()
                runtime.Event().wait()
            lock.release()

        def want_lock() -> None:
            runtime.LockFile("/tmp/lock", timeout=60)

        def want_transaction() -> None:
            with runtime.OpenDatabase("/tmp/db").Transaction():
                pass

        with World(seed) as world:
            machine = world.AddMachine("n")
            holder = machine.StartProcess(hold, "holder")
            world.RunFor(1)
            for want in (want_lock, want_transaction):
                machine.StartProcess(want, want.__name__)
            world.RunFor(1)
            holder.Kill()
            world.Run()
            assert world.failures == []
            assert world.elapsed < 3

    def test_a_process_may_kill_itself(self) -> None:
        seen: list[str] = []

        def program() -> None:
            runtime.Thread(lambda: runtime.Sleep(10), "t").start()
            seen.append("before")
            runtime.KillProcess(runtime.ProcessId(), 9)
            seen.append("after")

        with World(1) as world:
            machine = world.AddMachine("n")
            with pytest.raises(SimulationError, match="killed by signal 9"):
                machine.Call(program)
            assert seen == ["before"]

    def test_a_paused_process_sleeps_through_everything(self) -> None:
        seen: list[float] = []

        def tick() -> None:
            while True:
                runtime.Sleep(1)
                seen.append(world.elapsed)

        with World(1) as world:
            machine = world.AddMachine("n")
            process = machine.StartProcess(tick, "ticker")
            world.RunFor(3.5)
            process.Pause()
            world.RunFor(100)
            assert len(seen) == 3
            process.Continue()
            world.RunFor(2.5)
            assert len(seen) == 6
            assert seen[3] == pytest.approx(103.5, abs=0.01)

            def stop_and_go() -> None:
                runtime.KillProcess(process.pid, 19)
                runtime.Sleep(50)
                runtime.KillProcess(process.pid, 18)

            machine.Call(stop_and_go)
            world.RunFor(1.5)
            assert seen[5] == pytest.approx(105.5, abs=0.01)
            assert seen[6] == pytest.approx(156, abs=0.01)

            def stop_itself() -> float:
                world.Schedule(30, lambda: own.Continue())
                runtime.KillProcess(runtime.ProcessId(), 19)
                return world.elapsed

            own = machine.StartProcess(stop_itself, "own")
            before = world.elapsed
            world.Run(until=lambda: not own.alive)
            assert own.result == pytest.approx(before + 30, abs=0.01)

    def test_programs_are_processes_of_their_own(self) -> None:
        def slow(call: Invocation) -> int:
            runtime.Sleep(5)
            runtime.WriteFile(call.argv[1], runtime.Environment()["MARK"])
            return 0

        def program() -> None:
            runtime.RunCmd(["slow", "/tmp/done"], env={"MARK": "x"})

        with World(1) as world:
            machine = world.AddMachine("n")
            machine.programs["slow"] = slow
            parent = machine.StartProcess(program, "parent")
            world.RunFor(1)
            parent.Kill()
            world.Run()
            assert machine.Call(lambda: runtime.ReadText("/tmp/done")) == "x"

            def crash(call: Invocation) -> int:
                raise ValueError("a bug in the program")

            machine.programs["crash"] = crash
            assert machine.Call(lambda: runtime.RunCmd(["crash"]).exit_code) == 1
            assert len(world.failures) == 1


class TestMachines:
    def test_machines_talk_by_name_and_address(self) -> None:
        def serve() -> None:
            listener = runtime.ListenTcp("", 1811)
            while True:
                sock, peer = listener.accept()
                sock.sendall(f"{runtime.HostName()} to {peer[0]}".encode())
                sock.close()

        def ask(host: str) -> str:
            return runtime.ConnectTcp(host, 1811, 10).recv(100).decode()

        with World(1) as world:
            one, two = world.AddMachine("node1"), world.AddMachine("node2", "192.0.2.7")
            two.StartProcess(serve, "server")
            world.RunFor(1)
            for host in ("node2", "192.0.2.7"):
                assert one.Call(ask, host) == "node2 to 10.0.0.1"
            assert two.Call(ask, "127.0.0.1") == "node2 to 127.0.0.1"
            with pytest.raises(ConnectionRefusedError):
                one.Call(ask, "127.0.0.1")
            assert one.Call(runtime.LookupHost, "node2") == ("node2", ["192.0.2.7"])
            with pytest.raises(errors.ResolverError):
                one.Call(runtime.LookupHost, "node3")
            two.PowerOff()
            with pytest.raises(OSError, match="No route"):
                one.Call(ask, "node2")
            with pytest.raises(SimulationError, match="off"):
                two.Call(serve)

    def test_disks_fail_as_told(self) -> None:
        def write() -> float:
            began = runtime.Monotonic()
            runtime.WriteFile("/srv/file", "new")
            return runtime.Monotonic() - began

        def commit(value: int) -> float:
            began = runtime.Monotonic()
            database = runtime.OpenDatabase("/srv/db")
            with database.Transaction():
                database.Execute("CREATE TABLE IF NOT EXISTS t (a)")
                database.Execute("INSERT INTO t VALUES (?)", (value,))
            return runtime.Monotonic() - began

        def commit_nothing() -> float:
            began = runtime.Monotonic()
            with runtime.OpenDatabase("/srv/db").Transaction() as transaction:
                transaction.Query("SELECT a FROM t")
            return runtime.Monotonic() - began

        def rows() -> list:
            return runtime.OpenDatabase("/srv/db").Query("SELECT a FROM t")

        with World(1) as world:
            machine = world.AddMachine("n")
            machine.Call(lambda: runtime.MakeDirs("/srv"))
            machine.Call(write)
            machine.Call(commit, 1)
            machine.disk_full = True
            for call in (write, lambda: commit(2), lambda: runtime.MakeDirs("/srv/more")):
                with pytest.raises(OSError, match="No space"):
                    machine.Call(call)
            assert machine.Call(rows) == [(1,)]
            assert machine.Call(lambda: runtime.DiskFree("/srv")) == 0
            assert machine.Call(lambda: runtime.ListDir("/srv")) == ["db", "file"]
            machine.disk_full = False
            machine.disk_broken = True
            for call in (write, rows, lambda: commit(2), lambda: runtime.ReadFile("/srv/file")):
                with pytest.raises(OSError, match="Input/output"):
                    machine.Call(call)
            machine.disk_broken = False
            machine.slow_disk = 0.2
            assert machine.Call(write) == pytest.approx(0.2, abs=0.01)
            assert machine.Call(commit, 3) == pytest.approx(0.2, abs=0.01)
            assert machine.Call(rows) == [(1,), (3,)]
            assert machine.Call(commit_nothing) < 0.1
            with pytest.raises(SimulationError, match="is on"):
                machine.WipeDisk()
            machine.PowerOff()
            machine.WipeDisk()
            machine.PowerOn()
            assert machine.Call(lambda: runtime.Exists("/srv")) is False

    def test_a_file_system_in_memory_is_empty_after_a_boot(self) -> None:
        with World(1) as world:
            machine = world.AddMachine("n")
            machine.Call(lambda: runtime.WriteFile("/var/run/daemon.pid", "1"))
            assert machine.Call(lambda: runtime.ReadText("/run/daemon.pid")) == "1"
            machine.PowerOff()
            machine.PowerOn()
            assert machine.Call(lambda: runtime.ListDir("/run")) == []

    def test_every_crash_point_of_a_slow_commit_is_honest(self) -> None:
        """Killed while the disk is slow: the rows may be there or not, and both happen."""

        def commit() -> None:
            database = runtime.OpenDatabase("/tmp/db")
            with database.Transaction():
                database.Execute("CREATE TABLE t (a)")

        def count() -> int:
            return runtime.OpenDatabase("/tmp/db").Query("SELECT count(*) FROM sqlite_master")[0][0]

        outcomes = set()
        for seed in range(10):
            with World(seed) as world:
                machine = world.AddMachine("n")
                machine.slow_disk = 10.0
                process = machine.StartProcess(commit, "p")
                world.RunFor(5)
                process.Kill()
                outcomes.add(machine.Call(count))
        assert outcomes == {0, 1}
