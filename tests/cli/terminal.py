"""A command as a user runs it."""

from typer.testing import CliRunner

from gnncal.__main__ import app


def run(*arguments):
    """Run ``gnncal`` with these arguments; only its own way to end may end it."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result
