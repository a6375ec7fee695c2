"""Cases of all forms that c10d has of its calls, and of works in all their ways."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from cases import case, data, every, reduced, refuses, same
from torch.distributed import ReduceOp

import plait


def backend():
    """The group's own object, below torch's front end."""
    found = dist.group.WORLD._get_backend(torch.device("cpu"))
    return getattr(found, "wrapped_pg", found)


# -------------------------------------------------------------- collectives


@case
def coalesced_forms(rank, size):
    group = backend()
    tensors = [data(rank, 5), data(rank, (2, 3), seed=1).t(), data(rank, 4, torch.int32, seed=2)]
    group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).wait()
    same(tensors[0], sum(every(size, 5)))
    same(tensors[1].contiguous(), sum(every(size, (2, 3), seed=1)).t().contiguous())
    same(tensors[2], sum(every(size, 4, torch.int32, seed=2)).to(torch.int32))
    outputs, world = [torch.empty(size * 3), torch.empty(size, 2)], dist.group.WORLD
    world.allgather_into_tensor_coalesced(outputs, [data(rank, 3), data(rank, 2, seed=1)]).wait()
    same(outputs[0], torch.cat(every(size, 3)))
    same(outputs[1], torch.stack(every(size, 2, seed=1)))
    outputs = [torch.empty(2), torch.empty(3)]
    world.reduce_scatter_tensor_coalesced(outputs, [data(rank, size * 2), data(rank, size * 3, seed=1)]).wait()
    same(outputs[1], sum(every(size, size * 3, seed=1))[rank * 3 : rank * 3 + 3])
    lists = [[torch.empty(2), torch.empty(5)] for _ in range(size)]
    group.allgather_coalesced(lists, [data(rank, 2), data(rank, 5, seed=1)]).wait()
    for r in range(size):
        same(lists[r][0], data(r, 2))
        same(lists[r][1], data(r, 5, seed=1))
    refuses(ValueError, "lists of", lambda: group.allgather_coalesced([[torch.empty(2)]] * size, []))
    refuses(ValueError, "outputs", lambda: world.allgather_into_tensor_coalesced([], [data(rank, 3)]))


@case
def uneven_forms(rank, size):
    for op in (ReduceOp.SUM, ReduceOp.AVG):
        output = torch.empty(2 * rank)
        dist.reduce_scatter(output, [data(rank, 2 * place, seed=place) for place in range(size)], op)
        torch.testing.assert_close(output, reduced(every(size, 2 * rank, seed=rank), op) if rank else output)
    for dtype in (torch.bool, torch.complex128, torch.uint16):
        outputs = [torch.empty(r * 2 + 1, 3, dtype=dtype) for r in range(size)]
        dist.all_gather(outputs, data(rank, (rank * 2 + 1, 3), dtype))
        for r in range(size):
            assert torch.equal(outputs[r], data(r, (r * 2 + 1, 3), dtype))
    sends = [2] * size if rank else [2] + [1] * (size - 2) + [size]  # rank 0 sends what nobody expects
    if size > 2 or rank:
        refuses(dist.DistBackendError, "MISMATCH", lambda: dist.all_to_all_single(
            torch.empty(2 * size), torch.ones(2 * size), [2] * size, sends))  # fmt: skip
    else:
        refuses(dist.DistBackendError, "MISMATCH", lambda: dist.all_to_all_single(
            torch.empty(4), torch.ones(5), [2, 2], [2, 3]))  # fmt: skip
    own = [2 if r == rank else 1 for r in range(size)]
    refuses(ValueError, "for this rank itself",
            lambda: dist.all_to_all_single(torch.empty(size + 1), torch.ones(size), own, [1] * size))  # fmt: skip


@case
def sparse_sums(rank, size):
    for dtype, op in ((torch.float32, ReduceOp.SUM), (torch.int64, ReduceOp.SUM), (torch.float64, ReduceOp.AVG)):
        def entries(r):
            indices = torch.tensor([[0, r + 1, 3], [1, 0, 2]])[:, : 3 if r else 0]  # rank 0 has none
            return torch.sparse_coo_tensor(indices, data(r, (indices.size(1), 2), dtype), (size + 4, 3, 2))

        got = entries(rank)
        dist.all_reduce(got, op)
        wanted = sum(entries(r).to_dense().double() for r in range(size)) / (size if op == ReduceOp.AVG else 1)
        torch.testing.assert_close(got.to_dense(), wanted.to(dtype))
        work = dist.all_reduce(again := entries(rank), op, async_op=True)
        work.wait()
        torch.testing.assert_close(again.to_dense(), wanted.to(dtype))
    refuses(ValueError, "SUM and AVG", lambda: dist.all_reduce(entries(rank), ReduceOp.MAX))
    refuses(ValueError, "COO", lambda: backend().allreduce([torch.eye(3).to_sparse_csr()]))
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return  # which compares calls first
    refuses(dist.DistBackendError, ["rank 0", "[3, 3]"], lambda: dist.all_reduce(torch.eye(3 + rank).to_sparse()))
    same_after = torch.ones(2)
    dist.all_reduce(same_after)
    assert (same_after == size).all()


@case
def gathered_in_one(rank, size):
    group = backend()
    if not hasattr(group, "gather_single"):
        return  # torch has it from 2.14 or 2.15 on
    output = torch.empty(size * 3) if rank == 0 else torch.empty(0)
    group.gather_single(output, data(rank, 3), dist.GatherOptions()).wait()
    if rank == 0:
        same(output, torch.cat(every(size, 3)))


# ------------------------------------------------------- batches, messages


@case
def batches_start_together(rank, size):
    """Sends and receives in any order, to several peers, of several sizes, beside a collective."""
    assert backend().supports_coalescing
    peers = [r for r in range(size) if r != rank]
    sent = {peer: data(rank, 40000 * (peer == 0) + 5, seed=peer) for peer in peers}
    taken = {peer: torch.empty(40000 * (rank == 0) + 5) for peer in peers}
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent[peer], peer) for peer in peers] +
                                   [dist.P2POp(dist.irecv, taken[peer], peer) for peer in peers])  # fmt: skip
    for work in works:
        work.wait()
    for peer in peers:
        same(taken[peer], data(peer, 40000 * (rank == 0) + 5, seed=rank))
    group = backend()
    group._start_coalescing()
    first, second = data(rank, 5), torch.full((3,), float(rank))
    early = group.allreduce([first], dist.AllreduceOptions())
    group.broadcast([second], dist.BroadcastOptions())
    refuses(RuntimeError, "batch", early.wait)
    work = group._end_coalescing()
    work.wait()
    same(first, sum(every(size, 5)))
    same(second, torch.zeros(3))
    assert len(work.result()) == 2
    group._start_coalescing()
    assert group._end_coalescing().wait()  # an empty one
    refuses(RuntimeError, "without startCoalescing", group._end_coalescing)


@case
def a_batch_with_a_refused_call_starts_nothing(rank, size):
    group = backend()
    group._start_coalescing()
    tensor = torch.ones(3)
    group.allreduce([tensor], dist.AllreduceOptions())
    refuses(ValueError, "itself", lambda: group.send([tensor], rank, 0))
    group._start_coalescing()  # what an exception has left is dropped, with a warning
    group.allreduce([tensor], dist.AllreduceOptions())
    group._end_coalescing().wait()
    assert (tensor == size).all()


@case
def sources_of_messages(rank, size):
    if rank == 0:
        for _ in range(size - 1):
            tensor = torch.empty(1)
            work = dist.irecv(tensor, tag=9)
            work.wait()
            assert work._source_rank() == tensor.item()
    else:
        dist.isend(torch.tensor([float(rank)]), 0, tag=9).wait()


# ----------------------------------------------------------------- barriers


@case
def monitored_barriers(rank, size):
    group = backend()
    for again in range(3):
        group.monitored_barrier(timedelta(seconds=30))
    if rank == size - 1:
        time.sleep(1)
    began = time.monotonic()
    message = refuses(dist.DistBackendError, ["Timed out", f"Rank {size - 1} failed to pass monitoredBarrier"],
                      lambda: group.monitored_barrier(timedelta(seconds=0.2), True))  # fmt: skip
    assert time.monotonic() - began < 1.5, message  # whoever is late hears of it at once
    group.monitored_barrier(timedelta(seconds=30), True)
    if size > 2:
        if rank > 0:
            time.sleep(1)
        names = ["Ranks 1, 2"] if rank == 0 else ["Rank"]
        refuses(dist.DistBackendError, names, lambda: group.monitored_barrier(timedelta(seconds=0.2), True))
        if rank > 0:
            time.sleep(1)
        refuses(dist.DistBackendError, ["Rank 1 failed"], lambda: group.monitored_barrier(timedelta(seconds=0.2)))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert (tensor == size).all()


# ------------------------------------------------------------ groups, works


@case
def merged_groups(rank, size):
    """Groups that know nothing of each other meet in a store."""
    store = dist.distributed_c10d._get_default_store()
    group = dist.group.WORLD.merge_remote_group(dist.PrefixStore("merged", store), size, timedelta(seconds=30))
    tensor = torch.ones(3)
    group.allreduce([tensor]).wait()
    assert (tensor == size).all()
    group.shutdown()


@case
def facts_of_works(rank, size):
    group = backend()
    before = group._get_sequence_number_for_group()
    work = dist.all_reduce(torch.ones(1000), async_op=True)
    code = work.get_future_result()
    work.wait()
    assert work.is_success() and work.exception() is None
    assert 0 <= work._get_duration() < 60000
    assert work._get_op_type() == 1  # OpType::ALLREDUCE
    assert code.wait() == 0
    assert group._get_sequence_number_for_group() == before + 1
    assert len(work.result()) == 1
    assert group.options._timeout > timedelta(0) and group.options.backend == "plait"
    group.set_timeout(timedelta(seconds=25))
    assert group.options._timeout == timedelta(seconds=25)


@case
def faults_have_attributes(rank, size):
    """What a program can ask of the exception, and the message says to people."""
    group = dist.new_group(list(range(size)))
    try:
        dist.all_reduce(torch.ones(4 + rank), group=group)
        raise AssertionError("ranks that differ were not noticed")
    except dist.DistBackendError as error:
        assert error.status == "PLAIT_MISMATCH" and error.kind == "made another call"
        assert 0 <= error.culprit < size and error.operation == "all-reduce"
        assert error.pid > 0 and error.host and error.evidence and "f32" in error.call
    work = dist.all_reduce(torch.ones(4 + rank), group=group, async_op=True)
    future = work.get_future()
    for wait in (work.wait, future.wait):
        try:
            wait()
            raise AssertionError("ranks that differ were not noticed")
        except dist.DistBackendError as error:
            assert error.status == "PLAIT_MISMATCH" and error.culprit >= 0
    assert not work.is_success()


@case
def other_calls_on_other_ranks(rank, size):
    """Operations, dtypes, roots: each fails on all ranks with both calls, and the group goes on."""
    tensor = torch.ones(6)
    differing = [
        lambda: dist.all_reduce(tensor) if rank else dist.broadcast(tensor, 0),
        lambda: dist.all_reduce(tensor.to(torch.int32) if rank else tensor),
        lambda: dist.all_reduce(tensor, ReduceOp.MAX if rank else ReduceOp.SUM),
        lambda: dist.broadcast(tensor, 1 if rank else 0),
        lambda: dist.all_gather([torch.empty(6)] * size, tensor) if rank else dist.barrier(),
        lambda: dist.all_gather([torch.empty(6 + r * (rank > 0)) for r in range(size)], torch.empty(6 + rank)),
    ]
    for call in differing:
        message = refuses(dist.DistBackendError, "MISMATCH", call)
        assert message.count(" of ") >= 2, message
        assert (tensor == 1).all()
    dist.all_reduce(tensor)
    assert (tensor == size).all()


@case
def completion_hooks(rank, size):
    """Called once for each work that succeeds, in any order, before wait_for_pending_works() returns."""
    group = dist.new_group(list(range(size)))
    seen = []
    group._register_on_completion_hook(lambda info: seen.append((info.op_type, info.seq, info.active_duration)))
    refuses(RuntimeError, "one completion hook", lambda: group._register_on_completion_hook(print))
    dist.all_reduce(torch.ones(3), group=group)
    dist.broadcast(torch.ones(3), 0, group=group, async_op=True).wait()
    refuses(dist.DistBackendError, "", lambda: dist.all_reduce(torch.ones(3 + rank), group=group))
    group._wait_for_pending_works()
    kinds = sorted(str(kind) for kind, _, _ in seen)
    assert len(seen) == 2 and "ALLREDUCE" in kinds[0] and "BROADCAST" in kinds[1], seen
    assert all(duration >= timedelta(0) for _, _, duration in seen)


@case
def memory_that_peers_read(rank, size):
    group = backend()
    assert group.supports_tensor_alloc(torch.device("cpu"))
    tensor = group.allocate_tensor(3000, dtype=torch.float32, device=torch.device("cpu"))
    assert tensor.shape == (3000,) and (tensor == 0).all()
    tensor.fill_(rank)
    dist.all_reduce(tensor)
    assert (tensor == size * (size - 1) / 2).all()
    assert group.allocate_tensor(0, dtype=torch.int64, device=torch.device("cpu")).numel() == 0
    views = [group.allocate_tensor(5, dtype=torch.bfloat16, device=torch.device("cpu"))[1:] for _ in range(20)]
    del tensor
    for view in views:
        dist.broadcast(view, 0)


@case
def traces_name_collectives(rank, size):
    """record_param_comms, as tools for traces read it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3))
        dist.all_gather_into_tensor(torch.empty(size * 2), torch.ones(2))
    names = [event.name for event in profile.events()]
    assert names.count("record_param_comms") >= 2, names
    assert "plait:all_reduce" in names and "plait:all_gather" in names


@case
def versions_and_names(rank, size):
    assert plait.library_version().count(".") == 2
    assert backend().name() == "plait" and dist.get_backend() == "plait"
