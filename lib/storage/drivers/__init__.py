"""The drivers, one for each kind of disk: what ``storage.base`` asks for (doc/reference/drivers.md a)."""
