"""The files of release 3.1 beside the rows: written, watched, and read where a person edited them (rules 10 and 11)."""
