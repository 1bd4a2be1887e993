"""The block-model experiments with their figures, tables and texts, and the page of all."""
