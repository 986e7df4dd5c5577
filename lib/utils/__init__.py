"""Pure helpers without any I/O; each module holds one subject."""
