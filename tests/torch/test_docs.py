"""What docs/from-gloo-or-nccl.md shows runs, as it stands there, on two ranks that torchrun's variables describe."""

import os
import re
import socket
from pathlib import Path

import pytest
from forked import forked

PAGE = (Path(__file__).parents[2] / "docs" / "from-gloo-or-nccl.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_some():
    assert len(SNIPPETS) >= 4


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_it_runs(number, tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    def rank_runs(rank, size, folder):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        exec(compile(SNIPPETS[number], f"snippet {number}", "exec"), {"__name__": "snippet"})

    forked(rank_runs, 2, tmp_path)
