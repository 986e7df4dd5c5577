"""gnt-instance list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("instance", "Lists all available fields for instances")
