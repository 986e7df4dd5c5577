"""Completion for bash: one script for all programs, made at build time from their declarations.

Commands, options and choices are written into the script; names of nodes, instances and so on are read from ssconf and
the directory of the job queue when they are needed, without any daemon; only the master daemon knows filter rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from ganeti.cli import parser
from ganeti.cli.command import Arg, Command, Program
from ganeti.cli.options import COMMON
from ganeti.cli.parser import Opt

# Kind of argument -> kind of names that completes it.
_ARGUMENTS = {
    "node": parser.COMPLETE_NODE,
    "instance": parser.COMPLETE_INSTANCE,
    "group": parser.COMPLETE_GROUP,
    "network": parser.COMPLETE_NETWORK,
    "os": parser.COMPLETE_OS,
    "jobid": parser.COMPLETE_JOB,
    "filter": parser.COMPLETE_RULE,
    "file": parser.COMPLETE_FILE,
    "host": "host",
}

_HEAD = """\
# Completion of the gnt-* programs for bash.  Made at build time from the programs' own tables.

_gnt_ssconf() { cut -d' ' -f"${2:-1}" "${GANETI_ROOTDIR-}@DATA_DIR@/ssconf_$1" 2>/dev/null; }

_gnt_entries() {
  local directory
  for directory in "$@"; do
    [[ -d $directory ]] && ls "$directory" 2>/dev/null
  done
}

# Candidates of a kind, one per line.
_gnt_names() {
  case $1 in
    node) _gnt_ssconf node_list ;;
    instance) _gnt_ssconf instance_list ;;
    group) _gnt_ssconf nodegroups 2 ;;
    network) _gnt_ssconf networks 2 ;;
    os) _gnt_entries @OS_SEARCH_PATH@ ;;
    iallocator) _gnt_entries @IALLOCATOR_SEARCH_PATH@ ;;
    job) ls "${GANETI_ROOTDIR-}@DATA_DIR@/queue" 2>/dev/null | sed -n 's/^job-//p' ;;
    rule) timeout 2 gnt-filter list --no-headers -o uuid 2>/dev/null ;;
  esac
}

# _gnt_complete KIND WORD: fills COMPREPLY.
_gnt_complete() {
  case $1 in
    file) COMPREPLY=($(compgen -f -- "$2")) ;;
    host) COMPREPLY=($(compgen -A hostname -- "$2")) ;;
    "node pair")
      if [[ $2 == *:* ]]; then
        COMPREPLY=($(compgen -P "${2%%:*}:" -W "$(_gnt_names node)" -- "${2#*:}"))
      else
        COMPREPLY=($(compgen -W "$(_gnt_names node)" -- "$2"))
      fi ;;
    "choice "*) COMPREPLY=($(compgen -W "${1#choice }" -- "$2")) ;;
    ?*) COMPREPLY=($(compgen -W "$(_gnt_names "$1")" -- "$2")) ;;
  esac
}

# _gnt_run: uses the variables of the program's function: commands, options, values (option -> kind) and arguments.
_gnt_run() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)) && [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
    return
  fi
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [[ -n ${values[$before]+set} ]]; then
    _gnt_complete "${values[$before]}" "$word"
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    _gnt_complete "$arguments" "$word"
  fi
}
"""


def _Quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _OptionKind(option: Opt) -> str:
    return "choice " + " ".join(option.choices) if option.choices else option.completion or ""


def _ArgumentKind(args: Iterable[Arg]) -> str:
    """Return what completes the arguments: the first kind that can be completed, as most commands have only one."""
    for arg in args:
        if arg.choices:
            return "choice " + " ".join(arg.choices)
        if arg.kind in _ARGUMENTS:
            return _ARGUMENTS[arg.kind]
    return ""


def _Settings(command: Command) -> list[str]:
    """Return the assignments that describe a command to ``_gnt_run``."""
    options = [option for option in (*command.options, *COMMON) if not option.hidden]
    names = " ".join(name for option in options for name in option.names)
    pairs = " ".join(
        f"[{name}]={_Quote(_OptionKind(option))}" for option in options if option.takes_value for name in option.names
    )
    return [
        f"options={_Quote(names)}",
        f"values=({pairs})",
        f"arguments={_Quote(_ArgumentKind(command.args))}",
    ]


def _Program(program: Program) -> str:
    function = "_" + program.name.replace("-", "_")
    words = " ".join(sorted([*program.commands, *program.aliases]))
    lines = [
        f"{function}() {{",
        "  local commands options arguments",
        "  local -A values=()",
        f"  commands={_Quote(words)}",
    ]
    if program.command is not None:
        lines += [f"  {line}" for line in _Settings(program.command)]
    else:
        lines.append("  case ${COMP_WORDS[1]} in")
        for name in sorted(program.commands):
            settings = [f"      {line}" for line in _Settings(program.Load(name))]
            lines += [f"    {'|'.join(program.Words(name))})", *settings[:-1], settings[-1] + " ;;"]
        lines.append("  esac")
    return "\n".join([*lines, "  _gnt_run", "}", f"complete -F {function} {program.name}", ""])


def BashScript(
    programs: Iterable[Program], data_dir: str, os_path: Iterable[str], iallocator_path: Iterable[str]
) -> str:
    """Return the text of the completion file."""
    head = _HEAD.replace("@DATA_DIR@", data_dir)
    head = head.replace("@OS_SEARCH_PATH@", " ".join(map(_Quote, os_path)))
    head = head.replace("@IALLOCATOR_SEARCH_PATH@", " ".join(map(_Quote, iallocator_path)))
    return "\n".join([head, *map(_Program, programs)])
