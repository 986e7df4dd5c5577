"""What help and manuals say about the values of options comes from the tables that check them."""

import pytest

from ganeti import hypervisor, storage
from ganeti.cli import grammar
from ganeti.cli.command import PROGRAMS, LoadProgram
from ganeti.opcodes import types
from ganeti.params import be, disk, hv, nd

SHOWN = {
    option.grammar
    for name in PROGRAMS
    for _, command in LoadProgram(name).Forms()
    for option in command.options
    if option.grammar and not option.hidden
}


def test_every_topic_belongs_to_an_option():
    assert set(grammar.TOPICS) == SHOWN


@pytest.mark.parametrize("name", sorted(grammar.TOPICS))
def test_topic(name):
    topic = grammar.TOPICS[name]()
    text = grammar.ForHelp(name)
    assert text.startswith(f"{topic.title}\n{'=' * len(topic.title)}\n")
    assert max(map(len, text.splitlines())) <= 79
    manual = "\n".join(grammar.ForManual(name))
    for table in topic.tables:
        for key in table.keys:
            assert key.text
            assert key.name.partition("=")[0] in text
            assert f"``{key.name}``" in manual
    assert all(f"\n  {example}" in text for example in topic.examples)


def test_what_has_no_driver_is_not_explained():
    """Whoever adds a driver adds its name to ``grammar`` as well."""
    assert set(grammar.HYPERVISORS) == set(hypervisor.DRIVERS)
    assert set(disk.TEMPLATES) == set(storage.DRIVERS) | {"diskless"}


def test_disks_and_nics_have_the_keys_of_the_opcodes():
    assert set(types.TDisk.Schema()["properties"]) == set(grammar._DISK_KEYS)
    assert set(types.TNic.Schema()["properties"]) == set(grammar._NIC_KEYS)
    assert "  mode=ro|rw " in grammar.ForHelp("disk")
    assert "bridged, routed or openvswitch" in " ".join(grammar.ForHelp("net").split())


def test_parameters_are_those_of_the_tables():
    def names(topic):
        return {key.name.partition("=")[0] for table in grammar.TOPICS[topic]().tables for key in table.keys}

    assert names("backend") == set(be.INPUT_TABLE)
    assert names("node-parameters") == set(nd.TABLE)
    assert names("hypervisor") == set(hv.TABLES["kvm"]) | set(hv.TABLES["fake"])
    key = next(key for key in grammar.TOPICS["hypervisor"]().tables[1].keys if key.name.startswith("disk_cache="))
    assert key.text == "host cache (one of default, none, writeback, writethrough; default: default)"


@pytest.mark.parametrize(
    ("program", "command", "shown"),
    [
        ("gnt-node", "modify", ["--drained=yes|no, -D yes|no", "--priority=high|low|normal"]),
        ("gnt-instance", "reboot", ["--type=full|hard|soft, -t full|hard|soft", "(default: hard)"]),
        ("gnt-instance", "migrate", ["--migration-mode=live|non-live"]),
        ("gnt-instance", "shutdown", ["--timeout=SECONDS", "(default: 120)"]),
        ("gnt-group", "modify", ["--alloc-policy=POLICY", "last_resort, preferred or unallocable"]),
        ("gnt-instance", "add", ["--disk 0:size=10g", "--net 0:link=br0", "-B memory=2g,vcpus=2", "-H kvm"]),
    ],
)
def test_help_lists_choices_and_examples(program, command, shown):
    from ganeti.cli import main

    loaded = LoadProgram(program)
    text = " ".join(main.MakeParser(loaded, command, loaded.Load(command)).format_help().split())
    for part in shown:
        assert part in text
