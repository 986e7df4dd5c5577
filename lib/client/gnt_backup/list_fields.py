"""gnt-backup list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("export", "List the fields that 'gnt-backup list' can show")
