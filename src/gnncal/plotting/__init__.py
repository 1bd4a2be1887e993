"""Charts for papers and notebooks: each function draws a record onto a matplotlib axis."""
