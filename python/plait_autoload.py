"""Makes the backend "plait" known to torch.distributed, and loads nothing: that is left to the first group.

A module of its own, beside the package, because `import torch` runs hook() in every process of the environment
(entry point "torch.backends"): it must cost nothing where nobody uses plait, and must not fail there either.
PyTorch 2.14 and later ask for register() when the name is first used ("torch.distributed.backends").
"""

import sys


def _create(options, _backend_options):
    """What torch.distributed calls on each member to make a group."""
    import plait

    return plait.create(options)


def register():
    """Registers the backend "plait" for CPU tensors. Again is harmless."""
    from torch.distributed import Backend

    plugin = Backend._plugins.get("PLAIT")
    if plugin is None:
        Backend.register_backend("plait", _create, extended_api=True, devices=["cpu"])
    elif plugin.creator_fn is not _create:
        raise RuntimeError("another package has registered a torch.distributed backend named plait")


def hook():
    """Called at the end of `import torch`, which an exception would stop."""
    try:
        if sys.modules["torch.distributed"].is_available():
            register()
    except Exception:  # `import plait` will say what is wrong
        pass
