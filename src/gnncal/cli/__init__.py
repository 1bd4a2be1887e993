"""The command line, a file for each verb."""

from gnncal.cli.verbs import Command

__all__ = ["Command"]
