"""Estimates of local homophily: the share of a node's neighbours that have its class."""
