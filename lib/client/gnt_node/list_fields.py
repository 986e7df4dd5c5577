"""gnt-node list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("node", "List the fields that 'gnt-node list' can show")
