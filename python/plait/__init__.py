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
lists may hold tensors of different sizes in all_gather, reduce_scatter and all_to_all.
Types: every dtype can be moved; int8, uint8, int32, uint32, int64, uint64, float16, bfloat16, float32 and
float64 can be reduced with SUM, AVG, PRODUCT, MIN and MAX, and bool with the logical ones. 16-bit floats are
added in float32. The same inputs give the same bits.
Time: ``timeout`` is a ``datetime.timedelta``: of ``init_process_group`` for the start and for each operation, of
``Work.wait`` for that wait alone, after which the operation goes on.
Errors: ``ValueError`` for arguments that can't be, before anything is sent;
``torch.distributed.DistBackendError`` for what went wrong between ranks, naming the rank, its process and
the operation. "Timed out" is in the message when a deadline passed.
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
