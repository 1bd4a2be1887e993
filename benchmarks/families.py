"""Families of graphs: graphs of one family are never in training and judgement of one choice."""

FAMILIES = {
    "citations": ("Cora", "CiteSeer", "PubMed"),
    "co-purchases": ("Computers", "Photo"),
    "co-authors": ("CS", "Physics"),
    "web pages": ("Texas", "Cornell", "Wisconsin"),
    "wikipedia": ("Chameleon", "Squirrel"),
    "actors": ("Actor",),
    "workers": ("tolokers",),
}
FAMILY_OF = {graph: family for family, graphs in FAMILIES.items() for graph in graphs}
