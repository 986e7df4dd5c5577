"""gnt-network remove-tags."""

from ganeti import constants
from ganeti.client.shared.tags import RemoveTagsCommand

COMMAND = RemoveTagsCommand(constants.TAG_NETWORK, "network")
