"""PyTorch over Plait.

``"plait"`` is a ``torch.distributed`` backend for CPU tensors. Where this package is installed, torch knows it
without an import (unless ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``); ``import plait`` is harmless, and says at once
what is wrong if it can't work::

    import torch.distributed as dist

    dist.init_process_group("plait")                    # rank and size as torchrun sets them
    dist.init_process_group("cpu:plait,cuda:nccl")      # beside another backend for GPUs

Everything of ``torch.distributed`` then works as usual: collectives in their list and flat forms, point to
point, ``new_group`` (which opens no connection when the default group is plait's), DistributedDataParallel.

Shapes: as torch documents them; tensors of any strides, of 0 dimensions or with 0 elements are fine, and
lists may hold tensors of different sizes in all_gather, reduce_scatter and all_to_all. Outputs whose elements share
memory, as expand() gives, are refused. Inputs may overlap with outputs. With split sizes on one rank, all_to_all_single
needs them on all ranks.
Types: every dtype can be moved. All of bool, int8 to int64, uint8 to uint64, float8_e4m3fn, float8_e5m2, float16,
bfloat16, float32, float64, complex64 and complex128 can be reduced, with SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR
and PREMUL_SUM (a number or a tensor of one element) where they mean something; an error lists what does. AVG of
integers truncates. 8- and 16-bit floats are added in float32. The same inputs give the same bits. Sparse COO tensors
can be all-reduced with SUM and AVG.
Batches: batch_isend_irecv and the coalesced calls start together; one work stands for all of them.
Time: ``timeout`` is a ``datetime.timedelta``: of ``init_process_group`` for the start and for each operation, of
``Work.wait`` for that wait alone, after which the operation goes on. Durations of works are milliseconds.
Memory: ``backend.allocate_tensor(count, dtype=..., device=...)`` gives a tensor of `count` elements that the ranks of a
host read in place, which takes a half to a fifth of the time. It keeps the group's world until it is gone.
Errors: ``ValueError`` for arguments that can't be, before anything is sent;
``torch.distributed.DistBackendError`` for what went wrong between ranks, naming the rank, its process and
the operation. "Timed out" is in the message when a deadline passed. The exception has attributes: ``status``
("PLAIT_PEER_LOST"), ``kind`` of the fault ("died", "" if there is none), ``culprit`` (rank in the world, -1 if
unknown), ``pid`` and ``host`` of it, ``operation`` ("all-reduce") and ``operation_number``, ``call`` (with count and
type, as this rank made it), ``evidence`` and ``communicator``. Where torch itself turns the exception of a thread into
another, as in backward(), the message is all that is left.
torch: a build serves one minor version of torch. Under another one the import says which build is needed, or
makes it on first use where ``PLAIT_BUILD=on`` is set.
Threads: calls from several threads are taken one after another; works may be waited for on any thread.
"""

import atexit

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError(f"plait needs PyTorch with torch.distributed, and importing it said: {error}") from error
if not dist.is_available():
    raise ImportError(f"plait needs torch.distributed, which this torch ({torch.__version__}) was built without")

from plait_autoload import register  # noqa: E402

from . import _shim  # noqa: E402

__all__ = ["ProcessGroupPlait", "library_version", "register"]
__version__ = "0.1.0"

_C = _shim.load()
ProcessGroupPlait, library_version = _C.ProcessGroupPlait, _C.library_version


def _default_group():
    """The default group's plait backend, or None."""
    if not dist.is_initialized():
        return None
    try:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    except RuntimeError:  # none for CPU tensors
        return None
    backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps it
    return backend if isinstance(backend, ProcessGroupPlait) else None


def create(options):
    """A group as c10d's `options` describe it: what the backend's registration calls, on each member.

    A group of ranks of the default group costs no connection if that is plait's. Any other finds its ranks through
    ``options.store``.
    """
    ranks = list(options.global_ranks_in_group)
    parent = _default_group() if ranks else None
    if parent is not None:
        return parent.group(ranks, options.timeout, options.group_id)
    return ProcessGroupPlait.create(
        options.store, options.group_rank, options.group_size, options.timeout, options.group_id
    )


register()
atexit.register(_C.end_process)
