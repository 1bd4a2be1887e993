"""Pages and tables: the only place that writes HTML, LaTeX and tables for the terminal."""
