"""Builds the extension module plait._C against a torch: for setup.py, and on first use (see _shim.py)."""

import os
import shutil
import subprocess
import sysconfig


class BuildError(Exception):
    """Its text says what is lacking, or what the compiler said."""


def module_name():
    return "_C" + sysconfig.get_config_var("EXT_SUFFIX")


def _run(command, output):
    print("plait:", *command, file=output, flush=True)
    ended = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise BuildError(f"this failed with exit status {ended.returncode}: {' '.join(command)}")


def build_module(source, folder, include, library, rpath, output=None):
    """Gives the path of the module that it has built.

    source   the folder with CMakeLists.txt and csrc/
    folder   where to build; another torch needs another one
    include, library   the folder of plait.h, and libplait.so
    rpath    where the module will find that library
    output   a file for what the tools say; None: where this process says things
    """
    import torch
    from torch.utils import cpp_extension

    if shutil.which("cmake") is None:
        raise BuildError("building needs cmake 3.25 or newer: apt-get install cmake, or pip install cmake")
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "PLAIT_INCLUDE": include,
        "PLAIT_LIBRARY": library,
        "PYTHON_INCLUDE": sysconfig.get_path("include"),
        "TORCH_INCLUDES": ";".join(cpp_extension.include_paths()),
        "TORCH_LIBRARIES": ";".join(cpp_extension.library_paths()),
        "TORCH_CXX11_ABI": int(torch.compiled_with_cxx11_abi()),
        "MODULE_SUFFIX": sysconfig.get_config_var("EXT_SUFFIX"),
        "MODULE_RPATH": rpath,
    }
    _run(["cmake", "-S", str(source), "-B", str(folder), *(f"-D{name}={value}" for name, value in settings.items())],
         output)  # fmt: skip
    _run(["cmake", "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0)))], output)
    return folder / module_name()
