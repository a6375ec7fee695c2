"""Groups of some ranks: hundreds of them, in any order, made at no cost."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from forked import all_reduce_works, descriptors, forked, init, threads

DEADLINE = timedelta(seconds=60)


def plait_of(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


def test_three_hundred_groups_cost_nothing(tmp_path):
    """By new_group, all at once: no descriptor, no thread; each works."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        all_reduce_works()
        before = descriptors(), threads()
        groups = [dist.new_group([0, 1] if i % 2 else [0, 1, 2]) for i in range(300)]
        for i, group in enumerate(groups):
            if rank < 2 or i % 2 == 0:
                all_reduce_works(group)
        assert (descriptors(), threads()) == before
        for i, group in enumerate(groups):
            if rank < 2 or i % 2 == 0:
                dist.destroy_process_group(group)
        all_reduce_works()

    forked(rank_runs, 3, tmp_path)


def test_a_group_is_made_within_a_millisecond(tmp_path):
    """CPU time, without the questions that torch itself puts to the store for each new_group()."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        parent, seconds = plait_of(), []
        for again in range(100):
            dist.barrier()
            began = time.process_time()
            group = parent.group([0, 1], DEADLINE, f"part{again}")
            seconds.append(time.process_time() - began)
            group.shutdown()
        assert min(seconds) < 0.001, seconds

    forked(rank_runs, 2, tmp_path)


def test_any_order(tmp_path):
    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        for ranks in ([2, 0, 1], [1, 0], [2, 1, 0], [0, 2]):
            group = dist.new_group(ranks, sort_ranks=False)
            if rank not in ranks:
                continue
            assert dist.get_rank(group) == ranks.index(rank)
            gathered = torch.empty(len(ranks), dtype=torch.int64)
            dist.all_gather_into_tensor(gathered, torch.tensor([rank]), group=group)
            assert gathered.tolist() == ranks
            tensor = torch.tensor([rank])
            dist.broadcast(tensor, src=ranks[0], group=group)
            assert tensor.item() == ranks[0]

    forked(rank_runs, 3, tmp_path)


def test_groups_of_groups(tmp_path):
    """A group of a group, by its own numbers; split_group(), which torch has in ascending order."""

    def rank_runs(rank, size, folder):
        init(rank, size, folder)
        half = dist.new_group([3, 2], sort_ranks=False)
        if rank == 2:
            alone = plait_of(half).group([1], DEADLINE, "alone")
            tensor = torch.ones(2)
            alone.allreduce([tensor]).wait()
            assert alone.size() == 1 and (tensor == 1).all()
        if rank >= 2:
            all_reduce_works(half)
        world = dist.distributed_c10d._get_default_group()
        ranks = [rank % 2, rank % 2 + 2]
        group = world.split_group(ranks, timeout=DEADLINE, group_name=f"split{rank % 2}")
        tensor = torch.tensor([float(rank)])
        group.allreduce([tensor]).wait()
        assert tensor.item() == sum(ranks) and group.rank() == ranks.index(rank)

    forked(rank_runs, 4, tmp_path)


def test_meshes(tmp_path):
    """DeviceMesh in two dimensions, sliced and flattened."""

    def rank_runs(rank, size, folder):
        from torch.distributed.device_mesh import init_device_mesh

        init(rank, size, folder)
        dist.all_reduce(torch.ones(1), async_op=True).wait()  # the thread that there is for such comes now
        before = descriptors(), threads()
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
        for name, ranks in (("outer", [rank % 2, rank % 2 + 2]), ("inner", [rank // 2 * 2, rank // 2 * 2 + 1])):
            group = mesh[name].get_group()
            assert dist.get_process_group_ranks(group) == ranks and dist.get_backend(group) == "plait"
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == sum(ranks)
        flat = mesh._flatten("all").get_group()
        all_reduce_works(flat)
        assert (descriptors(), threads()) == before

    forked(rank_runs, 4, tmp_path)


def test_devices_of_several_backends(tmp_path):
    """A map from devices to backends: plait for the CPU beside another one, in groups as well."""
    assert dist.BackendConfig(dist.Backend("cpu:plait,cuda:nccl")).get_device_backend_map() == {
        "cpu": "plait", "cuda": "nccl"}  # fmt: skip

    def rank_runs(rank, size, folder):
        for name, backend in (("a", "cpu:plait"), ("b", "PLAIT"), ("c", "cpu:plait,cuda:gloo")):
            init(rank, size, folder, name, backend)
            all_reduce_works()
            all_reduce_works(dist.new_group([0, 1]))
            assert type(plait_of()).__name__ == "ProcessGroupPlait"
            gathered = [None, None]
            dist.all_gather_object(gathered, rank)
            assert gathered == [0, 1]
            dist.barrier()
            dist.destroy_process_group()
        if dist.is_nccl_available() and torch.cuda.is_available():
            init(rank, size, folder, "d", "cpu:plait,cuda:nccl")
            all_reduce_works()

    forked(rank_runs, 2, tmp_path)
