"""The graph, and means over its neighbours."""
