"""A model trains over two hosts: torchrun in two network namespaces, of which nothing is left when the test is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from namespaces import two_hosts  # noqa: E402

TRAIN = """
import os, torch, torch.distributed as dist, plait
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("plait")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
generator = torch.Generator().manual_seed(7)
for step in range(20):
    samples = torch.randn(64, 20, generator=generator)  # all of them on every rank, of which each takes its part
    mine = samples[rank::size]
    loss = torch.nn.functional.mse_loss(model(mine), mine.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
everyones = [torch.empty_like(weights) for _ in range(size)]
dist.all_gather(everyones, weights)
assert all(torch.equal(weights, other) for other in everyones), "the ranks have different weights"
loss = loss.detach()
dist.all_reduce(loss)
print(f"rank {rank} of {size} ends with loss {loss.item() / size:.3f}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def hosts():
    with two_hosts() as made:
        if made is None:
            pytest.skip("no network namespaces can be made here (that needs root and iproute2)")
        yield made


def test_torchrun_on_two_hosts(hosts, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PLAIT_LOG": "info"}
    agents = []
    for number, host in enumerate(hosts):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number),
                    "--nproc-per-node", "1", "--master-addr", "10.77.1.1", "--master-port", "29500",
                    "--local-addr", f"10.77.1.{number + 1}", script]  # fmt: skip
        agents.append(host.start(150, *torchrun, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env=environment))  # fmt: skip
    said = [agent.communicate()[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(said)
    for rank, text in enumerate(said):
        assert f"rank {rank} of 2 is up over shm+ofi" in text, text
        assert f"address 10.77.1.{rank + 1} of eth0" in text, text
    losses = [float(text.split("ends with loss ")[1].split()[0]) for text in said]
    assert losses[0] == losses[1] < 2
