"""gnt-network list-tags."""

from ganeti import constants
from ganeti.client.shared.tags import ListTagsCommand

COMMAND = ListTagsCommand(constants.TAG_NETWORK, "network")
