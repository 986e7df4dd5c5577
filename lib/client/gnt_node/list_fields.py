"""gnt-node list-fields."""

from ganeti.cli.lists import ListFieldsCommand

COMMAND = ListFieldsCommand("node", "Lists all available fields for nodes")
