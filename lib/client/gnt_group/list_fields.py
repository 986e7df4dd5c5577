"""gnt-group list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("group", "Lists all available fields for node groups")
