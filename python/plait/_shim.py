"""Finds the extension module plait._C that fits the torch in use.

The classes of torch.distributed are laid out differently in each minor version of torch, so a module serves one.
The package carries the one that it was built with. For another torch there may be one in the user's cache, and
PLAIT_BUILD=on has it built and put there, from the sources that the package carries.
"""

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import torch

from ._build import BuildError, build_module, module_name

PACKAGE = Path(__file__).resolve().parent
SOURCE = PACKAGE / "source"


def _minor(version):
    return ".".join(version.split(".")[:2])


def _library(built_for):
    """libplait: an installed one that the package was built with, or the package's own."""
    return Path(built_for.library) if built_for.library else next((PACKAGE / "lib").glob("libplait.so*"))


def _cache(library):
    """Where the module for this torch, this python and these sources is kept."""
    digest = hashlib.sha256(str(library).encode())
    for path in sorted(path for path in SOURCE.rglob("*") if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "plait" / f"torch-{torch.__version__}-{digest.hexdigest()[:16]}" / module_name()


def _build(target, library):
    """Builds the module and puts it at `target`. Ranks that come at the same time wait for the first."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(target.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        print(f"plait: building its module for torch {torch.__version__}, once, in {target.parent}", file=sys.stderr)
        log = target.parent / "build.log"
        with tempfile.TemporaryDirectory(dir=target.parent) as folder, open(log, "w") as output:
            try:
                built = build_module(SOURCE, Path(folder), SOURCE, library, library.parent, output)
            except BuildError as error:
                raise ImportError(
                    f"plait could not be built for torch {torch.__version__}: {error}; all of the output: {log}"
                ) from None
            os.replace(built, target)


def _load_from(path):
    name = f"{__package__}._C"
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def load():
    """The module, or ImportError with what to do."""
    try:
        from . import _built_for
    except ImportError:
        raise ImportError(f"{PACKAGE} has plait's sources and no build of them; pip install ./python makes one") from None
    if _minor(_built_for.torch) == _minor(torch.__version__):
        from . import _C

        return _C
    library = _library(_built_for)
    cached = _cache(library)
    if not cached.exists():
        if os.environ.get("PLAIT_BUILD") != "on":
            raise ImportError(
                f"plait was built for torch {_built_for.torch} and this is torch {torch.__version__}, whose classes are "
                f"laid out differently. Install plait's build for torch {_minor(torch.__version__)} (from its "
                "repository: pip install --force-reinstall --no-deps ./python), or set PLAIT_BUILD=on, which builds "
                "the module on first use; that needs cmake and a C++ compiler, and takes a minute or two"
            )
        _build(cached, library)
    return _load_from(cached)
