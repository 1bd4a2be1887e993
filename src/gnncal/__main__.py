"""``gnncal`` and ``python -m gnncal``: the program."""

from gnncal.cli.main import app

if __name__ == "__main__":
    app()
