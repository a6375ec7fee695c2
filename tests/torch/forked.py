"""Ranks that are forked from the process that runs the tests: torch is imported there already, so they start at once."""

import faulthandler
import os
import signal
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import plait  # noqa: F401

SECONDS = 150  # for all ranks of a test; machines are busy


def forked(function, size, folder):
    """Runs function(rank, size, folder) in a process each and fails the test unless all return."""
    logs = [folder / f"forked{rank}.log" for rank in range(size)]
    ranks = [fork_rank(function, rank, size, folder, logs[rank]) for rank in range(size)]
    deadline = time.monotonic() + SECONDS
    said = []
    for rank, pid in enumerate(ranks):
        status = end_of(pid, deadline)
        if status != 0:
            said.append(f"rank {rank} ended with {status}:\n{logs[rank].read_text()}")
    assert not said, "\n".join(said)


def fork_rank(function, rank, size, folder, log):
    pid = os.fork()
    if pid != 0:
        return pid
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(file=2)
        faulthandler.dump_traceback_later(SECONDS - 5, exit=True, file=2)
        torch.set_num_threads(1)
        function(rank, size, folder)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def end_of(pid, deadline):
    """Its exit status (a signal's number negative), or "nothing: it hung"."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "nothing: it hung"


def init(rank, size, folder, name="a", backend="plait", seconds=60):
    """The default group, over a file store of the test. Each name has its file, which the last user takes away."""
    store = dist.FileStore(str(folder / f"store-{name}"), size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))


def all_reduce_works(group=None):
    tensor = torch.ones(100)
    dist.all_reduce(tensor, group=group)
    assert (tensor == dist.get_world_size(group)).all(), tensor


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def memory_kib():
    """Resident memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
