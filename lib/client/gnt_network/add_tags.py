"""gnt-network add-tags."""

from ganeti import constants
from ganeti.client.shared.tags import AddTagsCommand

COMMAND = AddTagsCommand(constants.TAG_NETWORK, "network")
