"""Builds plait._C against the torch that is installed, and libplait.so with it.

    pip install ./python                        # with the torch of this environment
    pip install --no-build-isolation ./python   # the same without a network
    pip wheel --no-deps ./python                # one to pass on: plait-0.1.0+torch2.13-cp311-cp311-linux_x86_64.whl

libplait comes from $PLAIT_ROOT, or a prefix in $CMAKE_PREFIX_PATH, if plait is
installed there; else it is built from the repository and put into the package,
with the libsodium that it needs.
"""

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
JOBS = str(len(os.sched_getaffinity(0)))
SITES = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]  # pip's build isolation hides them

sys.path.insert(0, str(HERE / "plait"))  # not the package: importing that needs what is to be built
from _build import BuildError, build_module  # noqa: E402


def find_torch():
    """The torch of the environment that is installed into."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        pass
    sys.path.extend(SITES)
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise SystemExit(
            f"plait: building the process group needs PyTorch in this environment ({sys.prefix}) and importing it "
            f"said: {error}. Install it first, with pip install torch or as PyTorch's own site says"
        ) from None


def version_tag():
    """"+torch2.13" for the version, so that a wheel's name says which torch it serves; "" where there is none."""
    found = next(iter(importlib.metadata.distributions(name="torch", path=sys.path + SITES)), None)
    return "+torch" + ".".join(found.version.split(".")[:2]) if found is not None else ""


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


def build_library(folder):
    """Builds libplait.so from the repository; gives (include folder, library file)."""
    repository = HERE.parent
    if not (repository / "include/plait.h").exists():
        raise SystemExit(
            "plait: these sources are not in plait's repository, so libplait can't be built with them; "
            "install plait first and set PLAIT_ROOT to its prefix"
        )
    run("cmake", "-S", repository, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN")  # fmt: skip
    run("cmake", "--build", folder, "--target", "plait", "--parallel", JOBS)
    return repository / "include", next(folder.rglob("libplait.so"))


def bundle(library, folder):
    """Copies libplait under the one name that the loader asks for (libplait.so.0), and libsodium beside it."""
    real = library.resolve()
    links = [path.name for path in real.parent.glob("libplait.so.*") if path.name.count(".") == 2]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(real, folder / (links[0] if links else library.name))
    loaded = subprocess.run(["ldd", str(real)], check=True, capture_output=True, text=True).stdout
    for name, path in re.findall(r"(libsodium\S*) => (\S+)", loaded):
        shutil.copy2(Path(path).resolve(), folder / name)


def keep_sources(include, folder):
    """What a build on first use needs, for another torch (_shim.py)."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(include / "plait.h", folder)
    shutil.copy2(HERE / "CMakeLists.txt", folder)
    shutil.copytree(HERE / "csrc", folder / "csrc")


class Build(build_ext):
    def build_extension(self, extension):
        torch = find_torch()
        if shutil.which("cmake") is None:
            raise SystemExit("plait: building needs cmake 3.25 or newer: apt-get install cmake, or pip install cmake")
        temporary = Path(self.build_temp).resolve()
        target = Path(self.get_ext_fullpath(extension.name)).resolve()
        package = target.parent
        found = installed_plait()
        include, library = found or build_library(temporary / "libplait")
        rpath = library.parent if found else "$ORIGIN/lib"
        try:  # in a folder for each torch, for another one's objects look up to date
            built = build_module(HERE, temporary / f"shim-torch-{torch.__version__}", include, library, rpath)
        except BuildError as error:
            raise SystemExit(f"plait: {error}") from None

        package.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, target)
        (package / "_built_for.py").write_text(
            f'torch = "{torch.__version__}"\nlibrary = {str(library) if found else None!r}  # None: in lib/\n'
        )
        shutil.rmtree(package / "lib", ignore_errors=True)
        shutil.rmtree(package / "source", ignore_errors=True)
        keep_sources(include, package / "source")
        if not found:
            bundle(library, package / "lib")


setup(
    ext_modules=[Extension("plait._C", sources=[])],
    cmdclass={"build_ext": Build},
    options={"egg_info": {"tag_build": version_tag()}},
    zip_safe=False,
)
