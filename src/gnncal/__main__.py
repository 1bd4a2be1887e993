"""``python -m gnncal``: the program, for environments without its script on the path."""

from gnncal.cli.main import app

if __name__ == "__main__":
    app()
