"""LVM for a simulated machine: programs with the command lines and the output of the real ones (LVM 2.03)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ganeti import runtime

if TYPE_CHECKING:
    from simulated import Invocation, Machine

MIB = 1 << 20
EXTENT = 4  # MiB


@dataclass
class Pv:
    """``free``: MiB.  ``missing``: its device is away; ``flagged``: the group was changed meanwhile, so it counts as missing
    until ``vgextend --restoremissing`` even if its device is there again.
    """

    name: str
    group: str
    size: int
    free: int
    allocatable: bool = True
    missing: bool = False
    flagged: bool = False

    @property
    def counts_as_missing(self) -> bool:
        return self.missing or self.flagged

    @property
    def uuid(self) -> str:
        return f"uuid-of-{self.name.rpartition('/')[2]}"


@dataclass
class Lv:
    """``segments``: (physical volume, MiB) in order."""

    group: str
    name: str
    size: int
    stripes: int
    segments: list[tuple[str, int]]
    active: bool = True
    open: bool = False
    tags: list[str] = field(default_factory=list)


# Commands that write a group's metadata, in which LVM then keeps that a disk was away.
_CHANGING = ("lvcreate", "lvremove", "lvrename", "lvextend", "pvchange")


class _Refused(Exception):
    """What a program complains of; it ends with 5."""


class StandInLvm:
    """The physical and logical volumes of a machine; ``runs``: the command lines seen.

    ``held`` says of a path whether another device has it open.  An active volume is a file below /dev, so its content can be written and read.
    """

    def __init__(self, machine: Machine):
        self.pvs: dict[str, Pv] = {}
        self.lvs: dict[tuple[str, str], Lv] = {}
        self.runs: list[list[str]] = []
        self.sizes: dict[str, int] = {}
        self.held: Callable[[str], bool] = lambda _path: False
        self._machine = machine
        for name in (
            "pvs",
            "vgs",
            "lvs",
            "lvcreate",
            "lvchange",
            "lvremove",
            "lvrename",
            "lvextend",
            "vgreduce",
            "pvchange",
            "pvcreate",
            "vgcreate",
            "vgextend",
        ):
            machine.programs[name] = self._Run

    def AddPv(self, name: str, group: str, size: int) -> None:
        self.pvs[name] = Pv(name, group, size, size)

    def Volumes(self) -> list[str]:
        return sorted("/".join(key) for key in self.lvs)

    def Count(self, program: str) -> int:
        return sum(argv[0] == program for argv in self.runs)

    # --- programs -----------------------------------------------------------------------------------------------------

    def _Run(self, invocation: Invocation) -> int:
        self.runs.append(list(invocation.argv))
        program, *words = invocation.argv
        if words[:1] == ["--config"]:
            words = words[2:]
        try:
            output = getattr(self, f"_{program.capitalize()}")(words)
        except _Refused as err:
            invocation.Complain(f"  {err}\n")
            return 5
        if program in _CHANGING and "--test" not in words:
            concerned = {part for word in words for part in word.split("/")}
            for pv in self.pvs.values():
                pv.flagged |= pv.missing and pv.group in concerned
        invocation.Print(output or "")
        return 0

    def _Pvs(self, words: list[str]) -> str:
        if "-ovg_name,pv_uuid,pv_attr,pv_name" in words:
            rows = [f"  {pv.group}|{pv.uuid}|{_Attributes(pv)}|{_Shown(pv)}" for pv in self.pvs.values()]
            return "".join(f"{row}\n" for row in rows)
        fields = words[-1].removeprefix("-o").split(",")
        assert fields[1:] == ["vg_name", "pv_free", "pv_attr", "pv_size", "lv_name"], words
        shown = {"pv_name": _Shown, "pv_uuid": lambda pv: pv.uuid}[fields[0]]
        lines = []
        for pv in self.pvs.values():
            names = [lv.name for lv in self.lvs.values() for name, _ in lv.segments if name == pv.name] or [""]
            # The free extents after the last segment are a line of their own.
            names += [""] if names != [""] and pv.free else []
            front = f"  {shown(pv)}|{pv.group}|{pv.free:.2f}|{_Attributes(pv)}|{pv.size:.2f}"
            lines += [f"{front}|{name}" for name in names]
        return "\n".join(lines) + "\n"

    def _Vgs(self, words: list[str]) -> str:
        assert "-ovg_name,vg_free,vg_attr,vg_size" in words, words
        lines = []
        for group in sorted({pv.group for pv in self.pvs.values() if pv.group}):
            pvs = [pv for pv in self.pvs.values() if pv.group == group]
            partial = "p" if any(pv.counts_as_missing for pv in pvs) else "-"
            free, size = (sum(getattr(pv, what) for pv in pvs) for what in ("free", "size"))
            lines.append(f"  {group}|{free:.2f}|wz-{partial}n-|{size:.2f}")
        return "".join(f"{line}\n" for line in lines)

    def _Lvs(self, words: list[str]) -> str:
        fields = next(word[2:] for word in words if word.startswith("-o")).split(",")
        lines = []
        for number, lv in enumerate(self.lvs.values()):
            health = "p" if self._Partial(lv) else "-"
            state = f"-wi-{'a' if lv.active else '-'}{'o' if lv.open else '-'}--{health}-"
            values = {
                "vg_name": lv.group,
                "lv_name": lv.name,
                "lv_attr": state,
                "lv_kernel_major": "253" if lv.active else "-1",
                "lv_kernel_minor": str(number) if lv.active else "-1",
                "vg_extent_size": f"{EXTENT * 1024}.00",
                "stripes": str(lv.stripes),
                "lv_size": f"{lv.size * 1024}.00",
                "lv_tags": ",".join(lv.tags),
            }
            rows = [lv.segments] if lv.stripes > 1 else [[segment] for segment in lv.segments]
            for row in rows:
                values["devices"] = ",".join(f"{_Shown(self.pvs[name])}(0)" for name, _ in row)
                lines.append("  " + "|".join(values[name] for name in fields))
        return "".join(f"{line}\n" for line in lines)

    def _Lvcreate(self, words: list[str]) -> None:
        options = [word for word in words if word.startswith("-")]
        names = [word for word in words if not word.startswith("-")]
        value = {word[:2]: word[2:] for word in options}
        size = _RoundUp(int(value["-L"].removesuffix("m")))
        if "-s" in options:
            origin = self._At(names[0])
            lv = Lv(origin.group, value["-n"], size, 1, self._Take(origin.group, size, 1, []))
        else:
            group, *pvs = names
            if (group, value["-n"]) in self.lvs:
                raise _Refused(f'Logical Volume "{value["-n"]}" already exists in volume group "{group}"')
            stripes = int(value.get("-i", "1"))
            lv = Lv(group, value["-n"], size, stripes, self._Take(group, size, stripes, pvs))
        self.lvs[lv.group, lv.name] = lv
        runtime.MakeDirs(f"/dev/{lv.group}")
        path = f"/dev/{lv.group}/{lv.name}"
        if "-s" in options:
            runtime.WriteFile(path, runtime.ReadFile(names[0]))
        else:
            runtime.CreateFile(path, size * MIB)

    def _Take(self, group: str, size: int, stripes: int, wanted: list[str]) -> list[tuple[str, int]]:
        pvs = [pv for pv in self.pvs.values() if pv.group == group and pv.allocatable and not pv.counts_as_missing]
        if not pvs:
            raise _Refused(f'Volume group "{group}" not found')
        usable = [self.pvs[name] for name in wanted] or pvs
        if stripes > 1:
            part = math.ceil(size / stripes)
            parts = [(pv, part) for pv in usable if pv.free >= part][:stripes]
            if len(parts) < stripes:
                raise _Refused(f"Insufficient suitable allocatable extents for logical volume: {size} MiB")
        else:
            parts, left = [], size
            for pv in usable:
                if left and pv.free:
                    parts.append((pv, min(left, pv.free)))
                    left -= parts[-1][1]
            if left:
                raise _Refused(f'Volume group "{group}" has insufficient free space: {size} MiB required')
        for pv, taken in parts:
            pv.free -= taken
        return [(pv.name, taken) for pv, taken in parts]

    def _At(self, path: str) -> Lv:
        group, name = path.removeprefix("/dev/").split("/")
        if (group, name) not in self.lvs:
            raise _Refused(f'Failed to find logical volume "{group}/{name}"')
        return self.lvs[group, name]

    def _Lvchange(self, words: list[str]) -> None:
        lv = self._At(words[-1])
        pairs = iter(words[:-1])
        for option in pairs:
            if option == "-ay":
                lv.active = True
            elif option == "--addtag":
                lv.tags.append(next(pairs))
            elif option == "--deltag":
                lv.tags.remove(next(pairs))
            else:
                raise _Refused(f"unknown option {option}")

    def _Lvremove(self, words: list[str]) -> None:
        lv = self._At(words[-1])
        self._CheckUnused(lv)
        for name, taken in lv.segments:
            self.pvs[name].free += taken
        del self.lvs[lv.group, lv.name]
        runtime.RemoveFile(f"/dev/{lv.group}/{lv.name}")

    def _Lvrename(self, words: list[str]) -> None:
        if len(words) == 2:  # each with the group
            words = [*words[0].split("/"), words[1].removeprefix(words[0].partition("/")[0] + "/")]
        group, old, new = words
        lv = self._At(f"{group}/{old}")
        if (group, new) in self.lvs:
            raise _Refused(f'Logical volume "{new}" already exists in volume group "{group}"')
        del self.lvs[group, old]
        lv.name = new
        self.lvs[group, new] = lv
        runtime.Rename(f"/dev/{group}/{old}", f"/dev/{group}/{new}")

    def _Lvextend(self, words: list[str]) -> None:
        path = next(word for word in words if word.startswith("/dev/") and word not in self.pvs)
        lv = self._At(path)
        more = _RoundUp(math.ceil(int(words[words.index("-L") + 1].strip("+k")) / 1024))
        pvs = list(words[words.index(path) + 1 :])
        if words[words.index("--alloc") + 1] == "contiguous" and len(lv.segments) > 1:
            raise _Refused("Insufficient suitable contiguous allocatable extents")
        segments = self._Take(lv.group, more, 1, pvs)
        if "--test" in words:
            for name, taken in segments:
                self.pvs[name].free += taken
            return
        lv.segments += segments
        lv.size += more
        runtime.Extend(path, lv.size * MIB)

    def _Vgreduce(self, words: list[str]) -> None:
        group = words[-1]
        gone = {pv.name for pv in self.pvs.values() if pv.group == group and pv.counts_as_missing}
        partial = [lv for lv in self.lvs.values() if lv.group == group and self._Partial(lv)]
        if partial and "--force" not in words:
            raise _Refused("There are still partial LVs in VG; use --force to remove them")
        for lv in partial:
            self._CheckUnused(lv)
        for lv in partial:
            for name, taken in lv.segments:
                self.pvs[name].free += taken
            del self.lvs[lv.group, lv.name]
            runtime.RemoveFile(f"/dev/{lv.group}/{lv.name}")
        for name in gone:
            del self.pvs[name]

    def _CheckUnused(self, lv: Lv) -> None:
        if lv.open:
            raise _Refused(f"Logical volume {lv.group}/{lv.name} in use.")
        if self.held(f"/dev/{lv.group}/{lv.name}"):
            raise _Refused(f"Logical volume {lv.group}/{lv.name} is used by another device.")

    def _Partial(self, lv: Lv) -> bool:
        return any(self.pvs[name].counts_as_missing for name, _ in lv.segments)

    def _Vgextend(self, words: list[str]) -> None:
        option, _group, *names = words
        assert option == "--restoremissing"
        for name in names:
            if self.pvs[name].missing:
                raise _Refused(f'Failed to find physical volume "{name}".')
            self.pvs[name].flagged = False

    def _Pvchange(self, words: list[str]) -> None:
        if words[-1] not in self.pvs:
            raise _Refused(f'Failed to find physical volume "{words[-1]}".')
        self.pvs[words[-1]].allocatable = words[words.index("-x") + 1] == "y"

    def _Pvcreate(self, words: list[str]) -> None:
        """``sizes`` has the MiB of devices that are not the 1024 by default."""
        if words[-1] in self.pvs and "-yff" not in words:
            raise _Refused(f"Can't initialize physical volume {words[-1]!r} without -ff")
        self.AddPv(words[-1], "", self.sizes.get(words[-1], 1024))

    def _Vgcreate(self, words: list[str]) -> None:
        group, *names = words[words.index("-s") + 2 :]
        if any(pv.group == group for pv in self.pvs.values()):
            raise _Refused(f"A volume group called {group} already exists.")
        for name in names:
            self.pvs[name].group = group


def _Shown(pv: Pv) -> str:
    """How LVM names a physical volume; it has no name for one that is away."""
    return "[unknown]" if pv.missing else pv.name


def _Attributes(pv: Pv) -> str:
    return f"{'a' if pv.allocatable else 'u'}-{'m' if pv.counts_as_missing else '-'}"


def _RoundUp(mib: int) -> int:
    return math.ceil(mib / EXTENT) * EXTENT
