"""gnt-filter list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("filter", "List the fields that 'gnt-filter list' can show")
