"""Builds plait._C against the torch that is installed, and libplait.so with it.

    pip install ./python                        # with the torch of this environment
    pip install --no-build-isolation ./python   # the same without a network

libplait comes from $PLAIT_ROOT, or a prefix in $CMAKE_PREFIX_PATH, if plait is
installed there; else it is built from the repository and put into the package.
"""

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
JOBS = str(len(os.sched_getaffinity(0)))


def find_torch():
    """The torch of the environment that is installed into; pip's build isolation hides it from sys.path."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        pass
    sys.path.extend({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise SystemExit(
            f"plait: building the process group needs PyTorch in this environment ({sys.prefix}) and importing it "
            f"said: {error}. Install it first, with pip install torch or as PyTorch's own site says"
        ) from None


def installed_plait():
    """(include folder, library file) of an installed plait, or None."""
    given = os.environ.get("PLAIT_ROOT")
    prefixes = [given] if given else os.environ.get("CMAKE_PREFIX_PATH", "").replace(";", ":").split(":")
    for prefix in map(Path, filter(None, prefixes)):
        libraries = [*prefix.glob("lib*/libplait.so"), *prefix.glob("lib/*/libplait.so")]
        if (prefix / "include/plait.h").exists() and libraries:
            return prefix / "include", libraries[0]
    if given:
        raise SystemExit(f"plait: PLAIT_ROOT={given} has no include/plait.h with a lib/libplait.so beside it")
    return None


def run(*command):
    print("plait:", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True)


def need_cmake():
    if shutil.which("cmake") is None:
        raise SystemExit("plait: building needs cmake 3.25 or newer: apt-get install cmake, or pip install cmake")


def build_library(folder):
    """Builds libplait.so from the repository; gives (include folder, library file)."""
    repository = HERE.parent
    if not (repository / "include/plait.h").exists():
        raise SystemExit(
            "plait: these sources are not in plait's repository, so libplait can't be built with them; "
            "install plait first and set PLAIT_ROOT to its prefix"
        )
    run("cmake", "-S", repository, "-B", folder, "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", folder, "--target", "plait", "--parallel", JOBS)
    return repository / "include", next(folder.rglob("libplait.so"))


class Build(build_ext):
    def build_extension(self, extension):
        torch = find_torch()
        from torch.utils import cpp_extension

        need_cmake()
        temporary = Path(self.build_temp).resolve()
        shim = temporary / f"shim-torch-{torch.__version__}"  # another torch's objects look up to date
        target = Path(self.get_ext_fullpath(extension.name)).resolve()
        found = installed_plait()
        include, library = found or build_library(temporary / "libplait")
        run("cmake", "-S", HERE, "-B", shim, "-DCMAKE_BUILD_TYPE=Release",
            f"-DPLAIT_INCLUDE={include}",
            f"-DPLAIT_LIBRARY={library}",
            f"-DPYTHON_INCLUDE={sysconfig.get_path('include')}",
            f"-DTORCH_INCLUDES={';'.join(cpp_extension.include_paths())}",
            f"-DTORCH_LIBRARIES={';'.join(cpp_extension.library_paths())}",
            f"-DTORCH_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            f"-DMODULE_SUFFIX={sysconfig.get_config_var('EXT_SUFFIX')}",
            f"-DMODULE_RPATH={library.parent if found else '$ORIGIN/lib'}")  # fmt: skip
        run("cmake", "--build", shim, "--parallel", JOBS)

        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(shim / target.name, target)
        (target.parent / "_built_for.py").write_text(f'torch = "{torch.__version__}"\n')
        shutil.rmtree(target.parent / "lib", ignore_errors=True)
        if not found:
            self.bundle(library, target.parent / "lib")

    @staticmethod
    def bundle(library, folder):
        """Copies the library under the one name that the loader asks for (libplait.so.0)."""
        real = library.resolve()
        links = [path.name for path in real.parent.glob("libplait.so.*") if path.name.count(".") == 2]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(real, folder / (links[0] if links else library.name))


# The version of torch is in the file name of no wheel, so the module is never one to pass on.
setup(ext_modules=[Extension("plait._C", sources=[])], cmdclass={"build_ext": Build}, zip_safe=False)
