"""PyTorch's own suite over plait (suite.py): some of it every day, all of it with PLAIT_TEST_WHOLE=1."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WHOLE = os.environ.get("PLAIT_TEST_WHOLE") == "1"
EVERY_DAY = """
    test_DistributedDataParallelCPU test_accumulate_gradients_no_sync test_all_gather
    test_all_gather_coalesced_with_empty test_all_gather_object_default_pg test_all_reduce_coalesced_max
    test_all_reduce_complex_unsupported_ops test_all_reduce_group_product test_all_reduce_sum_async
    test_all_to_all_single_unequal_split_complex test_all_to_all_full_group test_barrier_timeout_global
    test_batch_isend_irecv_gloo test_broadcast_full_group test_ddp_uneven_inputs_stop_iteration_sync_bn
    test_destroy_group test_gather_object_subgroup test_get_future test_get_rank_size_full_group test_isend
    test_irecv test_monitored_barrier_gloo test_reduce_sum_twice test_scatter_complex
    test_scatter_object_list test_send_recv_any_source_autograd_profiler test_send_recv_with_tag
    test_sparse_all_reduce_sum test_stateless_api_with_ddp
""".split()
_found = {}


def found(folder):
    """What became of the tests that run today: runs them at the first question."""
    if not _found:
        ran = subprocess.run(
            [sys.executable, HERE / "suite.py", folder / "results.json", *([] if WHOLE else EVERY_DAY)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3000 if WHOLE else 280)  # fmt: skip
        assert ran.returncode == 0, ran.stdout[-4000:]
        _found.update(json.loads((folder / "results.json").read_text()))
    return _found


def explained():
    """The tests of suite_skips.txt."""
    lines = (HERE / "suite_skips.txt").read_text().splitlines()
    return {line.strip() for line in lines if line.startswith(" ")}


def test_none_fails(tmp_path):
    failed = {name: text for name, (state, text, _) in found(tmp_path).items() if state == "failed"}
    assert not failed, "\n".join(f"{name}:\n{text[-3000:]}" for name, text in failed.items())


def test_every_skip_is_explained(tmp_path):
    skipped = {name for name, (state, _, _) in found(tmp_path).items() if state == "skipped"}
    assert skipped <= explained(), {name: found(tmp_path)[name][1] for name in skipped - explained()}
    assert explained() & set(found(tmp_path)) <= skipped, "these run: take them out of suite_skips.txt"


@pytest.mark.skipif(not WHOLE, reason="takes some minutes: PLAIT_TEST_WHOLE=1")
def test_all_of_it_was_run(tmp_path):
    assert len(found(tmp_path)) > 250
    assert sum(state == "ok" for state, _, _ in found(tmp_path).values()) > 100
