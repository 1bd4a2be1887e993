"""The block-model laboratory on paper: figures, findings, words, one page."""
