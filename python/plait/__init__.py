"""PyTorch over Plait.

Importing this package registers the ``torch.distributed`` backend ``"plait"`` for CPU tensors::

    import torch.distributed as dist
    import plait

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
Threads: calls from several threads are taken one after another; works may be waited for on any thread.
"""

import atexit

try:
    import torch
    import torch.distributed as dist
except ImportError as error:
    raise ImportError(f"plait needs PyTorch with torch.distributed, and importing it said: {error}") from error

from . import _built_for

__all__ = ["ProcessGroupPlait", "library_version", "register"]
__version__ = "0.1.0"


def _minor(version):
    return version.split(".")[:2]


if _minor(_built_for.torch) != _minor(torch.__version__):
    raise ImportError(
        f"plait was built for torch {_built_for.torch} and this is torch {torch.__version__}, whose classes are laid "
        "out differently; build it again: pip install --force-reinstall --no-deps ./python"
    )
if not dist.is_available():
    raise ImportError(f"plait needs torch.distributed, which this torch ({torch.__version__}) was built without")

from ._C import ProcessGroupPlait, end_process, library_version  # noqa: E402


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


def _create(options, _backend_options):
    """What torch.distributed calls on each member to make a group."""
    ranks = list(options.global_ranks_in_group)
    parent = _default_group() if ranks else None
    if parent is not None:
        return parent.group(ranks, options.timeout, options.group_id)
    return ProcessGroupPlait.create(
        options.store, options.group_rank, options.group_size, options.timeout, options.group_id
    )


def register():
    """Registers the backend "plait" for CPU tensors; once is enough, and importing plait does it."""
    plugin = dist.Backend._plugins.get("PLAIT")
    if plugin is not None and plugin.creator_fn is not _create:
        raise RuntimeError("another package has registered a torch.distributed backend named plait")
    if plugin is None:
        dist.Backend.register_backend("plait", _create, extended_api=True, devices=["cpu"])


register()
atexit.register(end_process)
