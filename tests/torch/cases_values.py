"""Cases of values: every dtype, reduction, layout and place in memory comes out right, or is refused before."""

import torch
import torch.distributed as dist
from cases import case, data, every, refuses, same
from torch.distributed import ReduceOp

FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex64, torch.complex128]
BYTES = [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.complex32]  # moved only


def numbers(rank, dtype, count=21):
    """Elements of `dtype`, of any bits that are no NaN."""
    if dtype in COMPLEX + [torch.complex32]:
        part = torch.float16 if dtype == torch.complex32 else torch.float32
        return torch.complex(data(rank, count, part), data(rank, count, part, seed=1)).to(dtype)
    return data(rank, count).to(torch.int64).to(dtype) if dtype in SIGNED + UNSIGNED else data(rank, count).to(dtype)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def alike(got, wanted):
    assert got.dtype == wanted.dtype and torch.equal(bits(got), bits(wanted)), (got, wanted)


def fold(tensors, function):
    result = tensors[0]
    for tensor in tensors[1:]:
        result = function(result, tensor)
    return result


# ------------------------------------------------------------------ dtypes


@case
def all_dtypes_move(rank, size):
    for dtype in FLOATS + SIGNED + UNSIGNED + COMPLEX + BYTES + [torch.bool]:
        inputs = [numbers(r, dtype) for r in range(size)]
        got = inputs[rank].clone()
        dist.broadcast(got, size - 1)
        alike(got, inputs[-1])
        outputs = [torch.empty_like(got) for _ in range(size)]
        dist.all_gather(outputs, inputs[rank])
        for output, wanted in zip(outputs, inputs):
            alike(output, wanted)
        if rank == 0:
            dist.send(inputs[0], 1)
        elif rank == 1:
            dist.recv(got, 0)
            alike(got, inputs[0])


@case
def all_dtypes_reduce(rank, size):
    """SUM of small whole numbers is exact in every type, in all forms of reductions."""
    for dtype in FLOATS + SIGNED + UNSIGNED + COMPLEX:
        blocks = [[numbers(r + 10 * place, dtype, 3) for place in range(size)] for r in range(size)]
        wide = torch.complex128 if dtype.is_complex else torch.float64
        wanted = [sum(blocks[r][place].to(wide) for r in range(size)).to(dtype) for place in range(size)]
        got = torch.cat(blocks[rank])
        dist.all_reduce(got)
        alike(got, torch.cat(wanted))
        part = torch.empty_like(blocks[rank][0])
        dist.reduce_scatter(part, blocks[rank])
        alike(part, wanted[rank])
        flat = torch.cat(blocks[rank])
        if not dtype.is_complex:  # torch 2.13's front end views only some calls as real numbers
            dist.reduce_scatter_tensor(part, flat)
            alike(part, wanted[rank])
        root = torch.cat(blocks[rank])
        dist.reduce(root, 0)
        if rank == 0:
            alike(root, torch.cat(wanted))


@case
def bitwise_reductions(rank, size):
    for dtype in SIGNED + [torch.uint8]:
        inputs = [numbers(r, dtype) for r in range(size)]
        for op, function in ((ReduceOp.BAND, torch.bitwise_and), (ReduceOp.BOR, torch.bitwise_or),
                             (ReduceOp.BXOR, torch.bitwise_xor)):  # fmt: skip
            got = inputs[rank].clone()
            dist.all_reduce(got, op)
            alike(got, fold(inputs, function))


@case
def all_operations_of_bools(rank, size):
    inputs = [torch.tensor([True, False, r == 0, r != 0]) for r in range(size)]
    both = {torch.logical_or: (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BOR), torch.logical_xor: (ReduceOp.BXOR,),
            torch.logical_and: (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.BAND)}  # fmt: skip
    for function, operations in both.items():
        for op in operations:
            got = inputs[rank].clone()
            dist.all_reduce(got, op)
            alike(got, fold(inputs, function))


@case
def products_of_complex_numbers(rank, size):
    """By the backend: torch's front end takes only sums of complex numbers."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    inputs = [numbers(r, torch.complex64, 5) for r in range(size)]
    options = dist.AllreduceOptions()
    options.reduceOp = ReduceOp.PRODUCT
    got = inputs[rank].clone()
    backend.allreduce([got], options).wait()
    torch.testing.assert_close(got, fold(inputs, torch.mul))
    options.reduceOp = ReduceOp.MAX
    refuses(ValueError, ["MAX", "complex64", "SUM"], lambda: backend.allreduce([got], options))


@case
def premultiplied_sums(rank, size):
    """A factor of each rank's own, as a number and as a tensor."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        inputs = every(size, 30, dtype)
        factors = [0.5 + r for r in range(size)]
        wanted = sum(factor * tensor.double() for factor, tensor in zip(factors, inputs)).to(dtype)
        for factor in (factors[rank], torch.tensor([factors[rank]])):
            got = inputs[rank].clone()
            dist.all_reduce(got, dist._make_nccl_premul_sum(factor))
            torch.testing.assert_close(got, wanted)
        if 30 % size == 0:
            block = 30 // size
            part = torch.empty(block, dtype=dtype)
            dist.reduce_scatter_tensor(part, inputs[rank], dist._make_nccl_premul_sum(factors[rank]))
            torch.testing.assert_close(part, wanted[rank * block : (rank + 1) * block])
    whole = torch.full((3,), rank + 1)
    dist.all_reduce(whole, dist._make_nccl_premul_sum(2.0))
    same(whole, torch.full((3,), size * (size + 1)))
    refuses(ValueError, ["int64", "whole", "0.5"], lambda: dist.all_reduce(whole, dist._make_nccl_premul_sum(0.5)))
    refuses(ValueError, ["bool", "PREMUL"],
            lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist._make_nccl_premul_sum(2.0)))  # fmt: skip


# ------------------------------------------------- layouts, places in memory


@case
def layouts(rank, size):
    """Channels-last, transposed, every other element, conjugated, expanded: as torch's own elements."""
    image = data(rank, (2, 3, 4, 5)).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    same(image.contiguous(), sum(every(size, (2, 3, 4, 5))))
    assert image.is_contiguous(memory_format=torch.channels_last)
    wide = torch.full((6, 8), -1.0)
    wide[::2, ::2] = data(rank, (3, 4))
    dist.all_reduce(wide[::2, ::2], ReduceOp.MAX)
    same(wide[::2, ::2].contiguous(), fold(every(size, (3, 4)), torch.maximum))
    assert (wide[1::2] == -1).all() and (wide[:, 1::2] == -1).all()
    conjugated = numbers(rank, torch.complex64).conj()
    assert conjugated.is_conj()
    gathered = [torch.empty(21, dtype=torch.complex64) for _ in range(size)]
    dist.gather(conjugated, gathered if rank == 0 else None, 0)
    if rank == 0:
        same(gathered[-1].imag.contiguous(), -data(size - 1, 21, seed=1))
    outputs = [torch.empty(4) for _ in range(size)]
    dist.all_gather(outputs, data(rank, 1).expand(4))
    same(outputs[-1], data(size - 1, 1).expand(4).contiguous())
    scattered = torch.empty(2, 3).t()
    dist.scatter(scattered, [data(r, (3, 2)) for r in range(size)] if rank == 0 else None, 0)
    same(scattered.contiguous(), data(rank, (3, 2)))
    root = data(rank, (4, 3)).t()
    dist.reduce(root, 0)
    if rank == 0:
        same(root.contiguous(), sum(every(size, (4, 3))).t().contiguous())


@case
def inputs_that_overlap_with_outputs(rank, size):
    """In place where torch has it so; any other overlap gives what apart memory would."""
    buffer = torch.zeros(size * 4 + 2)
    buffer[1:5] = data(rank, 4)  # not this rank's place
    dist.all_gather_into_tensor(buffer[: size * 4], buffer[1:5])
    same(buffer[: size * 4], torch.cat(every(size, 4)))
    rows = data(rank, size * 3)
    dist.all_to_all_single(rows, rows)
    same(rows, torch.cat([data(r, size * 3)[rank * 3 : rank * 3 + 3] for r in range(size)]))
    whole = data(rank, size * 3)
    dist.reduce_scatter_tensor(whole[1:4], whole)
    same(whole[1:4], sum(every(size, size * 3))[rank * 3 : rank * 3 + 3])
    lists = list(data(rank, size * 2).split(2))
    dist.reduce_scatter(lists[0], lists)
    same(lists[0], sum(every(size, size * 2))[rank * 2 : rank * 2 + 2])
    parts = list(data(0, size * 2, seed=3).split(2))
    dist.scatter(parts[0], parts if rank == 0 else None, 0)
    same(parts[0], data(0, size * 2, seed=3)[rank * 2 : rank * 2 + 2])


@case
def nothing_and_one(rank, size):
    """0 elements and 0 dimensions in every form."""
    none = torch.empty(0, 3)
    for call in (lambda: dist.all_reduce(none), lambda: dist.broadcast(none, 0), lambda: dist.reduce(none, 0),
                 lambda: dist.all_gather_into_tensor(none, none), lambda: dist.reduce_scatter_tensor(none, none),
                 lambda: dist.all_to_all_single(none, none),
                 lambda: dist.all_to_all([none] * size, [none] * size),
                 lambda: dist.gather(none, [none] * size if rank == 0 else None, 0),
                 lambda: dist.scatter(none, [none] * size if rank == 0 else None, 0)):  # fmt: skip
        call()
    one = torch.tensor(float(rank + 1))
    dist.reduce(one, 0)
    assert rank != 0 or one.item() == size * (size + 1) / 2
    outputs = [torch.tensor(0) for _ in range(size)]
    dist.all_gather(outputs, torch.tensor(rank))
    assert [output.item() for output in outputs] == list(range(size))
    outputs = [torch.empty(0 if r == 0 else 2) for r in range(size)]
    dist.all_gather(outputs, torch.full((0 if rank == 0 else 2,), float(rank)))
    assert outputs[1].tolist() == [1.0, 1.0]
