"""What must hold on every rank of a group: one function a case, run by all ranks in the order below.

A case is given its rank and the number of ranks. Inputs are made from a seed and a rank, so each rank can work
out what the others put in and compare with plain torch.
"""

import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.nn.parallel import DistributedDataParallel

CASES = []
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
MOVED_ONLY = [torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn]
COUNTS = [0, 1, 2, 7, 1000, 70001]


def case(function):
    CASES.append(function)
    return function


def data(rank, shape, dtype=torch.float32, seed=0):
    """The input of `rank`: small whole numbers, so that every type adds them exactly."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    numbers = torch.randint(1, 5, shape if isinstance(shape, tuple) else (shape,), generator=generator)
    return numbers.to(torch.float32).to(dtype)


def every(size, shape, dtype=torch.float32, seed=0):
    return [data(rank, shape, dtype, seed) for rank in range(size)]


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, (got.dtype, got.shape, wanted.dtype, wanted.shape)
    # Bytes, for float8 has no ==.
    assert torch.equal(got.contiguous().view(torch.uint8) if got.dim() and got.numel() else got.flatten(),
                       wanted.contiguous().view(torch.uint8) if got.dim() and got.numel() else wanted.flatten()), (got, wanted)  # fmt: skip


def reduced(tensors, op):
    wide = torch.stack([tensor.to(torch.float64) for tensor in tensors])
    value = {
        ReduceOp.SUM: wide.sum(0), ReduceOp.AVG: wide.mean(0), ReduceOp.PRODUCT: wide.prod(0),
        ReduceOp.MIN: wide.amin(0) if wide.numel() else wide.sum(0),
        ReduceOp.MAX: wide.amax(0) if wide.numel() else wide.sum(0),
    }[op]  # fmt: skip
    return value.to(tensors[0].dtype) if tensors[0].is_floating_point() else value.trunc().to(tensors[0].dtype)


def refuses(exception, words, call):
    try:
        call()
    except exception as error:
        for word in [words] if isinstance(words, str) else words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"no {exception.__name__} was raised")


# ------------------------------------------------------------- collectives


@case
def all_reduce_types_and_operations(rank, size):
    for dtype in FLOATS + INTEGERS + [torch.uint32, torch.uint64]:
        for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
            inputs = every(size, 37, dtype)
            tensor = inputs[rank].clone()
            dist.all_reduce(tensor, op)
            wanted = reduced(inputs, op)
            if dtype.is_floating_point:
                torch.testing.assert_close(tensor, wanted)
            else:
                same(tensor, wanted)


@case
def all_reduce_counts(rank, size):
    for count in COUNTS:
        tensor = data(rank, count)
        dist.all_reduce(tensor)
        same(tensor, reduced(every(size, count), ReduceOp.SUM))


@case
def all_reduce_of_bools_is_logical(rank, size):
    flags = [torch.tensor([True, False, r == 0, r != 0]) for r in range(size)]
    for op, wanted in ((ReduceOp.SUM, torch.stack(flags).any(0)), (ReduceOp.MAX, torch.stack(flags).any(0)),
                       (ReduceOp.BAND, torch.stack(flags).all(0)), (ReduceOp.MIN, torch.stack(flags).all(0))):  # fmt: skip
        tensor = flags[rank].clone()
        dist.all_reduce(tensor, op)
        same(tensor, wanted)


@case
def all_reduce_of_complex(rank, size):
    tensor = torch.complex(data(rank, 5), data(rank, 5, seed=1))
    dist.all_reduce(tensor)
    same(tensor.real.contiguous(), reduced(every(size, 5), ReduceOp.SUM))


@case
def all_reduce_same_bits_everywhere(rank, size):
    inputs = [torch.rand(5001, generator=torch.Generator().manual_seed(r)) for r in range(size)]
    results = []
    for _ in range(2):
        tensor = inputs[rank].clone()
        dist.all_reduce(tensor)
        results.append(tensor)
    same(results[0], results[1])
    gathered = [torch.empty(5001) for _ in range(size)]
    dist.all_gather(gathered, results[0])
    for other in gathered:
        same(other, results[0])


@case
def broadcast(rank, size):
    for dtype in FLOATS + INTEGERS + MOVED_ONLY:
        for root in range(size):
            tensor = data(rank, 13, dtype)
            dist.broadcast(tensor, root)
            same(tensor, data(root, 13, dtype))


@case
def reduce(rank, size):
    for root in range(size):
        tensor = data(rank, 101)
        dist.reduce(tensor, root)
        if rank == root:
            same(tensor, reduced(every(size, 101), ReduceOp.SUM))


@case
def all_gather_list(rank, size):
    for dtype in FLOATS + INTEGERS + MOVED_ONLY:
        outputs = [torch.empty(11, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, data(rank, 11, dtype))
        for output, wanted in zip(outputs, every(size, 11, dtype)):
            same(output, wanted)


@case
def all_gather_slices_and_aliases(rank, size):
    buffer = torch.full((size * 6 + 2,), -1.0)
    dist.all_gather(list(buffer[1:-1].split(6)), data(rank, 6))
    same(buffer[1:-1], torch.cat(every(size, 6)))
    assert buffer[0] == -1 and buffer[-1] == -1
    alias = torch.zeros(6)
    dist.all_gather([alias] * size, data(rank, 6))
    assert any(torch.equal(alias, wanted) for wanted in every(size, 6))


@case
def all_gather_uneven(rank, size):
    outputs = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(outputs, data(rank, rank + 1))
    for r in range(size):
        same(outputs[r], data(r, r + 1))


@case
def all_gather_flat(rank, size):
    for count in COUNTS:
        output = torch.empty(size * count)
        dist.all_gather_into_tensor(output, data(rank, count))
        same(output, torch.cat(every(size, count)))
    stacked = torch.empty(size, 3, 2)
    dist.all_gather_into_tensor(stacked, data(rank, (3, 2)))
    same(stacked, torch.stack(every(size, (3, 2))))
    in_place = torch.zeros(size * 5)
    mine = in_place[rank * 5 : (rank + 1) * 5]
    mine.copy_(data(rank, 5))
    dist.all_gather_into_tensor(in_place, mine)
    same(in_place, torch.cat(every(size, 5)))


@case
def reduce_scatter_list(rank, size):
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX):
        output = torch.empty(9)
        dist.reduce_scatter(output, [data(rank, 9, seed=place) for place in range(size)], op)
        torch.testing.assert_close(output, reduced(every(size, 9, seed=rank), op))
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, [data(rank, place + 1, seed=place) for place in range(size)])
    same(output, reduced(every(size, rank + 1, seed=rank), ReduceOp.SUM))


@case
def reduce_scatter_flat(rank, size):
    for count in COUNTS:
        inputs = every(size, size * count)
        output = torch.empty(count)
        dist.reduce_scatter_tensor(output, inputs[rank].clone())
        same(output, reduced(inputs, ReduceOp.SUM)[rank * count : (rank + 1) * count])
    inputs = every(size, size * 4)
    buffer = inputs[rank].clone()
    dist.reduce_scatter_tensor(buffer[rank * 4 : (rank + 1) * 4], buffer)
    same(buffer[rank * 4 : (rank + 1) * 4], reduced(inputs, ReduceOp.SUM)[rank * 4 : (rank + 1) * 4])


@case
def gather_and_scatter(rank, size):
    for root in range(size):
        outputs = [torch.empty(3, 2) for _ in range(size)] if rank == root else None
        dist.gather(data(rank, (3, 2)), outputs, dst=root)
        if rank == root:
            for output, wanted in zip(outputs, every(size, (3, 2))):
                same(output, wanted)
        output = torch.empty(7, dtype=torch.bool)
        dist.scatter(output, every(size, 7, torch.bool, seed=root) if rank == root else None, src=root)
        same(output, data(rank, 7, torch.bool, seed=root))


@case
def all_to_all_even(rank, size):
    for count in (0, 1, 5, 3000):
        output = torch.empty(size * count, 2)
        dist.all_to_all_single(output, torch.cat([data(rank, (count, 2), seed=place) for place in range(size)]))
        same(output, torch.cat([data(r, (count, 2), seed=rank) for r in range(size)]))


@case
def all_to_all_uneven(rank, size):
    def rows(sender, receiver):
        return (sender * 2 + receiver) % 3  # some are 0

    inputs = [data(rank, (rows(rank, place), 2), seed=place) for place in range(size)]
    outputs = [torch.empty(rows(r, rank), 2) for r in range(size)]
    dist.all_to_all(outputs, inputs)
    for r in range(size):
        same(outputs[r], data(r, (rows(r, rank), 2), seed=rank))
    receives = [rows(r, rank) for r in range(size)]
    output = torch.empty(sum(receives), 2)
    dist.all_to_all_single(output, torch.cat(inputs), receives, [rows(rank, place) for place in range(size)])
    same(output, torch.cat(outputs))


@case
def barrier_waits_for_the_last(rank, size):
    if rank == size - 1:
        time.sleep(0.1)
    began = time.time()
    entered = torch.tensor([began], dtype=torch.float64)
    dist.barrier(device_ids=[0])
    left = time.time()
    dist.all_reduce(entered, ReduceOp.MAX)
    assert left >= entered.item() - 0.001


@case
def coalesced(rank, size):
    tensors = [data(rank, 5), data(rank, 7, seed=1)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for seed, tensor in enumerate(tensors):
        same(tensor, reduced(every(size, tensor.numel(), seed=seed), ReduceOp.SUM))
    outputs = [torch.empty(size * 5), torch.empty(size * 7)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for seed, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, data(rank, output.numel() // size, seed=seed))
    manager.wait()
    same(outputs[1], torch.cat(every(size, 7, seed=1)))


@case
def functional_collectives(rank, size):
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD
    same(functional.all_reduce(data(rank, 6), "sum", group) + 0, reduced(every(size, 6), ReduceOp.SUM))
    same(functional.all_gather_tensor(data(rank, 6), 0, group) + 0, torch.cat(every(size, 6)))
    got = functional.reduce_scatter_tensor(data(rank, size * 2), "avg", 0, group) + 0
    torch.testing.assert_close(got, reduced(every(size, size * 2), ReduceOp.AVG)[rank * 2 : rank * 2 + 2])


@case
def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 100 * rank})
    assert [entry["rank"] for entry in gathered] == list(range(size))
    sent = [("from", 0)] if rank == 0 else [None]
    dist.broadcast_object_list(sent, 0)
    assert sent == [("from", 0)]
    received = [None]
    dist.scatter_object_list(received, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert received == [f"for {rank}"]


# ------------------------------------------------- strides, shapes, memory


@case
def strided_tensors(rank, size):
    tensor = data(rank, (4, 3)).t()
    assert not tensor.is_contiguous()
    dist.all_reduce(tensor)
    same(tensor.contiguous(), reduced(every(size, (4, 3)), ReduceOp.SUM).t().contiguous())

    buffer = torch.full((10,), -1.0)
    buffer[::2] = data(rank, 5)
    dist.broadcast(buffer[::2], 0)
    same(buffer[::2].contiguous(), data(0, 5))
    assert (buffer[1::2] == -1).all()

    outputs = [torch.empty(3, 4).t() for _ in range(size)]
    dist.all_gather(outputs, data(rank, (3, 4)).t())
    same(outputs[-1].contiguous(), data(size - 1, (3, 4)).t().contiguous())

    whole = torch.empty(size * 2, 8)[:, ::2]
    dist.all_gather_into_tensor(whole, data(rank, (2, 4)))
    same(whole.contiguous(), torch.cat(every(size, (2, 4))))

    expanded = data(rank, 1).expand(6)
    output = torch.empty(6)
    dist.reduce_scatter_tensor(output, expanded.repeat(size)[: size * 6])
    same(output, reduced([item.expand(6) for item in every(size, 1)], ReduceOp.SUM))


@case
def scalars_and_nothing(rank, size):
    scalar = torch.tensor(rank + 1)
    dist.all_reduce(scalar)
    assert scalar.dim() == 0 and scalar.item() == size * (size + 1) // 2
    flat = torch.empty(size, dtype=torch.int64)
    dist.all_gather_into_tensor(flat, torch.tensor(rank))
    assert flat.tolist() == list(range(size))
    nothing = [torch.empty(0, 3) for _ in range(size)]
    dist.all_gather(nothing, torch.empty(0, 3))
    dist.all_reduce(torch.empty(0))


@case
def neighbours_are_left_alone(rank, size):
    buffer = torch.full((1003,), -1.0)
    buffer[1:1002] = data(rank, 1001)
    dist.all_reduce(buffer[1:1002])
    same(buffer[1:1002], reduced(every(size, 1001), ReduceOp.SUM))
    assert buffer[0] == -1 and buffer[-1] == -1


@case
def tensors_that_require_grad(rank, size):
    leaf = torch.ones(3, requires_grad=True)
    outputs = [torch.empty(3) for _ in range(size)]
    dist.all_gather(outputs, leaf)
    strided = torch.nn.Parameter(torch.full((3, 2), rank + 1.0)).t()
    dist.broadcast(strided.detach(), 0)
    assert (strided == 1).all()


# ---------------------------------------------------------- works, futures


@case
def works(rank, size):
    tensor = data(rank, 1000)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait() and work.wait()
    assert work.is_completed()
    same(tensor, reduced(every(size, 1000), ReduceOp.SUM))


@case
def futures(rank, size):
    tensor = data(rank, 10)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), reduced(every(size, 10), ReduceOp.SUM) * 2)
    work.wait()
    assert work.get_future().done()
    same(work.get_future().value()[0], tensor)
    finished = dist.all_reduce(tensor, async_op=True)
    finished.wait()
    assert finished.get_future().done()


@case
def continuations_may_wait(rank, size):
    def again(group):
        return lambda future: dist.all_reduce(future.value()[0], group=group, async_op=True).get_future().wait()[0]

    # A group each: continuations on one would start their operations in another order on every rank.
    groups = [dist.new_group(list(range(size))) for _ in range(3)]
    works = [dist.all_reduce(torch.ones(3), group=group, async_op=True) for group in groups]
    for future in [work.get_future().then(again(group)) for work, group in zip(works, groups)]:
        same(future.wait(), torch.full((3,), float(size * size)))


@case
def many_small_works(rank, size):
    works = [dist.all_reduce(torch.tensor([float(i)]), async_op=True) for i in range(2000)]
    for work in works:
        work.wait()


@case
def dropped_works_are_done(rank, size):
    tensors = [torch.ones(1000) for _ in range(20)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    for tensor in tensors:
        assert (tensor == size).all()
    for _ in range(20):
        dist.all_reduce(torch.ones(100000), async_op=True)  # nobody else holds this tensor
    dist.barrier()


@case
def threads_take_turns(rank, size):
    first, second = dist.new_group(list(range(size))), dist.new_group(list(range(size)))
    trouble = []

    def use(group, value):
        try:
            for _ in range(50):
                tensor = torch.full((100,), value)
                dist.all_reduce(tensor, group=group)
                assert (tensor == value * size).all()
        except Exception as error:
            trouble.append(error)

    threads = [threading.Thread(target=use, args=(group, value)) for group, value in ((first, 1.0), (second, 3.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble, trouble


# ---------------------------------------------------------- point to point


@case
def send_and_receive(rank, size):
    for count in (0, 1, 100, 300000):
        if rank == 0:
            dist.send(data(0, count), 1, tag=3)
        elif rank == 1:
            tensor = torch.empty(count)
            assert dist.recv(tensor, 0, tag=3) == 0
            same(tensor, data(0, count))


@case
def tags_are_apart(rank, size):
    if rank == 0:
        works = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (5, 6, 7)]
        for work in works:
            work.wait()
    elif rank == 1:
        for tag in (7, 5, 6):
            tensor = torch.empty(1)
            dist.recv(tensor, 0, tag=tag)
            assert tensor.item() == tag


@case
def receive_from_anyone(rank, size):
    if rank == 0:
        sources = set()
        for _ in range(size - 1):
            tensor = torch.empty(1)
            source = dist.recv(tensor)
            assert tensor.item() == source
            sources.add(source)
        assert sources == set(range(1, size))
    else:
        dist.send(torch.tensor([float(rank)]), 0)


@case
def ring_of_messages(rank, size):
    got = torch.empty(50000)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, data(rank, 50000), (rank + 1) % size),
        dist.P2POp(dist.irecv, got, (rank - 1) % size),
    ])  # fmt: skip
    for work in works:
        work.wait()
    same(got, data((rank - 1) % size, 50000))


@case
def strided_messages(rank, size):
    if rank == 0:
        dist.send(data(0, (5, 4)).t(), 1)
    elif rank == 1:
        tensor = torch.empty(5, 4).t()
        dist.recv(tensor, 0)
        same(tensor.contiguous(), data(0, (5, 4)).t().contiguous())


@case
def message_of_another_length(rank, size):
    if rank == 0:
        dist.send(torch.ones(2), 1)
        dist.send(torch.ones(5), 1)
    elif rank == 1:
        refuses(dist.DistBackendError, ["2 elements", "3"], lambda: dist.recv(torch.empty(3), 0))
        refuses(dist.DistBackendError, "TRUNCATED", lambda: dist.recv(torch.empty(3), 0))
    dist.barrier()


# ------------------------------------------------------------------ groups


@case
def sub_groups(rank, size):
    groups = [([0, 1], dist.new_group([0, 1])), ([size - 1], dist.new_group([size - 1])),
              (list(range(size)), dist.new_group(list(range(size))))]  # fmt: skip
    for ranks, group in groups:
        if rank in ranks:
            tensor = data(rank, 21)
            dist.all_reduce(tensor, group=group)
            same(tensor, reduced([data(r, 21) for r in ranks], ReduceOp.SUM))
            assert dist.get_world_size(group) == len(ranks)
            dist.broadcast(tensor, ranks[-1], group=group)
            dist.destroy_process_group(group)


@case
def sub_group_in_another_order(rank, size):
    ranks = list(reversed(range(size)))
    group = dist.new_group(ranks, sort_ranks=False)
    assert dist.get_rank(group) == size - 1 - rank
    flat = torch.empty(size)
    dist.all_gather_into_tensor(flat, torch.tensor([float(rank)]), group=group)
    assert flat.tolist() == [float(r) for r in ranks]
    dist.destroy_process_group(group)


@case
def members_only_creation(rank, size):
    if rank < 2:
        group = dist.new_group([0, 1], use_local_synchronization=True)
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        assert (tensor == 2).all()


@case
def split(rank, size):
    world = dist.distributed_c10d._get_default_group()
    half = [r for r in range(size) if r % 2 == rank % 2]
    group = world.split_group(half, timeout=timedelta(seconds=20), group_name=f"half{rank % 2}")
    tensor = data(rank, 8)
    group.allreduce([tensor]).wait()
    same(tensor, reduced([data(r, 8) for r in half], ReduceOp.SUM))
    group.shutdown()


@case
def many_groups_use_no_more_descriptors(rank, size):
    before = len(os.listdir("/proc/self/fd"))
    groups = [dist.new_group(list(range(size))) for _ in range(20)]
    for group in groups:
        dist.all_reduce(torch.ones(1), group=group)
    assert len(os.listdir("/proc/self/fd")) <= before
    for group in groups:
        dist.destroy_process_group(group)


# ---------------------------------------------------------------- training


def one_step(group, hook=None, state=None, bucket_mb=0.01):
    """A model's parameters after two steps of training on this rank's data."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
    model.register_buffer("flags", torch.tensor([dist.get_rank() == 0]))
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=bucket_mb)
    if hook is not None:
        ddp.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        ddp(data(dist.get_rank(), (8, 10), seed=step)).square().mean().backward()
        optimizer.step()
    assert model.flags.item()  # the buffer of rank 0
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@case
def ddp_learns_what_gloo_does(rank, size):
    got = one_step(None)
    if dist.get_debug_level() != dist.DebugLevel.DETAIL:  # under which torch 2.13's DDP crashes over Gloo
        wanted = one_step(dist.new_group(backend="gloo"))
        if size == 2:
            same(got, wanted)  # a sum of two has but one order
        torch.testing.assert_close(got, wanted)
    same(got, one_step(None))


@case
def ddp_hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    torch.testing.assert_close(one_step(None, default_hooks.fp16_compress_hook), one_step(None), rtol=1e-2, atol=1e-3)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.1)  # fmt: skip
    # One bucket: its continuations start all-reduces of their own, in an order that must be everywhere the same.
    assert torch.isfinite(one_step(None, powerSGD_hook.powerSGD_hook, state, bucket_mb=25)).all()


@case
def fsdp_learns_what_ddp_does(rank, size):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
    fully_shard(model, mesh=DeviceMesh.from_group(dist.group.WORLD, "cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(data(rank, (8, 10), seed=step)).square().mean().backward()
        optimizer.step()
    got = torch.cat([parameter.full_tensor().detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(got, one_step(None))


# --------------------------------------------------------------- bad input


@case
def refused_before_anything_is_sent(rank, size):
    ones = torch.ones(3)
    refuses(ValueError, ["BXOR", "SUM"], lambda: dist.all_reduce(ones.clone(), ReduceOp.BXOR))
    refuses(ValueError, ["bool", "AVG"], lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), ReduceOp.AVG))
    refuses(ValueError, "float8_e8m0fnu", lambda: dist.all_reduce(ones.to(torch.float8_e8m0fnu)))
    refuses(ValueError, "share memory", lambda: dist.all_reduce(torch.ones(1).expand(3)))
    refuses(ValueError, "share memory", lambda: dist.all_gather([torch.ones(1).expand(3)] * size, ones))
    refuses(ValueError, "list of", lambda: dist.all_gather([torch.ones(3)], ones) if size > 1 else None)
    refuses(ValueError, "elements", lambda: dist.all_gather_into_tensor(torch.empty(size * 3 + 1), ones))
    refuses(ValueError, "elements", lambda: dist.reduce_scatter_tensor(torch.empty(1), torch.ones(size * 3)))
    refuses(ValueError, "evenly", lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)))
    refuses(ValueError, "sum", lambda: dist.all_to_all_single(ones, ones, [1] * size, [9] * size))
    refuses(ValueError, "tags", lambda: dist.send(ones, (rank + 1) % size, tag=2**31 - 1))
    refuses(ValueError, "tags", lambda: dist.send(ones, (rank + 1) % size, tag=-1))
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = size, 0
    if dist.get_debug_level() != dist.DebugLevel.DETAIL:  # which compares calls first
        refuses(ValueError, "root", lambda: backend.broadcast([ones], options))
        refuses(ValueError, "one tensor", lambda: backend.allreduce([ones, ones]))
        refuses(ValueError, "itself", lambda: backend.send([ones], rank, 0))
        refuses(ValueError, "ranks 0 to", lambda: backend.send([ones], size, 0))
        refuses(ValueError, "itself", lambda: backend.recv([ones], rank, 0))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)  # and the group goes on
    assert (tensor == size).all()


@case
def calls_that_differ(rank, size):
    tensor = torch.ones(4 + rank % 2)
    message = refuses(Exception, [], lambda: dist.all_reduce(tensor))
    if dist.get_debug_level() != dist.DebugLevel.DETAIL:
        assert "MISMATCH" in message and "4" in message, message
    assert (tensor == 1).all()
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


@case
def a_wait_hears_signals(rank, size):
    """What a signal's handler raises, as Ctrl-C's does, ends the wait at once; the operation goes on."""

    class Rung(Exception):
        pass

    def ring(*_):
        raise Rung("ring")

    blocking, started = torch.ones(1000), torch.ones(1000)
    if rank == 0:
        before = signal.signal(signal.SIGALRM, ring)
        work = dist.all_reduce(started, async_op=True)
        for call in [work.wait, lambda: dist.all_reduce(blocking)]:
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            refuses(Rung, "ring", call)
            assert time.monotonic() - began < 1.5
        signal.signal(signal.SIGALRM, before)
    else:
        time.sleep(2)
        dist.all_reduce(started)
        dist.all_reduce(blocking)
    dist.barrier()
    assert started.eq(size).all() and blocking.eq(size).all()


@case
def a_wait_that_times_out(rank, size):
    if rank == 0:
        tensor = torch.empty(1)
        work = dist.irecv(tensor, 1)
        began = time.monotonic()
        refuses(dist.DistBackendError, "Timed out", lambda: work.wait(timedelta(milliseconds=100)))
        assert 0.09 < time.monotonic() - began < 2
        dist.barrier()
        work.wait()
        assert tensor.item() == 7
    else:
        dist.barrier()
        if rank == 1:
            dist.send(torch.tensor([7.0]), 0)


@case
def a_rank_that_never_comes(rank, size):
    group = dist.new_group(list(range(size)), timeout=timedelta(milliseconds=300))
    if rank == 0:
        message = refuses(dist.DistBackendError, ["Timed out", "rank"], lambda: dist.all_reduce(torch.ones(1), group=group))
        assert "1" in message
        refuses(dist.DistBackendError, "", lambda: dist.all_reduce(torch.ones(1), group=group))
    dist.barrier()  # other groups go on
    dist.destroy_process_group(group)
    refuses((ValueError, dist.DistBackendError), "", lambda: dist.all_reduce(torch.ones(1), group=group))


@case
def abort_frees_a_waiter(rank, size):
    group = dist.new_group(list(range(size)))
    if rank == 0:
        threading.Timer(0.1, group.abort).start()
        began = time.monotonic()
        refuses(dist.DistBackendError, "ABORTED", lambda: dist.all_reduce(torch.ones(1), group=group))
        assert time.monotonic() - began < 2
    dist.barrier()


@case
def a_forked_child_is_refused(rank, size):
    reader, writer = os.pipe()
    parents = dist.irecv(torch.empty(1), 1 - rank) if rank < 2 else None
    child = os.fork()
    if child == 0:
        for call in (lambda: dist.all_reduce(torch.ones(1)), lambda: (parents or dist.barrier(async_op=True)).wait()):
            try:
                call()
                os.write(writer, b"no error")
            except Exception as error:
                os.write(writer, type(error).__name__.encode() + b" ")
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"DistBackendError DistBackendError "
    os.close(reader)
    if rank < 2:
        dist.send(torch.ones(1), 1 - rank)
        parents.wait()
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


@case
def operations_are_profiled(rank, size):
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(torch.ones(3))
    assert any(event.name == "plait:all_reduce" for event in profile.function_events)
