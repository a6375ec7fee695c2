"""Starts ranks that need no launcher of their own: ranks.py COUNT COMMAND... Ends all when one fails."""
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
GRACE_S = 2


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environments(ranks):
    """What torchrun would set."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
              "LOCAL_WORLD_SIZE": str(ranks), "PLAIT_JOB_KEY": secrets.token_hex(16)}
    return [os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def wait_all(processes):
    """The first bad exit status; then the others have a little time to say why."""
    while True:
        statuses = [process.poll() for process in processes]
        bad = [status for status in statuses if status]
        if bad or None not in statuses:
            return bad[0] if bad else 0
        time.sleep(0.02)


def end_all(processes):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            process.send_signal(number)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            time.sleep(0.02)


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    processes = []
    try:
        for environment in environments(int(sys.argv[1])):
            processes.append(subprocess.Popen(sys.argv[2:], env=environment, preexec_fn=die_with_parent))
        status = wait_all(processes)
    finally:
        end_all(processes)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
