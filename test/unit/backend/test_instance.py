"""Start, stop, migrate and look: the procedures over the fake hypervisor and file-backed disks."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import MakeNodes
from support.virtual import MakeDisk, MakeInstance, MakeUuid

from ganeti import errors, hypervisor, pathutils, runtime, storage
from ganeti.backend import blockdev, guestnotes, instance, migration, wire
from ganeti.backend.instance import LinkedDisks
from ganeti.hypervisor import nodechecks
from ganeti.hypervisor.base import Look
from ganeti.hypervisor.fake import FakeHypervisor
from ganeti.params import hv
from ganeti.storage import tree
from ganeti.storage.drivers.file import FileDevice

TRAIL = [["gnt:client:gnt-instance", "because", 1]]


class Rig:
    def __init__(self, base: Path):
        self.first, self.second = MakeNodes(base, "a", "b")
        (base / "disks").mkdir()
        for node in (self.first, self.second):
            node.AllowFileStorage(base / "disks")
        self.disk = MakeDisk("sharedfile", ["loop", f"{base}/disks/d0"])
        self.guest = MakeInstance(disks=[self.disk])
        with self.first:
            tree.Create(self.disk, 4, self.guest.name, True)
            self.Open()

    def Open(self) -> None:
        """Opens the disk on the node entered, as a master does before it starts the guest there."""
        blockdev.Assemble(self.disk.ToDict(runtime=True), self.data, True, 0)

    def OpenShared(self) -> None:
        """Opens the disk on the node entered, as a master does before a migration."""
        blockdev.Open("", [self.disk.ToDict(runtime=True)], False)

    @property
    def data(self) -> dict[str, Any]:
        return self.guest.ToDict(runtime=True)

    def Link(self) -> Path:
        return Path(pathutils.InstanceDiskLink(self.guest.name, 0))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    yield Rig(tmp_path)


def test_start_links_disks_and_keeps_the_reason(rig: Rig) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        assert rig.Link().readlink() == Path(rig.disk.logical_id[1])
        assert instance.List(["fake"], {}) == [rig.guest.name]
        assert instance.Info(rig.guest.name, "fake", {}) == {"memory": 128, "vcpus": 1, "state": 0, "time": 0.0}
        assert instance.AllInfo(["fake"], {"fake": {}}) == {rig.guest.name: instance.Info(rig.guest.name, "fake", {})}
        trail = json.loads(Path(pathutils.InstanceReasonFile(rig.guest.name)).read_text())
        assert trail[0] == TRAIL[0] and trail[1][:2] == ["gnt:daemon:noded:start", ""]
        instance.Start(rig.data, False, TRAIL)  # running already is success


def test_start_without_disk_fails_and_leaves_no_link(rig: Rig) -> None:
    with rig.first:
        tree.Remove(rig.disk)
        with pytest.raises(errors.BlockDeviceError, match="disk 0 is not set up; run gnt-instance activate-disks"):
            instance.Start(rig.data, False, TRAIL)
        assert instance.Info(rig.guest.name, "fake", {}) == {}


def test_start_that_comes_after_the_disks_were_closed_fails(rig: Rig) -> None:
    with rig.first:
        blockdev.Close(rig.guest.name, [rig.disk.ToDict()])
        with pytest.raises(errors.BlockDeviceError, match="disk 0 is not open on this node"):
            instance.Start(rig.data, False, TRAIL)
        assert instance.List(["fake"], {}) == []


def test_disks_that_a_migration_opens_late_let_nothing_start(rig: Rig) -> None:
    with rig.second:
        blockdev.Open("", [rig.disk.ToDict(runtime=True)], False)
        with pytest.raises(errors.BlockDeviceError, match="not open on this node"):
            instance.Start(rig.data, False, TRAIL)
        assert not rig.Link().is_symlink()


def _Attempt(rig: Rig, name: str) -> dict[str, Any]:
    """The instance as the calls of one more attempt to start it carry it."""
    return rig.guest.Replace(attempt=MakeUuid(name)).ToDict(runtime=True)


def _Assemble(rig: Rig, data: dict[str, Any]) -> None:
    blockdev.Assemble(rig.disk.ToDict(runtime=True), data, True, 0)


def test_disks_that_one_start_opens_late_let_no_other_start_begin(rig: Rig) -> None:
    older, newer = _Attempt(rig, "older"), _Attempt(rig, "newer")
    with rig.first:
        _Assemble(rig, newer)
        blockdev.Close(rig.guest.name, [rig.disk.ToDict()])
        _Assemble(rig, older)
        with pytest.raises(errors.BlockDeviceError, match="disk 0 is not open on this node for this start"):
            instance.Start(newer, False, TRAIL)
        with pytest.raises(errors.RpcCallError, match="names no attempt"):
            instance.Start({key: value for key, value in newer.items() if key != "attempt"}, False, TRAIL)
        assert instance.List(["fake"], {}) == []
        instance.Start(older, False, TRAIL)
        assert instance.List(["fake"], {}) == [rig.guest.name]


class ByUri(FileDevice):
    """A disk that a hypervisor reaches without a device of the node."""

    def UserspaceUri(self, _hypervisor: str) -> str | None:
        return "disk://server/disk"

    def Attach(self) -> bool:
        found = super().Attach()
        self.dev_path = None
        return found


@pytest.fixture
def by_uri() -> Iterator[None]:
    storage.UseDrivers({"sharedfile": ByUri})
    yield
    storage.UseDrivers({})


def test_a_disk_without_a_device_is_open_for_one_start_too(rig: Rig, by_uri: None) -> None:
    older, newer = _Attempt(rig, "older"), _Attempt(rig, "newer")
    with rig.first:
        _Assemble(rig, newer)
        blockdev.Close(rig.guest.name, [rig.disk.ToDict()])
        for late in (None, older):
            if late is not None:
                _Assemble(rig, late)
            with pytest.raises(errors.BlockDeviceError, match="disk 0 is not open on this node for this start"):
                instance.Start(newer, False, TRAIL)
        instance.Start(older, False, TRAIL)
        assert instance.List(["fake"], {}) == [rig.guest.name]


def test_nothing_starts_from_what_a_migration_linked(rig: Rig) -> None:
    with rig.second:
        LinkedDisks(rig.guest)
        with pytest.raises(errors.BlockDeviceError, match="not open on this node for this start"):
            instance.Start(rig.data, False, TRAIL)


class Stopping(FakeHypervisor):
    """A guest that takes its time to stop; what happens meanwhile is ``meanwhile``."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def Stop(self, *args: Any, **more: Any) -> None:
        super().Stop(*args, **more)
        type(self).meanwhile()


def test_a_reboot_starts_nothing_when_the_disks_were_given_to_another_start_meanwhile(rig: Rig, use: Any) -> None:
    use(Stopping)
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        Stopping.meanwhile = lambda: _Assemble(rig, _Attempt(rig, "late"))
        with pytest.raises(errors.BlockDeviceError, match="not open on this node for this start"):
            instance.Reboot(rig.data, "hard", 1, TRAIL)
        assert instance.List(["fake"], {}) == []


def test_disks_are_not_closed_while_the_guest_that_was_started_from_them_is_here(rig: Rig) -> None:
    """The master looked before a late start was carried out, and would start it elsewhere now."""
    disk = rig.disk.ToDict()
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        with pytest.raises(errors.RpcCallError, match=r"has a process on this node.*migrate --cleanup guest"):
            blockdev.Close(rig.guest.name, [disk])
        assert rig.Link().is_symlink()
        instance.Shutdown(rig.data, 10, TRAIL)
        blockdev.Close(rig.guest.name, [disk])


class Cleaned(FakeHypervisor):
    """A guest that a late start begins after the one before it has stopped."""

    begin: Callable[[], None] = staticmethod(lambda: None)

    def Cleanup(self, instance_name: str) -> None:
        type(self).begin()


def test_a_guest_that_is_started_while_it_is_shut_down_is_seen(rig: Rig, use: Any) -> None:
    use(Cleaned)
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        Cleaned.begin = lambda: instance.Start(rig.data, False, TRAIL)
        with pytest.raises(errors.RpcCallError, match="has a process on this node, its disks stay open here"):
            instance.Shutdown(rig.data, 10, TRAIL)
        Cleaned.begin = lambda: None
        instance.Shutdown(rig.data, 10, TRAIL)
        assert not rig.Link().is_symlink()


def test_shutdown_removes_links(rig: Rig) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        instance.Shutdown(rig.data, 10, TRAIL)
        assert instance.List(["fake"], {}) == [] and not rig.Link().is_symlink()
        instance.Shutdown(rig.data, 10, TRAIL)  # stopped already is success


class Stubborn(FakeHypervisor):
    """A guest that ignores polite requests."""

    asked: list[tuple[bool, bool]] = []

    def Stop(self, instance: Any, force: bool = False, retry: bool = False, timeout: float | None = None) -> None:
        self.asked.append((force, retry))
        if force:
            super().Stop(instance, force)


class Refusing(FakeHypervisor):
    """Nothing starts and nothing arrives."""

    def Start(self, *args: Any) -> None:
        raise errors.HypervisorError("no")

    def Accept(self, *args: Any) -> None:
        raise errors.HypervisorError("no")


@pytest.fixture
def use() -> Iterator[Callable[[type[FakeHypervisor]], None]]:
    """Puts a driver in the place of the fake."""
    yield lambda driver: hypervisor.UseDrivers({"fake": driver})
    hypervisor.UseDrivers({})


def test_failed_start_or_arrival_leaves_no_links(rig: Rig, use: Any) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        with pytest.raises(errors.RpcCallError, match="is here already \\(state running\\)"):
            migration.Accept(rig.data, None, "127.0.0.1")
        assert rig.Link().is_symlink(), "the guest that runs here keeps its links"
    use(Refusing)
    with rig.second:
        for call in (lambda: instance.Start(rig.data, False, TRAIL), lambda: migration.Accept(rig.data, None, "::1")):
            rig.Open()
            with pytest.raises(errors.HypervisorError, match=r"^no$"):
                call()
            assert not rig.Link().is_symlink()


def test_deaf_guest_is_asked_then_ended(rig: Rig, use: Any) -> None:
    use(Stubborn)
    Stubborn.asked = []
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        instance.Shutdown(rig.data, 0.5, TRAIL)
        assert Stubborn.asked[0] == (False, False) and Stubborn.asked[-1] == (True, False)
        assert instance.List(["fake"], {}) == []


class Hung(FakeHypervisor):
    """A guest that cannot be asked for anything, only ended."""

    def Stop(self, instance: Any, force: bool = False, retry: bool = False, timeout: float | None = None) -> None:
        if not force:
            raise errors.HypervisorError("no answer")
        super().Stop(instance, force)

    def Info(self, instance_name: str, hvparams: Any = None) -> Any:
        found = super().Info(instance_name)
        return None if found is None else dataclasses.replace(found, run_state="unresponsive")


@pytest.mark.parametrize("timeout", [0, 0.5])
def test_hung_guest_is_ended_without_its_help(rig: Rig, use: Any, timeout: float) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        use(Hung)
        with pytest.raises(errors.RpcCallError, match=r"does not respond.*gnt-instance shutdown --timeout 0 guest"):
            instance.Start(rig.data, False, TRAIL)
        assert instance.AllInfo(["fake"], {"fake": {}})[rig.guest.name]["run_state"] == "unresponsive"
        instance.Shutdown(rig.data, timeout, TRAIL)
        assert instance.List(["fake"], {}) == []


def test_hung_guest_can_be_rebooted(rig: Rig, use: Any) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        use(Hung)
        instance.Reboot(rig.data, "hard", 0, TRAIL)
        assert instance.List(["fake"], {}) == [rig.guest.name]


def test_reboot(rig: Rig) -> None:
    with rig.first:
        with pytest.raises(errors.RpcCallError, match="not running"):
            instance.Reboot(rig.data, "soft", 1, TRAIL)
        instance.Start(rig.data, False, TRAIL)
        for kind in ("soft", "hard"):
            instance.Reboot(rig.data, kind, 1, TRAIL)
            assert instance.List(["fake"], {}) == [rig.guest.name] and rig.Link().is_symlink()
        with pytest.raises(errors.RpcCallError, match="Invalid reboot type"):
            instance.Reboot(rig.data, "warm", 1, TRAIL)


def test_balloon_of_a_stopped_guest_is_nothing(rig: Rig) -> None:
    with rig.first:
        instance.Balloon(rig.data, 96)
        instance.Start(rig.data, False, TRAIL)
        instance.Balloon(rig.data, 96)
        assert instance.Info(rig.guest.name, "fake", {})["memory"] == 96


def test_migration_over_shared_files(rig: Rig) -> None:
    with rig.first:
        with pytest.raises(errors.RpcCallError, match="not running"):
            migration.Migratable(rig.data)
        instance.Start(rig.data, False, TRAIL)
        migration.Migratable(rig.data)
        info = migration.Info(rig.data)
    with rig.second:
        rig.OpenShared()
        migration.Accept(rig.data, info, "127.0.0.1")
        assert _State(rig) == "inmigrate" and rig.Link().is_symlink()
    with rig.first:
        migration.Migrate("cluster", rig.data, "127.0.0.1", True)
        assert migration.Status(rig.data) == {
            "status": "completed",
            "transferred_ram": None,
            "total_ram": None,
            "postcopy_status": None,
        }
        assert _State(rig) == "postmigrate"
    with rig.second:
        migration.FinalizeDestination(rig.data, info, True)
        assert _State(rig) == "running"
    with rig.first:
        _EndSent(rig)
        assert instance.List(["fake"], {}) == [] and not rig.Link().is_symlink()
        assert migration.RunState(rig.guest.name, "fake", {})["sent_to"] is None


def _Seen(rig: Rig) -> dict[str, Any]:
    """What the node entered says of the guest."""
    return migration.RunState(rig.guest.name, "fake", {})


def _State(rig: Rig) -> str:
    return str(_Seen(rig)["run_state"])


def _EndSent(rig: Rig) -> None:
    """What a master does that looks and acts at once."""
    seen = _Seen(rig)
    migration.EndSent(rig.data, seen["ident"], seen["attempt"], seen["run_state"] == "postmigrate")


@dataclasses.dataclass
class Migrated:
    """A guest in the middle of a migration: sent by the first node, awaited by the second."""

    rig: Rig
    info: str | None
    attempt: str


@pytest.fixture
def migrated(rig: Rig) -> Migrated:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        info = migration.Info(rig.data)
    with rig.second:
        rig.OpenShared()
        migration.Accept(rig.data, info, "127.0.0.1")
    with rig.first:
        migration.Migrate("cluster", rig.data, "127.0.0.1", True)
        attempt = migration.RunState(rig.guest.name, "fake", {})["attempt"]
    return Migrated(rig, info, attempt)


def test_guest_that_has_arrived_is_never_ended_as_one_that_has_not(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.second:
        migration.FinalizeDestination(rig.data, migrated.info, True)
        with pytest.raises(errors.RpcCallError, match="not waiting for a guest \\(state running\\), it is left alone"):
            migration.FinalizeDestination(rig.data, migrated.info, False)
        assert _State(rig) == "running"


def test_guest_that_was_never_here_is_remembered_as_such(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.second:
        migration.FinalizeDestination(rig.data, None, False)
        assert migration.RunState(rig.guest.name, "fake", {})["never"] is True
        assert not rig.Link().is_symlink(), "its disks are closed"
        migration.FinalizeDestination(rig.data, None, False)  # may be repeated
        rig.Open()
        instance.Start(rig.data, False, TRAIL)
        instance.Shutdown(rig.data, 0, TRAIL)
        assert migration.RunState(rig.guest.name, "fake", {})["never"] is False


def test_sent_copy_runs_again_only_for_the_attempt_that_failed(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.first:
        for ident, attempt in ((0, "another"), (1, migrated.attempt), (0, None)):
            with pytest.raises(errors.RpcCallError, match="has changed since it was looked at"):
                migration.ResumeSent(rig.data, ident, attempt)
            with pytest.raises(errors.RpcCallError, match="has changed since it was looked at"):
                migration.EndSent(rig.data, ident, attempt, True)
        assert _State(rig) == "postmigrate"
        migration.ResumeSent(rig.data, 0, migrated.attempt)
        assert _State(rig) == "running"
        with pytest.raises(errors.RpcCallError, match="has changed"):
            migration.ResumeSent(rig.data, 0, migrated.attempt)


def test_a_copy_that_was_sent_is_ended_once_and_a_guest_never(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.first:
        migration.ResumeSent(rig.data, 0, migrated.attempt)
        with pytest.raises(errors.RpcCallError, match="has changed since it was looked at"):
            migration.EndSent(rig.data, 0, migrated.attempt, False)
        migration.EndSent(rig.data, 0, None, False)
        assert _State(rig) == "running" and rig.Link().is_symlink()


class Slow(FakeHypervisor):
    """A guest that is being sent to somebody who is gone; each look takes one off ``looks``, then it ends as ``then``."""

    looks: list[str] = []

    def Look(self, instance_name: str) -> Look:
        seen = super().Look(instance_name)
        if not self.looks:
            return seen
        return dataclasses.replace(seen, state=self.looks.pop(0), sending=True)


def test_a_copy_that_was_sent_after_the_look_is_left_alone(migrated: Migrated) -> None:
    """Its target may have ended by now, and then it is the only one."""
    rig = migrated.rig
    with rig.first:
        assert _State(rig) == "postmigrate"
        with pytest.raises(errors.RpcCallError, match=r"has changed since it was looked at \(state postmigrate\)"):
            migration.EndSent(rig.data, 0, migrated.attempt, False)
        assert _State(rig) == "postmigrate" and _Seen(rig)["attempt"] == migrated.attempt
        migration.EndSent(rig.data, 0, migrated.attempt, True)
        assert _State(rig) == "gone"


def test_a_guest_notices_a_moment_later_that_its_target_is_gone(migrated: Migrated, use: Any) -> None:
    rig = migrated.rig
    use(Slow)
    with rig.first:
        hypervisor.GetHypervisor("fake").Resume(rig.guest)
        Slow.looks = ["running"] * 3
        migration.EndSent(rig.data, 0, migrated.attempt, False)
        assert _Seen(rig)["attempt"] is None and _State(rig) == "running" and rig.Link().is_symlink()


def test_a_guest_that_was_sent_after_all_is_left_alone(migrated: Migrated, use: Any) -> None:
    rig = migrated.rig
    use(Slow)
    with rig.first:
        Slow.looks = ["running", "running", "postmigrate"]
        with pytest.raises(errors.RpcCallError, match=r"has changed since it was looked at \(state postmigrate\)"):
            migration.EndSent(rig.data, 0, migrated.attempt, False)
        assert _Seen(rig)["attempt"] == migrated.attempt and _State(rig) == "postmigrate"


def test_guest_that_only_waits_is_not_ended_as_one_that_was_sent(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.second:
        with pytest.raises(errors.RpcCallError, match="not what this call is for \\(state inmigrate\\)"):
            _EndSent(rig)
        assert _State(rig) == "inmigrate" and _Seen(rig)["arrival"] == "awaited"


def test_end_of_one_migration_that_comes_late_leaves_the_next_one_alone(migrated: Migrated) -> None:
    """The guest went to the second node and comes back: what is noted now is of its way back."""
    rig = migrated.rig
    with rig.second:
        migration.FinalizeDestination(rig.data, migrated.info, True)
    with rig.first:
        _EndSent(rig)
        rig.OpenShared()
        migration.Accept(rig.data, migrated.info, "127.0.0.1")
    with rig.second:
        migration.Migrate("cluster", rig.data, "127.0.0.1", True)
        sent = _Seen(rig)
    with rig.first:
        hypervisor.GetHypervisor("fake").EndNow(rig.guest)  # it could not be loaded
        with pytest.raises(errors.RpcCallError, match="has changed since it was looked at \\(state gone\\)"):
            migration.EndSent(rig.data, 0, migrated.attempt, False)
        migration.EndCopy(rig.data, 0)
        assert _Seen(rig)["arrival"] == "awaited" and rig.Link().is_symlink()
    with rig.second:
        migration.ResumeSent(rig.data, sent["ident"], sent["attempt"])


def test_arrival_that_is_confirmed_late_does_not_forget_that_the_guest_was_sent_on(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.second:
        migration.FinalizeDestination(rig.data, migrated.info, True)
        guestnotes.Write(rig.guest.name, guestnotes.Note("127.0.0.9", "newer"))  # and is being sent again
        migration.FinalizeDestination(rig.data, migrated.info, True)
        assert _Seen(rig)["sent_to"] == "127.0.0.9"


def test_nothing_is_accepted_where_a_guest_was_sent_from_until_that_is_settled(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.first:
        hypervisor.GetHypervisor("fake").EndNow(rig.guest)  # the node was switched off for a moment
        with pytest.raises(errors.RpcCallError, match=r"was sent from here to 127\.0\.0\.1 .*migrate --cleanup guest"):
            migration.Accept(rig.data, migrated.info, "127.0.0.1")
        assert _Seen(rig)["sent_to"] == "127.0.0.1"
        _EndSent(rig)
        assert _Seen(rig)["sent_to"] is None
        migration.Accept(rig.data, migrated.info, "127.0.0.1")


def test_nothing_is_accepted_where_the_guest_may_have_run_until_it_is_known_to_be_elsewhere(migrated: Migrated) -> None:
    """The guest has arrived and died: an old call must not make its source look like the newest copy."""
    rig = migrated.rig
    with rig.second:
        for confirmed, noted in ((False, "awaited"), (True, "arrived")):
            if confirmed:
                migration.FinalizeDestination(rig.data, migrated.info, True)
            else:
                hypervisor.GetHypervisor("fake").WaitArrived(rig.guest, migrated.info)
            assert _Seen(rig)["arrival"] == noted
        hypervisor.GetHypervisor("fake").EndNow(rig.guest)
        with pytest.raises(
            errors.RpcCallError, match=r"may have run here already \(noted as arrived\).*--cleanup guest"
        ):
            migration.Accept(rig.data, migrated.info, "127.0.0.2")
        assert _State(rig) == "gone" and _Seen(rig)["arrival"] == "arrived"
        _EndSent(rig)  # the guest runs elsewhere
        migration.Accept(rig.data, migrated.info, "127.0.0.2")
        assert _Seen(rig)["arrival"] == "awaited"


def test_only_the_copy_that_was_looked_at_is_ended(rig: Rig) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        with pytest.raises(errors.RpcCallError, match="has changed since"):
            migration.EndCopy(rig.data, 77)
        assert _State(rig) == "running"
        migration.EndCopy(rig.data, 0)
        assert _State(rig) == "gone"
        migration.EndCopy(rig.data, 0)  # gone already is fine


def test_sent_copy_is_neither_started_nor_rebooted_and_shutdown_remembers_where_it_went(migrated: Migrated) -> None:
    rig = migrated.rig
    with rig.first:
        for call in (
            lambda: instance.Start(rig.data, False, TRAIL),
            lambda: instance.Reboot(rig.data, "hard", 0, TRAIL),
        ):
            with pytest.raises(errors.RpcCallError, match=r"only as a copy of a migration.*migrate --cleanup guest"):
                call()
        with pytest.raises(
            errors.RpcCallError, match="cannot be migrated: the state of its process here is postmigrate"
        ):
            migration.Migrate("cluster", rig.data, "127.0.0.1", True)
        instance.Shutdown(rig.data, 100, TRAIL)
        seen = migration.RunState(rig.guest.name, "fake", {})
        assert (seen["run_state"], seen["sent_to"]) == ("gone", "127.0.0.1")


def test_damaged_note_is_named(migrated: Migrated) -> None:
    with migrated.rig.first:
        note = Path(pathutils.MIGRATIONS_DIR) / migrated.rig.guest.name
        note.write_text("{")
        with pytest.raises(errors.HypervisorError, match=f"{note}, cannot be read"):
            migration.RunState(migrated.rig.guest.name, "fake", {})


class Impatient:
    """The runtime of a node daemon that waits for no lock, and that may not read what is noted of a guest."""

    def __getattr__(self, name: str) -> Any:
        return getattr(runtime.real, name)

    def LockFile(self, path: str, exclusive: bool = True, timeout: float | None = None, mode: int = 0o600) -> Any:
        assert timeout, "a call waits for the one before it"
        return runtime.real.LockFile(path, exclusive, 0, mode)

    def ReadFile(self, path: str, limit: int | None = None) -> bytes:
        assert not path.startswith(pathutils.MIGRATIONS_DIR), "the note is read before the guest is locked"
        return runtime.real.ReadFile(path, limit)


class Unseen(FakeHypervisor):
    """A guest at which nobody may look yet."""

    def Look(self, instance_name: str) -> Look:
        raise AssertionError(f"{instance_name} is looked at before it is locked")

    def Exists(self, instance_name: str) -> bool:
        raise AssertionError(f"{instance_name} is looked for before it is locked")


ACTING: dict[str, Callable[[dict[str, Any]], object]] = {
    "instance_start": lambda data: instance.Start(data, False, TRAIL),
    "accept_instance": lambda data: migration.Accept(data, None, "127.0.0.1"),
    "instance_migrate": lambda data: migration.Migrate("cluster", data, "127.0.0.1", True),
    "instance_end_sent": lambda data: migration.EndSent(data, 0, None, True),
    "instance_finalize_migration_dst, done": lambda data: migration.FinalizeDestination(data, None, True),
    "instance_finalize_migration_dst, failed": lambda data: migration.FinalizeDestination(data, None, False),
    "instance_resume_sent": lambda data: migration.ResumeSent(data, 0, None),
    "instance_end_copy": lambda data: migration.EndCopy(data, 0),
    "blockdev_close": lambda data: blockdev.Close(data["name"], data["disks_info"]),
}


@pytest.mark.parametrize("call", ACTING.values(), ids=ACTING)
def test_calls_that_look_and_act_do_not_meet(rig: Rig, use: Any, call: Callable[[dict[str, Any]], object]) -> None:
    """While one is between its look and its act, no other one looks."""
    with rig.first, guestnotes.Locked(rig.guest.name):
        use(Unseen)
        before = runtime.CurrentSide()
        runtime.EnterSide(Impatient())  # type: ignore[arg-type]
        try:
            with pytest.raises(
                errors.RpcCallError, match=r"guest.*: another operation on it is under way on this node"
            ):
                call(rig.data)
        finally:
            runtime.EnterSide(before)


def test_refused_arrival_leaves_no_links(rig: Rig) -> None:
    with rig.second:
        tree.Remove(rig.disk)
        with pytest.raises(errors.BlockDeviceError):
            migration.Accept(rig.data, None, "127.0.0.1")
        assert not rig.Link().is_symlink()


def test_hotplug_is_refused_in_words(rig: Rig) -> None:
    with rig.first:
        instance.Start(rig.data, False, TRAIL)
        for call in (
            lambda: migration.HotplugSupported(rig.data),
            lambda: migration.Hotplug(rig.data, "hotadd", "disk", rig.disk.ToDict(), None, 1),
            lambda: migration.ResizeDisk(rig.data, rig.disk.ToDict(), 8 << 20),
        ):
            with pytest.raises(errors.HotplugError, match="fake cannot change devices"):
                call()


def test_console_data(rig: Rig) -> None:
    request = {
        "instance": rig.guest.ToDict(),
        "node": {"name": "node1.example.com", "ndparams": {}},
        "group": {"ndparams": {"ssh_port": 2222}},
        "hvParams": {},
        "beParams": {"minmem": 64, "maxmem": 64, "vcpus": 1},
    }
    answer = instance.ConsoleInfo({rig.guest.name: request})[rig.guest.name]
    assert answer["kind"] == "msg" and "node1.example.com" in answer["message"]
    assert set(answer) == {"instance", "kind", "message"}
    with pytest.raises(errors.RpcCallError, match="incomplete"):
        instance.ConsoleInfo({rig.guest.name: {"instance": {}}})


def test_parameters_are_checked_against_the_node(tmp_path: Path) -> None:
    hypervisor.GetHypervisor("fake").ValidateParameters({"migration_mode": "live"})
    iso = tmp_path / "none.iso"
    values = {**hv.DEFAULTS["kvm"], "cdrom_image_path": str(iso), "security_domain": "nobody-x"}
    found = "; ".join(nodechecks.Problems("kvm", values))
    assert f"'{iso}' cannot be used on this node" in found
    assert "user 'nobody-x' does not exist" in found
    iso.write_text("x")
    found = "; ".join(nodechecks.Problems("kvm", {**values, "security_domain": "root", "vnc_x509_path": str(iso)}))
    assert "cdrom_image_path" not in found and "security_domain" not in found
    assert f"'{iso}' is not a directory" in found


def test_unknown_hypervisor_is_named() -> None:
    with pytest.raises(errors.RpcCallError, match="vmware: no driver on this node"):
        instance.List(["vmware"], {})


# --- block devices ----------------------------------------------------------------------------------------------------


def test_block_device_procedures_on_the_wire(rig: Rig) -> None:
    disk = rig.disk.ToDict(runtime=True)
    with rig.first:
        path = rig.disk.logical_id[1]
        blockdev.Close(rig.guest.name, [disk])
        assert blockdev.Assemble(disk, rig.data, False, 0) == [True, True]
        assert blockdev.Assemble(disk, rig.data, True, 0) == [path, str(rig.Link()), None]
        status = blockdev.Find(disk)
        assert status is not None
        assert status == {
            "dev_path": path,
            "major": None,
            "minor": None,
            "sync_percent": None,
            "estimated_time": None,
            "is_degraded": False,
            "ldisk_status": 1,
        }
        assert blockdev.MirrorStatus([disk]) == [status]
        blockdev.Grow(disk, 4, False, True, False)
        assert blockdev.Dimensions([disk]) == [[8 << 20, None]]
        Path(path).write_bytes(b"\xff" * (8 << 20))
        blockdev.Wipe(disk, 1, 2)
        content = Path(path).read_bytes()
        assert content == b"\xff" * (1 << 20) + bytes(2 << 20) + b"\xff" * (5 << 20)
        with pytest.raises(errors.RpcCallError, match="cannot wipe 3 MiB from 6, it has 8 MiB"):
            blockdev.Wipe(disk, 6, 3)
        assert Path(path).stat().st_size == 8 << 20
        blockdev.Close(rig.guest.name, [disk])
        assert not rig.Link().is_symlink()
        blockdev.Open(rig.guest.name, [disk], True)
        assert rig.Link().is_symlink()
        assert blockdev.PauseResumeSync([disk], True) == [[True, None]]
        blockdev.Remove(disk)
        assert blockdev.Find(disk) is None
        assert blockdev.Dimensions([disk]) == [None]
        assert blockdev.MirrorStatusMulti([disk])[0][0] is False
        with pytest.raises(errors.BlockDeviceError, match="not found"):
            blockdev.MirrorStatus([disk])
        with pytest.raises(errors.BlockDeviceError, match="snapshots is not possible"):
            blockdev.Create(disk, 4, "x", True, "", False)
            blockdev.Snapshot(disk, None, None)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_copy_and_image(rig: Rig, tmp_path: Path, public: Path) -> None:
    with rig.first:
        other = MakeDisk("sharedfile", ["loop", f"{tmp_path}/disks/d1"])
        small = MakeDisk("sharedfile", ["loop", f"{tmp_path}/disks/d2"])
        blockdev.Create(other.ToDict(), 8, "x", True, "", False)
        blockdev.Create(small.ToDict(), 1, "x", True, "", False)
        image = public / "image"
        image.write_bytes(b"image" * 1000)
        blockdev.Image(rig.disk.ToDict(), str(image), 4)
        assert Path(rig.disk.logical_id[1]).read_bytes()[:5000] == b"image" * 1000
        assert Path(rig.disk.logical_id[1]).stat().st_size == 4 << 20, "the disk keeps its size"
        blockdev.Convert(rig.disk.ToDict(), other.ToDict())
        assert Path(other.logical_id[1]).read_bytes()[:5000] == b"image" * 1000
        assert Path(other.logical_id[1]).stat().st_size == 8 << 20
        with pytest.raises(errors.RpcCallError, match="is smaller than"):
            blockdev.Convert(rig.disk.ToDict(), small.ToDict())
        image.chmod(0o600)
        with pytest.raises(errors.RpcCallError, match="may not be read by every user of this node"):
            blockdev.Image(rig.disk.ToDict(), str(image), 4)
        image.chmod(0o644)
        with pytest.raises(errors.RpcCallError, match="cannot be used on this node"):
            blockdev.Image(rig.disk.ToDict(), str(tmp_path / "none"), 4)
        image.write_bytes(b"x" * (5 << 20))
        with pytest.raises(errors.RpcCallError, match="the disk only 4 MiB"):
            blockdev.Image(rig.disk.ToDict(), str(image), 4)


def test_only_block_devices_are_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert blockdev.Sizes([str(tmp_path / "file"), "/dev/null", "/nowhere"]) == {}


def test_wrong_disk_is_refused_in_words() -> None:
    with pytest.raises(errors.RpcCallError, match="Disk in the call's arguments"):
        wire.Disk({"dev_type": "plain"})
