"""Ranks that die or never start, bad environments: what the others see."""

import subprocess
import sys
import textwrap
import time

import pytest

START = """
import os, sys, time, torch, torch.distributed as dist, plait
from datetime import timedelta
rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
def init(seconds=20, name="a", backend="plait"):
    dist.init_process_group(backend, store=dist.PrefixStore(name, dist.FileStore(path, size)), rank=rank,
                            world_size=size, timeout=timedelta(seconds=seconds))
"""


def ranks_run(script, size, folder, ranks=None):
    """Runs `script` on each rank; gives (status, output) of each."""
    program = folder / "rank.py"
    program.write_text(START + textwrap.dedent(script))
    started = [
        subprocess.Popen([sys.executable, program, str(rank), str(size), folder / "store"], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
        for rank in (range(size) if ranks is None else ranks)]  # fmt: skip
    ended = []
    for process in started:
        try:
            output = process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = "HUNG\n" + process.communicate()[0]
        ended.append((process.returncode, output))
    return ended


def test_a_rank_that_dies_is_named(tmp_path):
    ended = ranks_run(
        """
        init()
        dist.barrier()
        if rank == 1:
            print("pid", os.getpid(), flush=True)
            os._exit(9)
        began = time.monotonic()
        try:
            while True:
                dist.all_reduce(torch.ones(100))
        except dist.DistBackendError as error:
            print(f"after {time.monotonic() - began:.1f} s: {error}")
        """,
        3, tmp_path)  # fmt: skip
    pid = ended[1][1].split("pid")[1].split()[0]
    for rank in (0, 2):
        status, output = ended[rank]
        assert status == 0 and "PEER_LOST" in output and "rank 1" in output and pid in output, output
        assert float(output.split("after ")[1].split()[0]) < 5, output


def test_a_rank_that_never_starts_is_named(tmp_path):
    began = time.monotonic()
    [(status, output)] = ranks_run(
        """
        try:
            init(seconds=2)
        except dist.DistBackendError as error:
            print("said:", error)
        """,
        2, tmp_path, ranks=[0])  # fmt: skip
    assert status == 0 and "said:" in output and "1" in output.split("said:")[1], output
    assert time.monotonic() - began < 40


def test_groups_over_gloo_and_again(tmp_path):
    """A plait group where the default is gloo's; then plait twice over one store, as after a failure."""
    ended = ranks_run(
        """
        init(backend="gloo")
        group = dist.new_group([0, 1], backend="plait")
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert (tensor == size).all() and dist.get_backend(group) == "plait"
        dist.destroy_process_group()
        for again in range(2):
            init(name="b")
            tensor = torch.ones(3)
            dist.all_reduce(tensor)
            assert (tensor == size).all()
            dist.destroy_process_group()
        init(name="c", backend="cpu:plait")
        dist.all_reduce(tensor)
        print("well")
        """,
        2, tmp_path)  # fmt: skip
    for status, output in ended:
        assert status == 0 and "well" in output, output


def test_a_world_of_one(tmp_path):
    [(status, output)] = ranks_run(
        """
        init()
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            tensor = torch.ones(3)
            dist.all_reduce(tensor, op)
            assert (tensor == 1).all()
        outputs = [torch.empty(3)]
        dist.all_gather(outputs, tensor)
        dist.all_to_all(outputs, [tensor])
        dist.all_to_all_single(outputs[0], tensor, [3], [3])
        dist.reduce_scatter(outputs[0], [tensor])
        dist.barrier()
        assert (outputs[0] == 1).all()
        print("well")
        """,
        1, tmp_path)  # fmt: skip
    assert status == 0 and "well" in output, output


@pytest.mark.parametrize("sending", ["isend", "work"])
def test_a_sender_that_leaves_at_once(tmp_path, sending):
    ended = ranks_run(
        f"""
        init()
        if rank == 0:
            if "{sending}" == "isend":
                dist.isend(torch.full((1000,), 7.0), 1)
            else:
                dist.all_reduce(torch.ones(1000), async_op=True)
        else:
            time.sleep(0.3)
            tensor = torch.full((1000,), 6.0)
            if "{sending}" == "isend":
                dist.recv(tensor, 0)
            else:
                dist.all_reduce(tensor)
            assert (tensor == 7).all()
        print("well")
        """,
        2, tmp_path)  # fmt: skip
    for status, output in ended:
        assert status == 0 and "well" in output, output
