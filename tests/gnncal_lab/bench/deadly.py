"""Work for other processes, in a file that imports nothing: each of them starts at once."""

import os
from time import sleep


def double_unless_deadly(item):
    sleep(0.02)
    return 2 * item if item != 3 else os._exit(1)


def process_of(item):
    return os.getpid()
