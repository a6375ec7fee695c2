#!/usr/bin/env python3
"""plait-perf from outside: test_perf.py PLAIT_PERF. What it measures, prints, refuses, and how it ends."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PERF = sys.argv[1] if len(sys.argv) > 1 else "build/release/bench/plait-perf"
LIMIT_S = 180

COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter",
               "all_to_all", "all_gather_v", "reduce_scatter_v", "gather_v", "scatter_v", "all_to_all_v", "barrier",
               "sendrecv")
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v")
ROOTED = ("reduce", "broadcast", "gather", "scatter", "gather_v", "scatter_v")
PLACES = {"broadcast": [True], "barrier": [False], "sendrecv": [False]}
KEYS = {"collective", "type", "op", "root", "ranks", "bytes", "count", "in_place", "time_us", "p99_us",
        "max_us", "cold", "memory", "algbw_gbs", "busbw_gbs", "iters", "wrong", "checked", "line_ns", "transport", "plan"}


def bus_factor(collective, ranks):
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective.removesuffix("_v") in ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1


def environment(**changes):
    """Ours without what a launcher may have left in it."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: value for name, value in os.environ.items() if name not in names} | changes


def start(*arguments, **changes):
    return subprocess.Popen([PERF, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(**changes))


def run(*arguments):
    return subprocess.run([PERF, *arguments], capture_output=True, text=True, timeout=LIMIT_S, env=environment())


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Perf(unittest.TestCase):
    def rows(self, *arguments):
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_row(self, row, ranks):
        self.assertEqual(set(row), KEYS)
        self.assertEqual(row["ranks"], ranks)
        self.assertEqual(row["wrong"], 0)
        self.assertGreater(row["time_us"], 0)
        self.assertGreaterEqual(row["p99_us"], row["time_us"] * 0.999)
        self.assertGreaterEqual(row["max_us"], row["p99_us"])
        self.assertAlmostEqual(row["algbw_gbs"], row["bytes"] / row["time_us"] / 1000, delta=1e-6 * row["algbw_gbs"])
        self.assertAlmostEqual(row["busbw_gbs"], row["algbw_gbs"] * bus_factor(row["collective"], ranks),
                               delta=1e-6 * row["algbw_gbs"])
        self.assertEqual(set(row["line_ns"]), {"before", "after"})
        self.assertEqual(row["op"], "sum" if row["collective"] in REDUCING else None)
        self.assertEqual(row["type"], None if row["collective"] == "barrier" else "f32")
        self.assertEqual(row["root"], 0 if row["collective"] in ROOTED else None)
        self.assertTrue(row["transport"])
        if row["collective"] != "sendrecv":
            self.assertTrue(row["plan"])
        if row["collective"] != "barrier":
            self.assertGreater(row["checked"], 0)

    def check_all_collectives(self, ranks, *how):
        rows = self.rows(*how, "-b", "8", "-e", "64K", "-f", "64", "-n", "5", "all")
        for row in rows:
            with self.subTest(row=row):
                self.check_row(row, ranks)
        for collective in COLLECTIVES:
            places = PLACES.get(collective, [False, True])
            found = [row["in_place"] for row in rows if row["collective"] == collective]
            sizes = 1 if collective == "barrier" else 3
            self.assertEqual(found, places * sizes, collective)

    def test_all_collectives_as_processes(self):
        self.check_all_collectives(2, "--ranks", "2")

    def test_all_collectives_as_threads(self):
        self.check_all_collectives(3, "--threads", "3")

    def test_all_types_and_operations(self):
        rows = self.rows("--threads", "2", "-d", "all", "-o", "all", "-b", "64", "-e", "64", "-n", "2", "-c", "2")
        self.assertEqual(len({(row["type"], row["op"]) for row in rows}), 142)
        self.assertEqual(sum(row["wrong"] for row in rows), 0)

    def test_large_buffers(self):
        for row in self.rows("--ranks", "2", "-b", "16M", "-e", "16M", "-n", "2", "all_reduce", "all_gather"):
            self.check_row(row, 2)
            self.assertEqual(row["bytes"], 16 << 20)

    def test_roots(self):
        size = ("-b", "1K", "-e", "1K", "-n", "2", "broadcast", "gather")
        roots = [row["root"] for row in self.rows("--threads", "3", "-r", "all", *size)]
        self.assertEqual(roots, [0, 1, 2, 0, 0, 1, 1, 2, 2])
        roots = {row["root"] for row in self.rows("--threads", "3", "-r", "rotate", *size)}
        self.assertEqual(roots, {"rotate"})

    def test_cold_caches(self):
        rows = self.rows("-t", "2", "--cold", "-b", "8", "-e", "64K", "-f", "64", "-n", "3", "all_reduce", "scatter", "sendrecv")
        self.assertEqual({row["cold"] for row in rows}, {True})
        self.assertEqual(sum(row["wrong"] for row in rows), 0)

    def test_registered_memory(self):
        for row in self.rows("--ranks", "2", "--memory", "registered", "-b", "8", "-e", "1M", "-f", "1024", "-n", "5"):
            self.check_row(row, 2)
            self.assertEqual(row["memory"], "registered")

    def check_explained(self, row, ranks):
        self.assertEqual([share["rank"] for share in row["explain"]], list(range(ranks)))
        for share in row["explain"]:
            parts = sum(share[part] for part in ("waiting_us", "copying_us", "reducing_us", "other_us"))
            self.assertAlmostEqual(share["time_us"], parts, delta=1e-3 + 1e-6 * parts)
            self.assertLessEqual(share["awaited_us"], share["waiting_us"] * 1.001 + 1e-3)
            self.assertGreaterEqual(share["operations"], 1)
            self.assertNotEqual(share["awaited"], share["rank"])
        copied = sum(share["copied_bytes"] for share in row["explain"])
        reduced = sum(share["reduced_bytes"] for share in row["explain"])
        self.assertEqual(copied > 0, row["bytes"] > 1024, "only what does not ride in notices is copied")
        self.assertEqual(reduced > 0, row["bytes"] > 1024 and row["collective"] == "all_reduce")

    def test_explains(self):
        rows = self.rows("--ranks", "2", "--explain", "-b", "8", "-e", "1M", "-f", "131072", "-n", "5",
                         "all_reduce", "all_gather", "sendrecv")
        for row in rows:
            with self.subTest(row=row):
                if row["collective"] == "sendrecv":
                    self.assertIsNone(row["explain"])
                else:
                    self.check_explained(row, 2)
        table = run("-t", "3", "--explain", "-b", "1M", "-e", "1M", "-n", "5").stdout
        self.assertRegex(table, r"#      rank 2 +[0-9.]+ .* mostly for rank [01]\n")
        self.assertRegex(table, r"On average \d+ % waiting, \d+ % copying at [0-9.]+ GB/s, \d+ % reducing at")

    def test_overlap(self):
        rows = self.rows("--ranks", "2", "overlap", "-b", "64K", "-e", "1M", "-f", "16", "-n", "11", "all_reduce",
                         "broadcast")
        self.assertEqual([(row["overlap"], row["bytes"]) for row in rows],
                         [(name, size) for name in ("all_reduce", "broadcast") for size in (65536, 1 << 20)])
        for row in rows:
            self.assertEqual((row["ranks"], row["samples"]), (2, 11))
            self.assertGreater(row["blocking_us"], 0)
            self.assertGreater(row["async_us"], 0)
            for name in ("computing", "sleeping"):
                beside = row[name]
                serial = row["blocking_us"] + beside["alone_us"]
                self.assertAlmostEqual(beside["to_serial"], beside["both_us"] / serial, delta=1e-6 * beside["to_serial"])
                saved = (serial - beside["both_us"]) / min(row["blocking_us"], beside["alone_us"])
                self.assertAlmostEqual(beside["hidden"], saved, delta=1e-6 * abs(saved) + 1e-6)
        table = run("-t", "2", "overlap", "-b", "64K", "-e", "64K", "-n", "11", "all").stdout
        self.assertEqual(len([line for line in table.splitlines() if not line.startswith("#")]), len(COLLECTIVES) - 1)
        self.assertIn("sendrecv is two works", table)

    def test_kernels(self):
        rows = self.rows("kernels", "-d", "f32,bf16", "-o", "sum,max", "-b", "4K", "-e", "16K")
        self.assertEqual({row["bytes"] for row in rows}, {4096, 16384})
        self.assertEqual([(row["set"] == "plain", row["type"], row["op"]) for row in rows if row["bytes"] == 4096],
                         [(True, "any", "none"), (False, "f32", "sum"), (False, "f32", "max"),
                          (False, "bf16", "sum"), (False, "bf16", "max")])
        for row in rows:
            self.assertGreater(row["gbs"], 0)
            self.assertGreater(row["to_plain"], 0)
        table = run("kernels", "-d", "i8", "--set", "scalar", "-b", "4K", "-e", "4K").stdout
        self.assertRegex(table, r"(?m)^ +scalar +i8 +sum +[0-9.]+ +\d+ %$")

    def test_copies(self):
        rows = self.rows("copy", "-b", "4K", "-e", "64K")
        self.assertEqual([row["bytes"] for row in rows], [4096, 16384, 65536])
        for row in rows:
            for kind in ("cached", "streamed", "memcpy"):
                self.assertGreater(row[kind + "_gbs"], 0)
                self.assertGreater(row[kind + "_all_gbs"], 0)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_lines(self):
        rows = self.rows("line")
        self.assertEqual(len(rows), len(os.sched_getaffinity(0)) - 1)
        for row in rows:
            self.assertNotEqual(*row["cpus"])
            self.assertTrue(0 < row["best_ns"] <= row["median_ns"] <= row["p95_ns"] <= row["max_ns"], row)

    def test_wake_ups(self):
        rows = {row["what"]: row for row in self.rows("wake")}
        self.assertLessEqual({"rank_sleeps", "yield", "wake_here", "yield_here", "clock", "nap"}, set(rows))
        self.assertGreater(rows["nap"]["best_us"], 50)
        for row in rows.values():
            self.assertTrue(0 <= row["best_us"] <= row["median_us"] <= row["p95_us"] <= row["max_us"], row)

    def test_one_rank(self):
        rows = self.rows("-b", "64", "-e", "64", "-n", "2", "all")
        self.assertEqual({row["ranks"] for row in rows}, {1})
        self.assertNotIn("sendrecv", {row["collective"] for row in rows})

    def test_sizes_that_come_to_one_count_are_one_row(self):
        counts = [row["count"] for row in self.rows("--threads", "3", "-b", "1", "-e", "64", "-f", "2", "-n", "1",
                                                    "all_to_all")]
        self.assertEqual(counts, [1, 1, 2, 2, 5, 5], "once out of place and once in place")

    def test_unchecked_is_not_right(self):
        for row in self.rows("-b", "64", "-e", "64", "-n", "2", "-c", "0"):
            self.assertEqual((row["wrong"], row["checked"]), (None, 0))

    def test_table_and_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.json")
            done = run("--ranks", "2", "-b", "8", "-e", "64", "-n", "2", "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                self.assertEqual(len([json.loads(line) for line in file]), 4)
        lines = done.stdout.splitlines()
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual([row[:5] for row in rows], [["8", "2", "f32", "sum", "-1"], ["64", "16", "f32", "sum", "-1"]])
        self.assertIn("# Out of bounds values : 0 OK", lines)
        self.assertTrue(any(re.match(r"# Avg bus bandwidth    : \d", line) for line in lines))

    def test_joins_by_environment(self):
        port = str(free_port())
        ranks = [start("-b", "8", "-e", "8", "-n", "2", "--json", RANK=str(rank), WORLD_SIZE="2",
                       LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=port) for rank in range(2)]
        outputs = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        self.assertEqual(json.loads(outputs[0][0].splitlines()[0])["ranks"], 2)
        self.assertEqual(outputs[1][0], "", "only rank 0 prints")

    def test_bad_options(self):
        for arguments, good in (
            (("-d", "f8"), "bf16"), (("-o", "xnor"), "average"), (("all_redcue",), "all_reduce"),
            (("-b", "10KB"), "64K"), (("-b", "-8"), "64K"), (("-e", ""), "64K"), (("-f", "0"), "from 1"),
            (("-f", "1"), "2 or more"), (("-f", "2", "-i", "8"), "exclude"), (("-b", "2M", "-e", "1M"), "more than"),
            (("-n", "0"), "from 1"), (("-c", "x"), "from 0"), (("-r", "-1"), "rotate"), (("-T", "soon"), "seconds"),
            (("--ranks", "0"), "from 1"), (("--ranks", "2", "-r", "2"), "0 to 1"),
            (("--ranks", "2", "--threads", "2"), "exclude"), (("-g", "8"), "--ranks"), (("-f", "x"), "from 1"),
            (("-f", "nan"), "from 1"), (("-t", "0"), "from 1"),
            (("--no-such-option",), "--help"),
            (("overlap", "--cold"), "leave them out"), (("kernels", "-d", "f8"), "bf16"), (("kernels", "-o", "x"), "max"),
            (("copy", "-b", "8"), "from 64"), (("copy", "-b", "1M", "-e", "4K"), "more than"), (("copy", "x"), "no argument"),
            (("line", "-d", "f32"), "line --help"), (("wake", "--set", "scalar"), "wake --help"),
        ):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(good, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_failures_have_a_sentence(self):
        for arguments, piece in ((("-r", "1"), "0 to 0"), (("--json=/no/such/folder/x",), "No such file"),
                                 (("-b", "64T", "-e", "64T"), "smaller -e")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, r"^plait-perf: rank 0: PLAIT_\w+: ")
                self.assertIn(piece, done.stderr)
        done = run("kernels", "--set", "none")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^plait-perf: --set none: .* scalar")

    def start_long(self, *how):
        """A run that would take minutes, and the pids of its ranks, once they have begun."""
        perf = start(*how, "-b", "64", "-e", "64", "-n", "1000000", "all")
        self.addCleanup(perf.kill)
        pids = []
        for line in perf.stdout:
            found = re.match(r"#  Rank +\d+ +Pid +(\d+) ", line)
            if found:
                pids.append(int(found.group(1)))
            elif pids:
                return perf, pids
        return self.fail(perf.communicate(timeout=LIMIT_S)[1])

    def assert_all_gone(self, pids):
        end = time.monotonic() + 5
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            self.assertLess(time.monotonic(), end, "ranks are left over")
            time.sleep(0.02)

    def test_a_killed_rank_ends_the_others(self):
        perf, pids = self.start_long("--ranks", "3")
        os.kill(pids[1], signal.SIGKILL)
        errors = perf.communicate(timeout=20)[1]
        self.assertEqual(perf.returncode, 1)
        self.assertRegex(errors, rf"plait-perf: rank 1 \(pid {pids[1]}\) was ended by signal 9")
        self.assert_all_gone(pids)

    def test_signals_are_handed_on(self):
        perf, pids = self.start_long("--ranks", "2")
        perf.send_signal(signal.SIGTERM)
        perf.communicate(timeout=20)
        self.assertEqual(perf.returncode, 128 + signal.SIGTERM)
        self.assert_all_gone(pids)

    def test_ranks_do_not_outlive_a_killed_launcher(self):
        perf, pids = self.start_long("--ranks", "2")
        perf.kill()
        perf.communicate(timeout=20)
        self.assert_all_gone(pids)

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PERF, "-b", "8", "-e", "8", "-n", "2"], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=LIMIT_S, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn("can't write to stdout", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
