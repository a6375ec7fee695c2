"""The example trains, over Plait twice and over Gloo: same bits, same losses."""

import json
import subprocess
import sys
from pathlib import Path

# By addresses: bare machines know neither localhost nor their own name.
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]  # fmt: skip
EXAMPLE = Path(__file__).parents[2] / "examples/train_digits.py"


def test_digits(tmp_path):
    ended = subprocess.run(
        [sys.executable, *TORCHRUN, EXAMPLE, "--backends", "plait,plait,gloo", "--epochs", "6",
         "--out", tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    first, second, gloo = json.loads((tmp_path / "digits.json").read_text())["runs"]
    assert first["digest"] == second["digest"]
    assert first["losses"] == second["losses"]
    assert abs(first["losses"][-1] - gloo["losses"][-1]) < 1e-3
    assert first["accuracy"] == gloo["accuracy"] and first["accuracy"] > 0.9
    for name in ("digits.png", "digits.svg"):
        assert (tmp_path / name).stat().st_size > 10000


def test_a_start_without_torchrun_says_what_to_do(tmp_path):
    ended = subprocess.run([sys.executable, EXAMPLE, "--backends", "gloo", "--out", tmp_path], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip
    assert ended.returncode == 1 and "torchrun --nproc-per-node 2" in ended.stdout
