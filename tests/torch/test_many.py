"""A hundred thousand small calls that nobody waits for one by one: in order, and in memory that does not grow."""

import os

import torch
import torch.distributed as dist
from forked import descriptors, forked, init, memory_kib, threads

CALLS = 100_000 if os.environ.get("PLAIT_TEST_WHOLE") == "1" else 10_000
ROUNDS = 10
GROWTH_KIB, GROWTH_THREADS = 4096, 8  # a thread steps in where another was without a core for long


def flat(rounds, size, folder, rank):
    """Runs rounds(), each of which makes CALLS / ROUNDS calls; what was there after two of them must be enough."""
    init(rank, size, folder)
    held = []
    for _ in range(ROUNDS):
        rounds(CALLS // ROUNDS)
        held.append((descriptors(), threads(), memory_kib()))
    assert held[-1][0] == held[1][0] and held[-1][1] <= held[1][1] + GROWTH_THREADS, held
    assert held[-1][2] <= held[1][2] + GROWTH_KIB, held


def test_works_that_are_waited_for_in_the_end(tmp_path):
    """All of a round are under way at once."""

    def rank_runs(rank, size, folder):
        def rounds(count):
            tensors = [torch.full((4,), float(number)) for number in range(count)]
            works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
            for work in works:
                work.wait()
            assert all((tensor == size * number).all() for number, tensor in enumerate(tensors))

        flat(rounds, size, folder, rank)

    forked(rank_runs, 2, tmp_path)


def test_works_that_are_dropped(tmp_path):
    """A barrier sees them through."""

    def rank_runs(rank, size, folder):
        def rounds(count):
            for _ in range(count // 100):
                tensors = [torch.full((4,), float(number)) for number in range(100)]
                for tensor in tensors:
                    dist.all_reduce(tensor, async_op=True)
                dist.barrier()
                assert all((tensor == size * number).all() for number, tensor in enumerate(tensors))

        flat(rounds, size, folder, rank)

    forked(rank_runs, 2, tmp_path)
