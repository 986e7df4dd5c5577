"""DRBD's command lines, and what its module and programs print (recorded with 8.4.11 and drbd-utils 9.22 in the laboratory)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ganeti import errors
from ganeti.storage.utilities import drbdtools
from ganeti.storage.utilities.drbdtools import Address, Config, Link, Syntax83, Syntax84

DATA = Path(__file__).parents[2] / "data" / "drbd"
SECRET = "0123456789abcdef"
V4 = Address("10.0.0.1", 11000), Address("10.0.0.2", 11000)
DYNAMIC = {
    "dynamic-resync": True,
    "resync-rate": 1000,
    "c-plan-ahead": 20,
    "c-fill-target": 0,
    "c-delay-target": 1,
    "c-max-rate": 61440,
    "c-min-rate": 4096,
}


def Read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_a_device_that_is_being_filled() -> None:
    minors = drbdtools.ParseMinors(Read("proc-8.4.11-sync.txt"))
    assert list(minors) == [0, 3]
    whole, filled = minors[0], minors[3]
    assert whole.connected and whole.primary and not whole.frozen and whole.percent is None
    assert (filled.connection, filled.role, filled.peer_role) == ("SyncTarget", "Secondary", "Primary")
    assert (filled.disk, filled.peer_disk, filled.percent, filled.estimate) == ("Inconsistent", "UpToDate", 8.0, 81.0)
    assert filled.in_resync and filled.agreed and not filled.connected


def test_a_frozen_device_and_one_without_anything() -> None:
    minors = drbdtools.ParseMinors(Read("proc-8.4.11-frozen.txt"))
    assert [number for number, minor in minors.items() if minor.frozen] == [3]
    assert [number for number, minor in minors.items() if minor.in_use] == [0, 3]
    assert not minors[0].agreed and not minors[0].standalone and minors[0].pending == 0
    assert minors[9] == drbdtools.Minor(9, "Unconfigured")


def test_older_modules_and_a_state_without_percentage() -> None:
    text = (
        "version: 8.3.2 (api:88/proto:86-90)\nGIT-hash: x build by root\n"
        " 0: cs:SyncSource st:Primary/Secondary ds:UpToDate/Inconsistent C r---\n    ns:0 nr:0 ap:2 ep:1\n"
        " 1: cs:StandAlone st:Secondary/Unknown ds:Diskless/DUnknown   r---\n"
    )
    assert drbdtools.ParseVersion(text) == (8, 3, 2)
    minors = drbdtools.ParseMinors(text)
    assert (minors[0].percent, minors[0].pending) == (0.0, 2)
    assert minors[1].standalone and minors[1].diskless


@pytest.mark.parametrize(
    "text",
    [
        "version: 9.1.4 (api:2/proto:110-121)\n",
        "version: 8.2.7 (api:88/proto:86-88)\n",
        "version: 8.0.16 (api:86/proto:86)\n",
        "nothing",
        "",
        "version: " + "9" * 5000 + ".4",
        "version: 8.4." + "1" * 5000,
    ],
)
def test_modules_that_cannot_be_driven(text: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match=r"must be 8.4|does not begin with a version"):
        drbdtools.ParseVersion(text)


def test_what_is_configured() -> None:
    configs = drbdtools.ParseShow(Read("show-8.4.11.txt"))
    assert configs == {
        0: Config(0, "resource0", "/dev/vg/x0_data", "/dev/vg/x0_meta", *V4, "resource-and-stonith"),
        3: Config(
            3,
            "resource3",
            "/dev/vg/x3_data",
            "/dev/vg/x3_meta",
            Address("fd00::1", 11003),
            Address("fd00::2", 11003),
            "resource-and-stonith",
        ),
        9: Config(9, "resource9"),
    }
    assert "topsecret" not in repr(configs)
    assert "topsecret" in Read("show-8.4.11.txt"), "the recording has what must not be kept"


def test_two_primaries_and_the_output_of_8_3() -> None:
    text = Read("show-8.4.11.txt").replace("cram-hmac-alg", "allow-two-primaries\tyes;\n cram-hmac-alg", 1)
    assert [config.two_primaries for config in drbdtools.ParseShow(text).values()] == [True, False, False]
    old = """disk {
        size            	0s _is_default; # bytes
        fencing         	dont-care _is_default;
}
net {
        timeout         	60 _is_default; # 1/10 seconds
        shared-secret   	"abc;}";
}
_this_host {
        device			minor 2;
        disk			"/dev/xenvg/a_data";
        meta-disk		"/dev/xenvg/a_meta" [ 0 ];
        address			ipv4 192.0.2.1:11001;
}
_remote_host {
        address			ipv4 192.0.2.2:11001;
}
"""
    ends = Address("192.0.2.1", 11001), Address("192.0.2.2", 11001)
    assert drbdtools.ParseShow(old, 2) == {
        2: Config(2, "resource2", "/dev/xenvg/a_data", "/dev/xenvg/a_meta", *ends, "dont-care")
    }


@pytest.mark.parametrize("text", ["resource a {", "}", "resource a { options"])
def test_output_that_is_cut_off(text: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match=r"incomplete|braces"):
        drbdtools.ParseShow(text)


@pytest.mark.req("RM-DISK-12", "RM-DISK-13", "RM-DISK-15", "RM-DISK-16", "RM-DISK-17", "RM-DISK-18", "RM-DISK-19")
def test_commands_of_8_4() -> None:
    assert Syntax84.MakeMeta(3, "/dev/vg/m") == (
        ["drbdmeta", "--force", "/dev/drbd3", "v08", "/dev/vg/m", "flex-external", "create-md"]
    )
    assert [" ".join(argv) for argv in Syntax84.Prepare(3)] == [
        "drbdsetup new-resource resource3",
        "drbdsetup new-minor resource3 3 0",
    ]
    barriers = Syntax84.Barriers("bf", True)
    assert barriers == ["--md-flushes=no", "--disk-barrier=no", "--disk-flushes=no"]
    assert Syntax84.Barriers("n", False) == []
    apply, attach = Syntax84.Attach(3, "/dev/vg/d", "/dev/vg/m", 64, ["--x"], Syntax84.Resync(DYNAMIC))
    assert " ".join(apply) == "drbdmeta /dev/drbd3 v08 /dev/vg/m flex-external apply-al"
    assert " ".join(attach) == (
        "drbdsetup attach 3 /dev/vg/d /dev/vg/m flexible --on-io-error=detach --size=64m --c-plan-ahead=20"
        " --c-fill-target=0 --c-delay-target=1 --c-max-rate=61440 --c-min-rate=4096 --x"
    )
    assert "--size" not in " ".join(Syntax84.Attach(3, "d", "m", None, [], [])[1])
    link = Link(Address("fd00::1", 1), Address("fd00::2", 1), "C", SECRET, True, False, ("--max-buffers=9",))
    assert " ".join(Syntax84.Connect(3, link)) == (
        "drbdsetup connect resource3 ipv6:[fd00::1]:1 ipv6:[fd00::2]:1 --protocol=C --allow-two-primaries=yes"
        f" --cram-hmac-alg=md5 --shared-secret={SECRET} --max-buffers=9"
    )
    assert SECRET not in repr(link)
    assert not any(word.startswith("--after-sb") for word in Syntax84.Connect(3, link))
    ends = "ipv6:[fd00::1]:1 ipv6:[fd00::2]:1"
    assert " ".join(Syntax84.Permit(link)) == f"drbdsetup net-options {ends} --protocol=C --allow-two-primaries=yes"
    alone = dataclasses.replace(link, two_primaries=False, protocol="B")
    assert " ".join(Syntax84.Permit(alone)) == f"drbdsetup net-options {ends} --protocol=B --allow-two-primaries=no"
    assert " ".join(Syntax84.Disconnect(3, *V4)) == (
        "drbdsetup disconnect ipv4:10.0.0.1:11000 ipv4:10.0.0.2:11000 --force=yes"
    )
    assert Syntax84.Options(3, Syntax84.Resync({"resync-rate": 7})) == (
        ["drbdsetup", "disk-options", "3", "--resync-rate=7", "--c-plan-ahead=0"]
    )
    assert Syntax84.Resize(3, 72) == ["drbdsetup", "resize", "3", "--size=72m"]
    assert Syntax84.Down(3) == ["drbdsetup", "down", "resource3"]


@pytest.mark.req("RM-DISK-22")
def test_commands_of_8_3() -> None:
    assert Syntax83.Prepare(3) == []
    attach, rate = Syntax83.Attach(3, "d", "m", 64, Syntax83.Barriers("d", True), Syntax83.Resync({"resync-rate": 7}))
    assert " ".join(attach) == (
        "drbdsetup /dev/drbd3 disk d m 0 -e detach --create-device -d 64m --no-md-flushes --no-disk-drain"
    )
    assert " ".join(rate) == "drbdsetup /dev/drbd3 syncer -r 7 --create-device"
    link = Link(*V4, "B", SECRET, True, True)
    assert " ".join(Syntax83.Connect(3, link)) == (
        "drbdsetup /dev/drbd3 net ipv4:10.0.0.1:11000 ipv4:10.0.0.2:11000 B --create-device -m -D -a md5 -x " + SECRET
    )
    assert Syntax83.Do("primary", 3, "--force") == ["drbdsetup", "/dev/drbd3", "primary", "--force"]
    assert Syntax83.MakeMeta(3, "m") == ["drbdmeta", "--force", "/dev/drbd3", "v08", "m", "0", "create-md"]
    assert Syntax83.Resize(3, 72) == ["drbdsetup", "/dev/drbd3", "resize", "-s", "72m"]
    assert Syntax83.Disconnect(3, *V4) == ["drbdsetup", "/dev/drbd3", "disconnect", "--force"]
    assert not Syntax83.CHANGES_LINK, "8.3 has no command for it"
    assert Syntax83.Down(3) == ["drbdsetup", "/dev/drbd3", "down"]


@pytest.mark.parametrize(
    "text",
    [
        "resource r { _this_host { volume 0 { device minor; } } }",
        "resource r { _this_host { volume 0 { device minor x; } } }",
        "resource r { _this_host { address ipv4 192.0.2.1:port; } }",
        "resource r { net { ; } }",
        "resource r {",
        "}",
    ],
)
def test_configurations_that_make_no_sense(text: str) -> None:
    with pytest.raises(errors.BlockDeviceError, match="drbdsetup show printed"):
        drbdtools.ParseShow(text)


def test_numbers_that_make_no_sense() -> None:
    state = "ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----"
    text = f" 0: cs:SyncSource {state}\n sync'ed: 1.1.8% finish: 0:02:43\n {'1' * 5000}: cs:Connected {state}\n"
    minors = drbdtools.ParseMinors(text)
    assert not minors[0].readable and minors[0].in_use


def test_a_secret_may_have_any_character() -> None:
    """Nothing that stands in quotes is a comment or a brace."""
    text = """
resource other { # of the administrator
    net { shared-secret "a#b{\\"c;"; }
    _this_host { volume 0 { device minor 9; disk "/dev/vg/x"; meta-disk internal; } }
}
resource resource0 { _this_host { volume 0 { device minor 0; disk "/dev/vg/a"; meta-disk "/dev/vg/b"; } } }
"""
    assert {minor: config.resource for minor, config in drbdtools.ParseShow(text).items()} == {
        9: "other",
        0: "resource0",
    }
