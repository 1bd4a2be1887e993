"""The verbs of the laboratory: ``gnncal bench``, ``gnncal csbm`` and ``gnncal demo``."""
