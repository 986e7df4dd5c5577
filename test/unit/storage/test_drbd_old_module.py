"""A mirror on a module of version 8.3, which has no command that changes a link: it is made anew, or left as it is."""

from __future__ import annotations

import pytest
from simulated import Invocation
from simulated.disk import File
from support.mirrorpair import Pair, Side

_PROC = """version: 8.3.11 (api:88/proto:86-96)
srcversion: F937DCB2E5D83C6CCE4A6C9
 0: cs:{link} ro:Secondary/{peer} ds:UpToDate/{disk} C r-----
    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
"""
_SHOW = """disk {{
        fencing                 resource-and-stonith;
}}
net {{
        timeout                 60 _is_default; # 1/10 seconds
{permission}}}
_this_host {{
        device                  minor 0;
        disk                    "/dev/vg/one_data";
        meta-disk               "/dev/vg/one_meta" [ 0 ];
{local}}}
"""
_LOCAL = "        address                 ipv4 192.0.2.1:11000;\n"
_REMOTE = "_remote_host {\n        address                 ipv4 192.0.2.2:11000;\n}\n"


class OldModule:
    """One device and its program; ``commands``: what was to change its link, in order."""

    def __init__(self, side: Side, permitted: bool):
        self.permitted = permitted
        self.linked = True
        self.commands: list[list[str]] = []
        self._disk = side.machine.disk
        side.machine.programs["drbdsetup"] = self._Run
        self._Publish()

    def _Publish(self) -> None:
        peer = ("Connected", "Secondary", "UpToDate") if self.linked else ("StandAlone", "Unknown", "DUnknown")
        text = _PROC.format(link=peer[0], peer=peer[1], disk=peer[2])
        self._disk.Insert("/proc/drbd", File(self._disk, 0o644, data=text.encode()), replace=True)

    def _Run(self, invocation: Invocation) -> int:
        device, command, *words = invocation.argv[1:]
        assert device == "/dev/drbd0"
        if command == "show":
            permission = "        allow-two-primaries;\n" if self.linked and self.permitted else ""
            text = _SHOW.format(permission=permission, local=_LOCAL if self.linked else "")
            invocation.Print(text + (_REMOTE if self.linked else ""))
            return 0
        if command == "primary":
            return 0
        self.commands.append([command, *words])
        if command == "disconnect":
            self.linked = False
        else:
            assert command == "net" and not self.linked
            self.linked, self.permitted = True, "-m" in words
        self._Publish()
        return 0


@pytest.mark.req("RM-DISK-21", "RM-DISK-22")
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("permitted", [False, True])
def test_a_link_is_dropped_only_if_it_permits_something_else(permitted: bool, wanted: bool) -> None:
    pair = Pair().Create()
    old = OldModule(pair.one, permitted)
    pair.one.Do("drbd_attach_net", [pair.one.Disk(**{"net-custom": "--max-buffers=4000"})], wanted)
    assert old.linked and old.permitted == wanted
    names = [words[0] for words in old.commands]
    assert names == ([] if permitted == wanted else ["disconnect", "net"])
    assert all(words[-1] == "--max-buffers=4000" for words in old.commands if words[0] == "net")
