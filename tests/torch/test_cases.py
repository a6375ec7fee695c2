"""Runs the cases of cases.py in one start of the ranks for each world, and reports them one by one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cases
import cases_forms  # noqa: F401: its cases come after those of cases
import cases_values  # noqa: F401
import pytest

HERE = Path(__file__).parent
WORLDS = {"2 ranks": (2, {}), "3 ranks": (3, {}), "2 ranks, debug": (2, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})}
# The debug wrapper refuses or changes these before plait sees them.
NOT_UNDER_DEBUG = {"split", "a_forked_child_is_refused", "operations_are_profiled", "coalesced", "functional_collectives",
                   "a_rank_that_never_comes", "abort_frees_a_waiter", "threads_take_turns", "many_small_works",
                   "many_groups_use_no_more_descriptors", "fsdp_learns_what_ddp_does", "all_gather_uneven",
                   "all_reduce_of_bools_is_logical", "continuations_may_wait", "all_to_all_uneven",
                   "a_wait_hears_signals", "faults_have_attributes", "other_calls_on_other_ranks", "completion_hooks"}  # fmt: skip
_results = {}


def results(world, folder):
    """Starts the ranks of `world` once; gives (what each rank said of each case, what it printed) a rank."""
    if world not in _results:
        size, environment = WORLDS[world]
        names = [case.__name__ for case in cases.CASES if not environment or case.__name__ not in NOT_UNDER_DEBUG]
        files = [folder / f"rank{rank}.json" for rank in range(size)]
        ranks = [
            subprocess.Popen(
                [sys.executable, HERE / "rank.py", str(rank), str(size), folder / "store", files[rank], *names],
                env={**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_PERTURB_": "165", **environment},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, cwd=folder)
            for rank in range(size)]  # fmt: skip
        said = []
        for rank in ranks:
            try:
                said.append(rank.communicate(timeout=200)[0])
            except subprocess.TimeoutExpired:
                rank.kill()
                said.append(rank.communicate()[0])
        found = [json.loads(file.read_text()) if file.exists() else {} for file in files]
        _results[world] = list(zip(found, said, [rank.returncode for rank in ranks]))
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
