"""gnt-job list-fields: the fields of gnt-job list."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("job", "List the fields that 'gnt-job list' can show")
