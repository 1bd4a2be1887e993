"""What Ctrl-C and SIGTERM do: the program cleans up, says so in one line, and ends."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
UNTOUCHED = (signal.SIG_DFL, signal.default_int_handler)  # what Python does without us


@contextmanager
def stopped_in_one_line() -> Iterator[None]:
    """End with one line and the status 128 + number after a signal, whatever it was turned into.

    DuckDB turns the exception of a signal into a RuntimeError, and cleaning up may raise others.
    """
    with ending_on_signals() as came:
        try:
            yield
        except BaseException as error:
            if not came and not isinstance(error, KeyboardInterrupt):
                raise
            number = came[0] if came else signal.SIGINT
            print(f"stopped: {WORDS[number]}", file=sys.stderr)
            raise typer.Exit(128 + number) from None


@contextmanager
def ending_on_signals() -> Iterator[list[signal.Signals]]:
    """Let SIGINT and SIGTERM raise an exception, so that unfinished files are removed.

    It gives the list of the signals that came. A handler that somebody else has set stays.
    """
    came: list[signal.Signals] = []

    def end(number: int, frame: object) -> None:
        came.append(signal.Signals(number))
        logging.disable()  # libraries log the exception on its way up: Spark's has 40 lines
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()  # others may not set handlers
    before = {number: signal.getsignal(number) for number in WORDS} if is_main else {}
    taken = [number for number, handler in before.items() if handler in UNTOUCHED]
    try:
        for number in taken:
            signal.signal(number, end)
        yield came
    finally:
        for number in taken:
            signal.signal(number, before[number])
        if came:
            logging.disable(logging.NOTSET)
