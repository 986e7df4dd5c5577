"""gnt-job list-fields: the fields of gnt-job list."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("job", "Lists all available fields for jobs")
