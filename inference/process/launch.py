"""Starts a program that dies with its parent: python launch.py PARENT_PID NICE PROGRAM ARGUMENT…

A script of its own: what subprocess would run between fork and exec is unsafe in a process with threads.
Knows prctl(2) of Linux; on other systems the program watches its parent, see parent_process.py.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from linux/prctl.h; it survives exec


def main() -> None:
    parent, nice, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before the call
        sys.exit(1)
    os.nice(int(nice))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
