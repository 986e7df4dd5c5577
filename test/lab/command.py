"""test/lab/run: stories by name, or a cluster to look around in."""

from __future__ import annotations

import argparse
import cmd
import random
import shlex
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import stories
from lab.cluster import InstallAll, LabCluster, Node
from lab.files import Lack
from lab.readme import InstallAsReadme
from lab.site import LightSite, Site, SiteMachines
from lab.stage import Stage, Teller

_DESCRIPTION = """Start virtual machines as nodes with real LVM and DRBD, form a cluster of them, and run stories or wait.
Everything is taken down at the end and at Ctrl-C."""


def Main(argv: list[str]) -> int:
    known = stories.All()
    parser = argparse.ArgumentParser(prog="test/lab/run", description=_DESCRIPTION)
    parser.add_argument("--list", action="store_true", help="list the stories, start nothing")
    parser.add_argument("--story", action="append", default=[], metavar="NAME", help="run this story; may be repeated")
    parser.add_argument("--all", action="store_true", help="run all stories that this number of nodes suffices for")
    parser.add_argument("--times", type=int, default=1, help="how many times (default: %(default)s)")
    parser.add_argument(
        "--nodes", type=int, default=2, choices=range(2, 6), help="how many nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--light", action="store_true", help="stories of machines that become a cluster: in namespaces, without QEMU"
    )
    parser.add_argument(
        "--as-readme", action="store_true", help="these stories: install what the README says, by its own commands"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 24), help="repeats a run")
    parser.add_argument(
        "--first", type=int, default=1, metavar="PLACE", help="where the stories of every place (_everywhere) begin"
    )
    parser.add_argument(
        "--strikes",
        choices=("one", "others", "all"),
        default="one",
        help="what they do at each place: one thing, after the other in turn, what that leaves out, or all",
    )
    parser.add_argument("--keep", action="store_true", help="leave the machines running, and take commands")
    options = parser.parse_args(argv)
    if options.list:
        for name, story in known.items():
            print(f"{name:38} {stories.NodesFor(story)} nodes  {(story.__doc__ or '').splitlines()[0]}")
        return 0
    wanted = _All(options) if options.all else options.story
    for name in wanted:
        if name not in known:
            parser.error(f"there is no story {name}; --list lists them")
        if stories.NodesFor(known[name]) > options.nodes and not stories.IsOnSite(known[name]):
            parser.error(f"story {name} needs --nodes {stories.NodesFor(known[name])}")
        if options.light and not stories.IsOnSite(known[name]):
            parser.error(f"story {name} needs disks, which light machines do not have: leave --light out")
    if lack := "" if options.light else Lack(options.nodes):
        print(f"test/lab/run: the laboratory cannot run here: {lack}")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _Run(options, wanted)
    except KeyboardInterrupt:
        print("\ninterrupted")
        return 130


def _All(options: argparse.Namespace) -> list[str]:
    """Return the names of the stories that these machines suffice for."""
    known = stories.All()
    if options.light:
        return [name for name in known if stories.IsOnSite(known[name])]
    return [name for name in known if stories.NodesFor(known[name]) <= options.nodes]


def _Run(options: argparse.Namespace, wanted: list[str]) -> int:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f}  {text}", flush=True)

    say(f"seed {options.seed}")
    known = stories.All()
    on_site = [name for name in wanted if stories.IsOnSite(known[name])]
    others = [name for name in wanted if name not in on_site]
    failed = _TellOnSite(options, on_site, say)
    if others or (options.keep and not options.light):
        failed += _TellInCluster(options, others, say)
    elif options.keep and not on_site:
        _KeepLight(options, say)
    say("everything is taken down")
    return 1 if failed else 0


def _TellInCluster(options: argparse.Namespace, names: list[str], say: Callable[[str], None]) -> int:
    """Run stories of a cluster, all in the same; return how many failed."""
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="lab-", dir="/var/tmp") as folder,
        LabCluster(Path(folder), options.nodes, say) as cluster,
    ):
        stage = Stage(cluster, options.seed, say, options.first, options.strikes)
        for name, seed in _Rounds(names, options.times, options.seed):
            failed += not _Tell(stage, name, seed)
            if failed and not options.keep:
                break
        if options.keep:
            Prompt(stage).cmdloop()
    return failed


def _TellOnSite(options: argparse.Namespace, names: list[str], say: Callable[[str], None]) -> int:
    """Run stories that begin with machines that are in no cluster; return how many failed."""
    install = InstallAsReadme if options.as_readme else InstallAll
    failed = 0
    for name, seed in _Rounds(names, options.times, options.seed):
        with tempfile.TemporaryDirectory(prefix="lab-", dir="/var/tmp") as folder:
            count = max(options.nodes, stories.NodesFor(stories.All()[name]))
            made = (LightSite if options.light else Site)(Path(folder), count, say, install)
            with made as site:
                teller = Teller(site, seed, say, options.first)
                failed += not _Tell(teller, name, seed)
                if options.light and options.keep:
                    SitePrompt(teller).cmdloop()
        if failed:
            break
    return failed


def _KeepLight(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Keep light machines that are in no cluster for whoever wants to look around."""
    install = InstallAsReadme if options.as_readme else InstallAll
    with (
        tempfile.TemporaryDirectory(prefix="lab-", dir="/var/tmp") as folder,
        LightSite(Path(folder), options.nodes, say, install) as site,
    ):
        SitePrompt(Teller(site, options.seed, say)).cmdloop()


def _Rounds(names: list[str], times: int, seed: int) -> list[tuple[str, int]]:
    """Return every story with its seed, which grows with each round: ``--story NAME --seed N`` repeats any of them."""
    return [(name, seed + turn) for turn in range(times) for name in names]


def _Tell(stage: Teller[Any], name: str, seed: int) -> bool:
    """Run a story and return whether it ended well."""
    began, stage.seed = time.monotonic(), seed
    try:
        stage.Begin(name)
        stories.All()[name](stage)
    except Exception:  # noqa: BLE001 - the cluster stays for whoever wants to look
        traceback.print_exc()
        stage.say(f"{name}, seed {seed}: failed after {time.monotonic() - began:.0f} s")
        return False
    stage.say(f"{name}, seed {seed}: ended well after {time.monotonic() - began:.0f} s")
    return True


class _Prompt(cmd.Cmd):
    """Commands for machines that are kept."""

    prompt = "lab> "

    def __init__(self, teller: Teller[Any]):
        super().__init__()
        self._nodes: dict[str, Node] = {node.name: node for node in teller.cluster.nodes}

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except Exception as err:  # noqa: BLE001 - shown to the person at the prompt
            print(f"{type(err).__name__}: {err}")
            return False

    def emptyline(self) -> bool:
        return False

    def do_on(self, line: str) -> None:
        """on NODE COMMAND...: run a command on a node"""
        name, _, script = line.partition(" ")
        done = self._nodes[name].Run("sh", "-c", script, check=False, seconds=3600)
        print(done.stdout + done.stderr, end="")

    def do_quit(self, _line: str) -> bool:
        """quit: take everything down (Ctrl-D and Ctrl-C do, too)"""
        return True

    do_EOF = do_quit


class SitePrompt(_Prompt):
    """Commands for light machines, whether they are a cluster already or not."""

    def __init__(self, teller: Teller[SiteMachines]):
        super().__init__(teller)
        self._site = teller.cluster
        self.intro = "\n".join(
            [
                f"Machines: {', '.join(self._nodes)}; root of {self._site.master.name} is let in everywhere over SSH.",
                "Commands: on NODE COMMAND..., off, power, cut, heal; 'help' explains them.",
            ]
        )

    def do_off(self, line: str) -> None:
        """off NODE: take its power away"""
        self._site.PowerOff(self._nodes[line])

    def do_power(self, line: str) -> None:
        """power NODE: give it its power back"""
        self._site.PowerOn(self._nodes[line])

    def do_cut(self, line: str) -> None:
        """cut NODE: take its cable out"""
        self._site.CutOff(self._nodes[line])

    def do_heal(self, _line: str) -> None:
        """heal: put all cables back"""
        self._site.Heal()


class Prompt(_Prompt):
    """Commands for a cluster that is kept."""

    def __init__(self, stage: Stage):
        super().__init__(stage)
        self._stage = stage
        lines = ["", "To log in (Ctrl-] ends it):"]
        lines += [f"  {node.name}: socat -,raw,echo=0,escape=0x1d {node.machine.shell}" for node in stage.cluster.nodes]
        self.intro = "\n".join(
            [*lines, "Commands: on NODE COMMAND..., off, power, cut, heal, story; 'help' explains them."]
        )

    def do_off(self, line: str) -> None:
        """off NODE: take its power away"""
        self._stage.PowerOff(self._nodes[line])

    def do_power(self, line: str) -> None:
        """power NODE: give it its power back"""
        self._stage.PowerOn(self._nodes[line])

    def do_cut(self, line: str) -> None:
        """cut NODE [NODE]: cut all links of a node; with two: what the first sends to the second"""
        names = [self._nodes[word].name for word in shlex.split(line)]
        switch = self._stage.cluster.switch
        if len(names) == 1:
            switch.CutOff(*names)
        else:
            switch.Cut(*names)

    def do_heal(self, _line: str) -> None:
        """heal: mend all links"""
        self._stage.cluster.switch.Heal()

    def do_story(self, line: str) -> None:
        """story NAME [SEED]: run a story"""
        name, *rest = line.split()
        _Tell(self._stage, name, int(rest[0]) if rest else self._stage.seed)
