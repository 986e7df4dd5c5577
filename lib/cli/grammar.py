"""The grammar of option values, for help and manuals: made from the tables that check the values.

A topic is named by the options that it explains (``Opt.grammar``).  It is made when it is printed, because the tables are
large and most commands run without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill, wrap
from typing import Any, NamedTuple

from ganeti import constants

_WIDTH = 79
# Longer names and forms of values have their explanation on the next line.
_COLUMN = 24
# More keys than these are only named in help; the manual explains each.
_FEW = 16


# What has a driver on the nodes; nothing else is explained.
HYPERVISORS = (constants.HT_FAKE, constants.HT_KVM)


class Key(NamedTuple):
    """Describes one key of a KEY=VALUE list, or one form of a value."""

    name: str
    text: str


class Keys(NamedTuple):
    """Describes the keys that belong together."""

    title: str
    keys: Sequence[Key]


class Topic(NamedTuple):
    """Explains the value of an option: its forms, the keys of its KEY=VALUE lists, examples."""

    title: str
    intro: str
    forms: Sequence[Key] = ()
    tables: Sequence[Keys] = ()
    examples: Sequence[str] = ()


# --- keys from tables of parameters -----------------------------------------------------------------------------------

_KINDS = {"size": "SIZE", "int": "NUMBER", "float": "NUMBER", "bool": "true|false"}


def _ParamKey(name: str, param: Any) -> Key:
    """Describe a parameter: what it is, which values are allowed, what it is without the option."""
    choices = [str(choice) for choice in param.check.choices if choice != ""] if param.check else []
    shown = "|".join(choices)
    if not shown or len(shown) > _COLUMN:
        shown = _KINDS.get(param.type, "TEXT")
    facts = []
    if choices and "|".join(choices) != shown:
        facts.append(f"one of {', '.join(choices)}")
    elif param.check and not choices:
        facts.append(param.check.text)
    if param.default not in (None, ""):
        value = str(param.default).lower() if param.type == "bool" else param.default
        facts.append(f"default: {value}")
    if param.is_global:
        facts.append("for the cluster only")
    return Key(f"{name}={shown}", f"{param.doc} ({'; '.join(facts)})" if facts else param.doc)


def _ParamKeys(title: str, table: Mapping[str, Any]) -> Keys:
    return Keys(title, [_ParamKey(name, table[name]) for name in sorted(table)])


_PREFIXES = (
    "no_KEY stands for KEY=false, a KEY alone for KEY=true; a backslash before a comma makes it part of the value."
)


def _Backend() -> Topic:
    from ganeti.params import be

    return Topic(
        "Backend parameters (-B)",
        f"KEY=VALUE pairs, separated by commas. {_PREFIXES} A SIZE has the unit m, g or t; a bare number is MiB."
        " It is rounded up to a multiple of 4 MiB.",
        tables=[_ParamKeys("", be.INPUT_TABLE)],
        examples=["-B memory=2g,vcpus=2", "-B minmem=1g,maxmem=4g", "-B no_auto_balance"],
    )


def _HypervisorTables() -> list[Keys]:
    from ganeti.params import hv

    return [_ParamKeys(f"Parameters of {name}", hv.TABLES[name]) for name in HYPERVISORS]


def _Hypervisors() -> Topic:
    return Topic(
        "Hypervisor parameters (-H)",
        f"A hypervisor, a colon and KEY=VALUE pairs. {_PREFIXES}",
        tables=_HypervisorTables(),
        examples=["-H kvm:serial_console=true -H fake:migration_mode=live"],
    )


def _Hypervisor() -> Topic:
    return Topic(
        "Hypervisor parameters (-H)",
        f"KEY=VALUE pairs with parameters of the instance's hypervisor. {_PREFIXES}",
        tables=_HypervisorTables(),
        examples=["-H boot_order=cdrom,cdrom_image_path=/srv/install.iso", "-H no_acpi", "-H kernel_path=default"],
    )


def _HypervisorNew() -> Topic:
    return Topic(
        "Hypervisor and its parameters (-H)",
        f"A hypervisor, alone or with a colon and KEY=VALUE pairs. {_PREFIXES}",
        tables=_HypervisorTables(),
        examples=["-H kvm", "-H kvm:kernel_path=,vnc_bind_address=127.0.0.1"],
    )


def _NicParameters() -> Topic:
    from ganeti.params import nic

    return Topic(
        "NIC parameters (-N)",
        "KEY=VALUE pairs: the defaults for NICs that do not set the parameter themselves.",
        tables=[_ParamKeys("", nic.TABLE)],
        examples=["-N mode=bridged,link=br0", "-N mode=routed,link=100"],
    )


def _Connection() -> Topic:
    from ganeti.params import nic

    return Topic(
        "Connection (-N)",
        "KEY=VALUE pairs: how NICs in the network are connected.",
        tables=[_ParamKeys("", nic.TABLE)],
        examples=["-N mode=bridged,link=br0", "-N mode=openvswitch,link=switch1,vlan=100"],
    )


def _NodeParameters() -> Topic:
    from ganeti.params import nd

    return Topic(
        "Node parameters (--node-parameters)",
        f"KEY=VALUE pairs. A node inherits from its group, and the group from the cluster. {_PREFIXES}",
        tables=[_ParamKeys("", nd.TABLE)],
        examples=["--node-parameters ssh_port=2222", "--node-parameters spindle_count=8,cpu_speed=1.2"],
    )


def _DiskParameters() -> Topic:
    from ganeti.params import disk

    return Topic(
        "Disk parameters (-D)",
        f"A disk template, a colon and KEY=VALUE pairs. {_PREFIXES}",
        tables=[
            _ParamKeys(f"Parameters of {name}", template.params)
            for name, template in sorted(disk.TEMPLATES.items())
            if template.params
        ],
        examples=["-D drbd:resync-rate=102400,protocol=C -D plain:stripes=2"],
    )


def _HypervisorState() -> Topic:
    from ganeti.params import nd

    return Topic(
        "Recorded state of hypervisors (--hypervisor-state)",
        "A hypervisor, a colon and KEY=VALUE pairs; allocators and htools use them instead of what a node reports.  0 is not"
        " recorded.  mem_total and cpu_total count for a node only; the others also for all nodes of a group or cluster.",
        tables=[_ParamKeys("", nd.HV_STATE_TABLE)],
        examples=["--hypervisor-state kvm:mem_node=2048,cpu_node=2"],
    )


def _DiskState() -> Topic:
    from ganeti.params import nd

    return Topic(
        "Recorded state of storage (--disk-state)",
        f"A type of storage ({', '.join(nd.DISK_STATE_TYPES)}), a slash, a name, a colon and KEY=VALUE pairs, used in the same"
        " way.  disk_total counts for a node only, disk_overhead where disk_total is recorded.",
        tables=[_ParamKeys("", nd.DISK_STATE_TABLE)],
        examples=["--disk-state plain/xenvg:disk_reserved=10240"],
    )


# --- instance policy --------------------------------------------------------------------------------------------------


def _SpecKeys() -> list[Keys]:
    from ganeti.params import ipolicy

    return [Keys("", [Key(name, ipolicy.SPEC_TABLE[name].doc) for name in ipolicy.SPEC_TABLE])]


def _IpolicyBounds() -> Topic:
    return Topic(
        "Bounds of the instance policy (--ipolicy-bounds-specs)",
        "The smallest and the largest instance, as min:SPECS/max:SPECS. SPECS are KEY=VALUE pairs with all of the keys below."
        " Several such ranges are separated by //; an instance must fit into one of them. For a node group, 'default' takes the"
        " bounds of the cluster. 'gnt-cluster show-ispecs-cmd' prints the present bounds in this form.",
        tables=_SpecKeys(),
    )


def _IpolicyStd() -> Topic:
    return Topic(
        "Standard instance of the policy (--ipolicy-std-specs)",
        "KEY=VALUE pairs with some of these keys:",
        tables=_SpecKeys(),
        examples=["--ipolicy-std-specs memory-size=2g,cpu-count=2"],
    )


def _VerifyCodes() -> Topic:
    from ganeti.opcodes.types import VERIFY_CODES

    return Topic("Error codes (--ignore-errors)", f"CODE is one of {', '.join(sorted(VERIFY_CODES))}.")


# --- disks and NICs ---------------------------------------------------------------------------------------------------

# What the keys of the opcodes' disks and NICs mean; their names and choices come from the types of the opcodes, and
# which disks have them from the templates.
_DISK_KEYS = {
    "size": "size with unit m, g or t; a bare number is MiB; rounded up to a multiple of 4 MiB",
    "mode": "whether the instance may write to it (default: rw)",
    "name": "name that can be used instead of the number; none removes it",
    "adopt": "name of an existing volume to use, instead of size",
    "vg": "volume group",
    "metavg": "volume group of the metadata",
    "access": "userspace or kernelspace",
    "provider": "storage provider; it may take more keys",
    "spindles": "number of spindles, needed with exclusive storage",
}
_NIC_KEYS = {
    "mac": "MAC address; auto (default) or generate takes a free one",
    "ip": "IP address; none (default), or pool takes a free one of the network",
    "mode": "how the NIC is connected: {modes}; default: that of the cluster",
    "link": "bridge, routing table or switch, depending on the mode; default: that of the cluster",
    "bridge": "the same as link, for scripts of old releases",
    "vlan": "VLAN: .N for access, :N:M for a trunk, .N:M for both",
    "network": "name of a network, which then determines mode and link; none disconnects from the network",
    "name": "name that can be used instead of the number; none removes it",
}


def _OpcodeKeys(type_name: str, texts: Mapping[str, str]) -> Keys:
    """Describe keys of a type of ``opcodes.types``; raise KeyError for one that the type does not have."""
    from ganeti.opcodes import types

    properties = getattr(types, type_name).Schema()["properties"]
    choices = {name: properties[name].get("enum") for name in texts}
    return Keys("", [Key(f"{name}={'|'.join(choices[name] or [name.upper()])}", texts[name]) for name in texts])


def _DiskKeys(*names: str) -> Keys:
    from ganeti.params import disk

    texts = {}
    for name in names or _DISK_KEYS:
        users = sorted(known.name for known in disk.TEMPLATES.values() if name in known.keys)
        if name in disk.COMMON_KEYS:
            texts[name] = _DISK_KEYS[name]
        else:
            texts[name] = f"{_DISK_KEYS[name]} (template {', '.join(users)})"
    return _OpcodeKeys("TDisk", texts)


def _NicKeys() -> Keys:
    from ganeti.params import nic

    modes = f"{', '.join(nic.MODES[:-1])} or {nic.MODES[-1]}"
    return _OpcodeKeys("TNic", {name: text.format(modes=modes) for name, text in _NIC_KEYS.items()})


def _Disk() -> Topic:
    return Topic(
        "Disks (--disk)",
        f"The number of the disk, from 0 to {constants.MAX_DISKS - 1}, a colon and KEY=VALUE pairs.",
        tables=[_DiskKeys()],
        examples=["--disk 0:size=10g", "--disk 0:size=10g --disk 1:size=200g,mode=ro,name=archive"],
    )


def _DiskRecreate() -> Topic:
    return Topic(
        "Disks (--disk)",
        "The number of the disk, alone or with a colon and KEY=VALUE pairs of what is to change.",
        tables=[_DiskKeys("size", "mode", "spindles")],
        examples=["--disk 0", "--disk 0:size=20g --disk 1"],
    )


def _ChangeForms(what: str, key: str) -> list[Key]:
    forms = [
        Key("add:KEY=VALUE,...", f"add a {what} after the last one"),
        Key("N:add,KEY=VALUE,...", f"add a {what} as number N"),
        Key("remove", f"remove the last {what}"),
        Key("WHICH:remove", f"remove a {what}"),
        Key("WHICH:modify,KEY=VALUE,...", f"change a {what}; 'modify,' may be left out"),
    ]
    if what == "disk":
        forms += [
            Key("attach:KEY=VALUE", "attach a detached disk, named by name=NAME or uuid=UUID"),
            Key("detach", "detach the last disk; its data is kept"),
            Key("WHICH:detach", "detach a disk"),
        ]
    return [*forms, Key("", f"N is a number starting with 0; WHICH is a number, a name or a UUID. {key}")]


def _DiskChange() -> Topic:
    return Topic(
        "Changes of disks (--disk)",
        "What to change, with KEY=VALUE pairs. Give the option once for each disk.",
        forms=_ChangeForms("disk", "A new disk needs size; only mode and name of a disk can be changed."),
        tables=[_DiskKeys()],
        examples=["--disk add:size=20g", "--disk 1:remove", "--disk 0:mode=ro", "--disk archive:detach"],
    )


def _Net() -> Topic:
    return Topic(
        "NICs (--net)",
        f"The number of the NIC, from 0 to {constants.MAX_NICS - 1}, alone or with a colon and KEY=VALUE pairs.",
        tables=[_NicKeys()],
        examples=["--net 0:link=br0", "--net 0:mode=routed,ip=192.0.2.10,link=100 --net 1:network=lan,ip=pool"],
    )


def _NetChange() -> Topic:
    return Topic(
        "Changes of NICs (--net)",
        "What to change, with KEY=VALUE pairs. Give the option once for each NIC.",
        forms=_ChangeForms("NIC", ""),
        tables=[_NicKeys()],
        examples=["--net add:link=br1", "--net 0:ip=192.0.2.10", "--net -1:remove", "--net 1:modify,mac=generate"],
    )


def _DiskTemplate() -> Topic:
    from ganeti.params import disk

    return Topic(
        "Disk templates (-t)",
        "The template must be enabled in the cluster: 'gnt-cluster info' lists the enabled ones.",
        forms=[Key(name, disk.TEMPLATES[name].text) for name in sorted(disk.TEMPLATES)],
    )


# --- filters ----------------------------------------------------------------------------------------------------------


def _Filter() -> Topic:
    return Topic(
        "Filters (--filter)",
        "An argument is a filter expression if --filter is given, or if it is the only argument and contains a blank, a quote or"
        " one of ( ) ! / < > = ~. FIELD is a field that list-fields shows; VALUE is a number or a quoted text.",
        forms=[
            Key("FIELD == VALUE", "equal; also != < <= > >="),
            Key("FIELD =~ m/REGEX/", "matches a regular expression; the flags i and s may follow it; also !~"),
            Key('FIELD =* "GLOB"', "matches a pattern with * and ?; also !*"),
            Key("VALUE in FIELD", "the list contains the value; also not in"),
            Key("FIELD", "the field is true"),
            Key("not, and, or, ( )", "combine conditions; not binds most tightly, then and"),
        ],
        examples=[
            "gnt-instance list 'status == \"running\" and be/vcpus > 2'",
            'gnt-instance list -F \'"web" in tags or not name =* "db*"\'',
            "gnt-node list --filter 'not offline'",
        ],
    )


def _Predicates() -> Topic:
    return Topic(
        "Predicates (--predicates)",
        "A JSON list; the rule applies to a job that all of its members match. FILTER is a list of an operator and its operands:"
        ' ["==", FIELD, VALUE], also with != < <= > >=; ["=~", FIELD, "REGEX"]; ["=[]", FIELD, VALUE] for a list that contains'
        ' the value; ["&", FILTER, ...] and ["|", FILTER, ...] for all and one of them; ["!", FILTER].',
        forms=[
            Key(
                '["jobid", FILTER]',
                'the job ID; the field is "id", and the value "watermark" stands for the last job when the rule was made. Only =='
                " < <= > >= and their combinations can be used",
            ),
            Key(
                '["opcode", FILTER]',
                'one of the operations of the job: OP_ID or a parameter such as "instance_name" or "beparams.vcpus"; jobs without'
                " the field do not match",
            ),
            Key(
                '["reason", FILTER]',
                'one entry of the reason trail: "source", "reason" and "timestamp" in nanoseconds. Patterns cannot be used',
            ),
        ],
        examples=[
            """--predicates='[["jobid", [">", "id", "watermark"]]]'""",
            """--predicates='[["opcode", ["=", "OP_ID", "OP_INSTANCE_MIGRATE"]]]'""",
            """--predicates='[["reason", ["=", "source", "gnt:client:gnt-node"]]]'""",
        ],
    )


def _FilterAction() -> Topic:
    return Topic(
        "Actions (--action)",
        "The first rule that applies to a job and is not CONTINUE decides.",
        forms=[
            Key("ACCEPT", "the job may start; no further rule is tried"),
            Key("CONTINUE", "the next rule is tried"),
            Key("PAUSE", "the job stays queued until the rule is deleted or replaced"),
            Key("REJECT", "the job is canceled"),
            Key(
                "RATE_LIMIT N",
                "at most N jobs to which this rule applies run at the same time; one argument for the shell",
            ),
        ],
        examples=["--action=PAUSE", "--action='RATE_LIMIT 3'"],
    )


TOPICS: Mapping[str, Callable[[], Topic]] = {
    "backend": _Backend,
    "connection": _Connection,
    "disk": _Disk,
    "disk-change": _DiskChange,
    "disk-parameters": _DiskParameters,
    "disk-recreate": _DiskRecreate,
    "disk-state": _DiskState,
    "disk-template": _DiskTemplate,
    "filter": _Filter,
    "filter-action": _FilterAction,
    "hypervisor": _Hypervisor,
    "hypervisor-new": _HypervisorNew,
    "hypervisor-state": _HypervisorState,
    "hypervisors": _Hypervisors,
    "ipolicy-bounds": _IpolicyBounds,
    "ipolicy-std": _IpolicyStd,
    "net": _Net,
    "net-change": _NetChange,
    "nic-parameters": _NicParameters,
    "node-parameters": _NodeParameters,
    "predicates": _Predicates,
    "verify-codes": _VerifyCodes,
}


# --- as text ----------------------------------------------------------------------------------------------------------


def _Aligned(key: Key) -> list[str]:
    """Return the lines of a key: its name, and its text from a column on."""
    if not key.name:
        return wrap(key.text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
    lines = wrap(
        key.text, _WIDTH, initial_indent=" " * _COLUMN, subsequent_indent=" " * _COLUMN, break_long_words=False
    )
    head = f"  {key.name}"
    if len(head) + 1 < _COLUMN and lines:
        return [head.ljust(_COLUMN) + lines[0].lstrip(), *lines[1:]]
    return [head, *lines]


def _Table(table: Keys) -> list[str]:
    if len(table.keys) <= _FEW:
        lines = [line for key in table.keys for line in _Aligned(key)]
        return [f"  {table.title}:", *lines] if table.title else lines
    names = ", ".join(key.name.partition("=")[0] for key in table.keys)
    return wrap(
        f"{table.title}: {names}", _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def ForHelp(name: str) -> str:
    """Return a topic for ``--help``; long tables are reduced to the names of the keys."""
    topic = TOPICS[name]()
    lines = [topic.title, "=" * len(topic.title), fill(topic.intro, _WIDTH, break_on_hyphens=False)]
    lines += [line for form in topic.forms for line in _Aligned(form)]
    lines += [line for table in topic.tables for line in _Table(table)]
    if topic.examples:
        lines += ["Examples:", *(f"  {example}" for example in topic.examples)]
    return "\n".join(lines) + "\n"


# --- as reStructuredText ----------------------------------------------------------------------------------------------


def Escape(text: str) -> str:
    """Return ``text`` with the characters escaped that mean something in reStructuredText."""
    for char in "\\*`|_":
        text = text.replace(char, "\\" + char)
    return text


def _Definitions(keys: Iterable[Key]) -> list[str]:
    lines: list[str] = []
    for key in keys:
        text = Escape(key.text) + ("" if key.text.endswith(".") else ".")
        lines += [f"``{key.name}``", f"    {text}", ""] if key.name else [text, ""]
    return lines


def ForManual(name: str) -> list[str]:
    """Return a topic as a section of a manual page, with everything that is known of each key."""
    topic = TOPICS[name]()
    lines = [topic.title, "~" * len(topic.title), "", Escape(topic.intro), "", *_Definitions(topic.forms)]
    for table in topic.tables:
        if table.title:
            lines += [f"{table.title}:", ""]
        lines += _Definitions(table.keys)
    if topic.examples:
        lines += ["Examples::", "", *(f"  {example}" for example in topic.examples), ""]
    return lines
