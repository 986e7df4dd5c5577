"""gnt-group list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("group", "List the fields that 'gnt-group list' can show")
