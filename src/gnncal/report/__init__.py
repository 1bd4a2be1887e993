"""Rendering: records in, tables and pictures out. Nothing is computed here."""
