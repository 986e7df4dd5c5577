"""gnt-node list."""

from ganeti.cli import lists, tables

COMMAND = lists.ListCommand(
    lists.ListKind(
        "node",
        ("name", "dtotal", "dfree", "mtotal", "mnode", "mfree", "pinst_cnt", "sinst_cnt"),
        formatters=dict.fromkeys(("pinst_list", "sinst_list", "tags"), tables.JoinList),
    ),
    "List nodes",
    "node",
)
