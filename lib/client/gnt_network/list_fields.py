"""gnt-network list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("network", "List the fields that 'gnt-network list' can show")
