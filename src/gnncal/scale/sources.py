"""The tables that a run reads: their files by the rules of bundles, or an address for Spark."""

from __future__ import annotations

from gnncal.files.agreement import Table, read_together
from gnncal.files.places import is_remote
from gnncal.files.sources import find_source
from gnncal.scale.columns import is_of_edges, is_of_nodes

TableFiles = Table | str  # text is an address in object storage, which Spark finds by itself


def find_tables(nodes: str, edges: str, engine: str) -> tuple[TableFiles, TableFiles]:
    """Find the files of both tables before anything is computed."""
    tables: list[TableFiles] = []
    for given, what, is_of_use in ((nodes, "nodes", is_of_nodes), (edges, "edges", is_of_edges)):
        if engine == "spark" and is_remote(given):
            tables.append(given)
        else:
            tables.append(read_together(find_source(given, what), is_of_use))
    return tables[0], tables[1]


def class_names_of(table: TableFiles) -> list[str] | None:
    """Return the class names in the schemas of the files; what Spark finds by itself has none."""
    return None if isinstance(table, str) else table.class_names
