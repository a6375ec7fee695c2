"""PyTorch's own suite of torch.distributed, which its package carries, run over plait by its own name.

    python suite.py RESULTS [NAME ...]      all tests, or those that are named

Writes to the file RESULTS what became of each test: {"test_x": ["ok" | "skipped" | "failed", text, seconds]}.

The suite runs many tests for gloo only, by its name, and decides that while it is imported. So it is imported for
gloo and told the right name afterwards. PyTorch starts a python for each rank of each test; here the ranks are forked
from this process, which has imported everything already.
"""

import json
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

RANKS = 4
MANY_RANKS = 8  # what tests of parts of the world, and some others, ask for
FOR_MANY = re.compile(r"(?<!full)_group(_[a-z]+)?$|full_group_cuda|barrier_failure_order|barrier_wait_all_ranks")
NOT_FOR_MANY = {"test_new_subgroups_with_group_param", "test_barrier_timeout_group"}
NAMED_GLOO = re.compile(r"accumulate_gradients|grads_same_across_ranks")  # these ask for the name while they run, too
NOT_RUN = {"test_ddp_logging_data_cpu": "PyTorch's log of DDP calls backends that it does not bring along 'custom'"}


def prepare(folder):
    """What the suite expects of its surroundings, before it is imported."""
    for name in ("barrier", "test_dir", "init_dir"):
        (folder / name).mkdir()
    os.environ.update(
        BACKEND="gloo", WORLD_SIZE=str(RANKS), TEMP_DIR=str(folder), INIT_METHOD=f"file://{folder}/init_dir/shared",
        MASTER_ADDR="127.0.0.1", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="120", OMP_NUM_THREADS="1",
    )  # fmt: skip


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """torch.distributed's without the question whether the group is gloo's."""
    import torch
    import torch.distributed as dist

    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    backend.monitored_barrier(backend.options._timeout if timeout is None else timeout, wait_all_ranks)


def suite_class():
    import torch

    torch.set_num_threads(1)
    import torch.distributed as dist
    from torch.testing._internal.distributed import distributed_test

    import plait  # noqa: F401

    distributed_test.BACKEND = os.environ["BACKEND"] = "plait"
    dist.monitored_barrier = monitored_barrier
    for profiled in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(distributed_test, profiled).append("plait")

    base = distributed_test.DistributedTest._DistTestBase

    class TestPlait(distributed_test.TestDistBackend, base):
        def setUp(self):
            super().setUp()
            name = self._testMethodName
            if name in NOT_RUN:
                self.skipTest(NOT_RUN[name])
            many = FOR_MANY.search(name) and name not in NOT_FOR_MANY
            os.environ["WORLD_SIZE"] = str(MANY_RANKS if many else RANKS)
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def run_test(self, name, pipe):
            if NAMED_GLOO.search(name):
                distributed_test.BACKEND = "gloo"
            super().run_test(name, pipe)

    for name, test in list(vars(base).items()):  # tests of CPU tensors that no backend but MPI had once
        if re.match("Only MPI supports (CPU )?all_to_all", getattr(test, "__unittest_skip_why__", "")):
            setattr(TestPlait, name, lambda self, test=test: test(self))  # without its mark
    return TestPlait


class Results(unittest.TextTestResult):
    """Keeps what became of each test, in a file that is complete at any time."""

    def __init__(self, path):
        super().__init__(unittest.runner._WritelnDecorator(sys.stderr), descriptions=False, verbosity=2)
        self.path, self.found, self.began = path, {}, 0.0

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def _keep(self, test, state, text=""):
        self.found[test._testMethodName] = [state, text, round(time.monotonic() - self.began, 2)]
        self.path.write_text(json.dumps(self.found, indent=0))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._keep(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._keep(test, "skipped", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._keep(test, "failed", self._exc_info_to_string(error, test))

    def addError(self, test, error):
        super().addError(test, error)
        self._keep(test, "failed", self._exc_info_to_string(error, test))


def main(results_file, *names):
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        suite = suite_class()
        results = Results(Path(results_file))
        for name in names or unittest.TestLoader().getTestCaseNames(suite):
            suite(name).run(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
