"""Runs the cases of cases.py in one start of the ranks for each world, and reports them one by one."""

import ctypes
import json
import os
import time

import cases
import cases_forms  # noqa: F401: its cases come after those of cases
import cases_values  # noqa: F401
import pytest
import rank as rank_program
import torch
import torch.distributed as dist
from forked import SECONDS, end_of, fork_rank

import plait

M_PERTURB = -6  # of <malloc.h>
WORLDS = {"2 ranks": (2, {}), "3 ranks": (3, {}), "2 ranks, debug": (2, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})}
# The debug wrapper refuses or changes these before plait sees them.
NOT_UNDER_DEBUG = {"split", "a_forked_child_is_refused", "operations_are_profiled", "coalesced", "functional_collectives",
                   "a_rank_that_never_comes", "abort_frees_a_waiter", "threads_take_turns", "many_small_works",
                   "many_groups_use_no_more_descriptors", "fsdp_learns_what_ddp_does", "all_gather_uneven",
                   "all_reduce_of_bools_is_logical", "continuations_may_wait", "all_to_all_uneven",
                   "a_wait_hears_signals", "faults_have_attributes", "other_calls_on_other_ranks", "completion_hooks"}  # fmt: skip
_results = {}


def import_what_torch_puts_off():
    """Once, here, instead of in each rank: some seconds."""
    import torch._dynamo  # noqa: F401: functional collectives do

    torch.testing.assert_close(torch.ones(1), torch.ones(1))


def results(world, folder):
    """Starts the ranks of `world` once; gives (what each rank said of each case, what it printed, its end) a rank."""
    if world not in _results:
        size, environment = WORLDS[world]
        names = [case.__name__ for case in cases.CASES if not environment or case.__name__ not in NOT_UNDER_DEBUG]
        files, logs = [[folder / f"rank{rank}{end}" for rank in range(size)] for end in (".json", ".log")]

        import_what_torch_puts_off()

        def rank_runs(rank, size, folder):
            os.environ.update(environment)
            dist.set_debug_level_from_env()
            ctypes.CDLL(None).mallopt(M_PERTURB, 165)  # freed memory is overwritten
            rank_program.main(rank, size, str(folder / "store"), str(files[rank]), names)
            plait._C.end_process()  # as at the end of python, without destroy_process_group()

        ranks = [fork_rank(rank_runs, rank, size, folder, logs[rank]) for rank in range(size)]
        deadline = time.monotonic() + SECONDS
        ends = [end_of(rank, deadline) for rank in ranks]
        found = [json.loads(file.read_text()) if file.exists() else {} for file in files]
        _results[world] = list(zip(found, [log.read_text() for log in logs], ends))
    return _results[world]


def parameters():
    for world, (_, environment) in WORLDS.items():
        for case in cases.CASES:
            if not environment or case.__name__ not in NOT_UNDER_DEBUG:
                yield pytest.param(world, case.__name__, id=f"{world}-{case.__name__}")


@pytest.mark.parametrize("world,name", list(parameters()))
def test_case(world, name, tmp_path_factory):
    for rank, (found, said, _) in enumerate(results(world, tmp_path_factory.mktemp("world"))):
        result = found.get(name, f"never got here; it said:\n{said}")
        assert result == "ok", f"rank {rank}: {result}"


@pytest.mark.parametrize("world", WORLDS)
def test_leaving_without_destroy_is_fine(world, tmp_path_factory):
    for rank, (_, said, status) in enumerate(results(world, tmp_path_factory.mktemp("world"))):
        assert status == 0, f"rank {rank} ended with {status}: {said}"
