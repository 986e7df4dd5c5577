"""gnt-instance list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("instance", "List the fields that 'gnt-instance list' can show")
