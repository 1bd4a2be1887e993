"""``gnncal`` and ``python -m gnncal``: the program."""

import signal
import sys

from gnncal.cli.main import app


def main() -> None:
    """Run the program as a process of its own."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Like Ctrl-C, so that unfinished files are removed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):  # which may lack a sign, as on Windows
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app()


if __name__ == "__main__":
    main()
