"""Coming and going: groups made again and again, forks, signals, and processes that end in the middle of things."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from forked import all_reduce_works, descriptors, forked, init, memory_kib, threads


def test_destroy_and_init_fifty_times(tmp_path):
    """Over one store that stays, as under torchrun."""

    def rank_runs(rank, size, folder):
        store = dist.FileStore(str(folder / "store"), size)
        held = []
        for again in range(50):
            dist.init_process_group("plait", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
            all_reduce_works()
            group = dist.new_group(list(range(size)))
            all_reduce_works(group)
            dist.all_reduce(torch.ones(1), async_op=True)  # nobody waits for it
            dist.destroy_process_group()
            held.append((descriptors(), threads(), memory_kib()))
        assert held[-1][0] <= held[2][0], held
        assert held[-1][1] <= held[2][1] + 3, held  # those that complete futures come when there is use for them
        assert held[-1][2] < held[9][2] + 8192, held

    forked(rank_runs, 2, tmp_path)


def test_a_group_that_outlives_destroy(tmp_path):
    """Works and groups that a program still holds answer; they don't crash."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        tensor = torch.ones(3)
        work = dist.all_reduce(tensor, async_op=True)
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        dist.destroy_process_group()
        work.wait()
        assert (tensor == size).all()
        with pytest.raises(dist.DistBackendError, match="shut down"):
            backend.allreduce([tensor])
        backend.shutdown()
        backend.abort()
        init(rank, size, folder, "b")
        all_reduce_works()

    forked(rank_runs, 2, tmp_path)


def test_ctrl_c_in_a_wait(tmp_path):
    def rank_runs(rank, size, folder):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not
        init(rank, size, folder)
        if rank == 0:
            for wait in (dist.irecv(torch.empty(1), 1).wait, dist.barrier):
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                with pytest.raises(KeyboardInterrupt):
                    wait()  # which nothing else ends before
            (folder / "interrupted").touch()
            dist.barrier()
        else:
            while not (folder / "interrupted").exists():
                time.sleep(0.02)
            dist.send(torch.ones(1), 0)
            dist.barrier()
            dist.barrier()

    forked(rank_runs, 2, tmp_path)


def test_two_groups_from_two_threads(tmp_path):
    """Each made by new_group and used by a thread of its own, while the other waits for a late rank."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        groups = [dist.new_group(list(range(size))) for _ in range(2)]
        trouble = []

        def use(group, late):
            try:
                for again in range(30):
                    if again == 10 and rank == late:
                        time.sleep(0.2)
                    all_reduce_works(group)
            except Exception as error:
                trouble.append(error)

        users = [threading.Thread(target=use, args=(group, late)) for late, group in enumerate(groups)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert not trouble, trouble

    forked(rank_runs, 2, tmp_path)


def test_data_loader_workers_and_children(tmp_path):
    """Forked workers beside a group under way; a child starts a group of its own; the parent's stays."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        work = dist.irecv(torch.empty(1), 1 - rank)  # pending while workers come and go
        numbers = torch.utils.data.TensorDataset(torch.arange(8.0))
        for _ in range(2):
            total = torch.zeros(1)
            for (batch,) in torch.utils.data.DataLoader(numbers, batch_size=2, num_workers=2):
                total += batch.sum()
                all_reduce_works()
            assert total.item() == 28
        child = os.fork()
        if child == 0:
            status = 1
            try:
                dist.destroy_process_group()  # the parent's, of which a child has no part
                init(rank, size, folder, "child")
                all_reduce_works()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        all_reduce_works()
        dist.send(torch.ones(1), 1 - rank)
        work.wait()

    forked(rank_runs, 2, tmp_path)


def _started(rank, size, folder):
    """Top level, so that spawn finds it."""
    init(rank, size, folder)
    all_reduce_works()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_launched_by_multiprocessing(method, tmp_path):
    if method == "forkserver":
        multiprocessing.set_forkserver_preload(["plait"])
    torch.multiprocessing.start_processes(_started, (2, tmp_path), nprocs=2, start_method=method)


ENDINGS = {
    "a work that nobody waits for": "held = dist.all_reduce(torch.ones(100000), async_op=True)",
    "a continuation that never comes": """
        pending = dist.irecv(torch.empty(1), 1 - rank).get_future().then(lambda future: future.value())
    """,
    "a daemon thread that waits": """
        group = dist.new_group([0, 1])
        def wait():
            try:
                dist.irecv(torch.empty(1), 1 - rank, group=group).wait()
            except dist.DistBackendError:
                pass
        threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.2)
    """,
    "destroy at exit": "atexit.register(dist.destroy_process_group)",
    "an exception": "raise SystemExit(0)",
    "modules that are gone": """
        for name in list(sys.modules):
            if name.split(".")[0] in ("torch", "plait"):
                del sys.modules[name]
    """,
}
PROGRAM = """
import atexit, json, os, sys, threading, time, torch, torch.distributed as dist, plait
from datetime import timedelta
folder, endings, children = sys.argv[1], json.loads(sys.argv[2]), {}
torch.set_num_threads(1)
ending, rank = None, None
for name in endings:
    for rank in range(2):
        child = os.fork()
        if child == 0:
            ending = name
            break
        children[child] = [name, rank]
    if ending is not None:
        break
if ending is None:
    said = []
    for child, what in children.items():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.append([*what, status, open(f"{folder}/{what[0]} {what[1]}").read()])
    print(json.dumps(said))
else:
    log = os.open(f"{folder}/{ending} {rank}", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    dist.init_process_group("plait", store=dist.FileStore(f"{folder}/{ending} store", 2), rank=rank, world_size=2,
                            timeout=timedelta(seconds=60))
    dist.all_reduce(torch.ones(3))
    exec(endings[ending])
"""


def test_the_interpreter_ends(tmp_path):
    """Without destroy, in the middle of something: status 0, nothing said, no wait. Each ending on two ranks."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    endings = json.dumps({name: textwrap.dedent(code) for name, code in ENDINGS.items()})
    ended = subprocess.run([sys.executable, program, tmp_path, endings], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    for name, rank, status, said in json.loads(ended.stdout):
        assert (status, said) == (0, ""), f"{name}, rank {rank}"
