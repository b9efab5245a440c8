"""A program that stands where agents of a Ray node would: it ends with its node, and does nothing else.

`scenarios.places.lean` lets a node start it. It is run as a file, by a Python that loads no packages.
"""

import os
import signal
import time

EVERY = 1.0
"""Seconds between two looks at the node."""

if __name__ == "__main__":
    for of_terminals in (signal.SIGINT, signal.SIGHUP):  # a node ends if one of its agents ends
        signal.signal(of_terminals, signal.SIG_IGN)
    node = os.getppid()
    while os.getppid() == node:
        time.sleep(EVERY)
