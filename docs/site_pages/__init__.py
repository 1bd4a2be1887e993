"""What the documentation site needs beyond Sphinx: pages made of the code, formulas, links."""
