"""Pages, tables and figures of the laboratory."""
