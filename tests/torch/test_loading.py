"""How torch and plait find each other: without an import, twice, under another torch, and what is installed."""

import importlib.metadata
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import plait_autoload
import pytest
import torch
import torch.distributed as dist

import plait

PACKAGE = Path(plait.__file__).parent


def python(script, **environment):
    """(exit status, what it said) of a program of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **environment}, timeout=120)  # fmt: skip
    return ended.returncode, ended.stdout


def test_without_an_import(tmp_path):
    status, said = python(
        f"""
        import os, sys, torch, torch.distributed as dist
        assert "plait" in dist.Backend.backend_list
        assert "plait" not in sys.modules, "loaded before anyone asked"
        assert not any("libplait" in line for line in open("/proc/self/maps"))
        before = len(os.listdir("/proc/self/task"))
        store = dist.FileStore("{tmp_path}/store", 1)
        dist.init_process_group("plait", store=store, rank=0, world_size=1)
        assert dist.get_backend() == "plait" and len(os.listdir("/proc/self/task")) == before
        dist.all_reduce(torch.ones(3))
        """)  # fmt: skip
    assert (status, said) == (0, "")


def test_the_hook_is_quick():
    """Where torch calls it: after torch, in a process that has not heard of plait. In CPU time, for machines are busy."""
    status, said = python(
        """
        import time, torch
        began = time.process_time()
        import plait_autoload
        plait_autoload.hook()
        print((time.process_time() - began) * 1e3)
        import torch.distributed as dist
        assert "plait" in dist.Backend.backend_list
        """, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # fmt: skip
    assert status == 0 and float(said) < 20, said


def test_the_hook_never_raises(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr(dist.Backend, "_plugins", {})
    monkeypatch.setattr(dist.Backend, "register_backend", refuse)
    plait_autoload.hook()
    monkeypatch.setattr(dist, "is_available", lambda: False)
    plait_autoload.hook()
    monkeypatch.delitem(sys.modules, "torch.distributed")
    plait_autoload.hook()


def test_registering_again_is_harmless(monkeypatch):
    plait_autoload.hook()
    plait_autoload.register()
    plait.register()
    assert dist.Backend.backend_list.count("plait") == 1
    other = dist.Backend._BackendPlugin(lambda *_: None, True)
    monkeypatch.setitem(dist.Backend._plugins, "PLAIT", other)
    plait_autoload.hook()
    with pytest.raises(RuntimeError, match="another package"):
        plait.register()
    assert dist.Backend._plugins["PLAIT"] is other


# ------------------------------------------------------------ another torch

IMPORT = """
    import torch
    torch.__version__ = "9.9.0"
    {}
"""


def cmake_for_tests(folder, does):
    """The environment of a build by a cmake that leaves a mark for each call, and then does what the test says."""
    folder.mkdir()
    program = folder / "cmake"
    program.write_text(f'#!/bin/sh\necho "$@" >>"{folder}/calls"\n{does}\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(folder / "cache"), "PLAIT_BUILD": "on"}


def test_another_torch_is_told_which_build_it_needs(tmp_path):
    """By an import, by the first group, and where a build was asked for that fails."""
    status, said = python(
        IMPORT.format(f"""
    import os, torch.distributed as dist
    def init():
        dist.init_process_group("plait", store=dist.FileStore("{tmp_path}/store", 1), rank=0, world_size=1)
    def load():
        import plait
    for call, build in ((load, ""), (init, ""), (load, "on")):
        os.environ["PLAIT_BUILD"] = build
        try:
            call()
        except ImportError as error:
            print(error, flush=True)
    """), **cmake_for_tests(tmp_path / "bin", "echo no compiler; exit 3"))  # fmt: skip
    imported, initialised, built = said.splitlines()[0], said.splitlines()[1], said.splitlines()[-1]
    assert f"built for torch {torch.__version__} and this is torch 9.9.0" in imported, said
    assert "plait's build for torch 9.9" in imported and "PLAIT_BUILD=on" in imported, said
    assert initialised == imported, said
    log = re.search(r"exit status 3.* all of the output: (\S+)", built)
    assert log and "no compiler" in Path(log[1]).read_text(), said


def test_built_on_first_use_when_asked(tmp_path):
    """Once, by one of the ranks that come at the same time; the other finds it."""
    [module] = PACKAGE.glob("_C.*.so")
    environment = cmake_for_tests(tmp_path / "bin", f'[ "$1" != --build ] || {{ sleep 0.2; cp "{module}" "$2"; }}')
    environment["LD_LIBRARY_PATH"] = str(PACKAGE / "lib")  # the copy would look beside itself
    script = textwrap.dedent(IMPORT.format("import plait; print('plait', plait.library_version())"))
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **environment}) for _ in range(2)]  # fmt: skip
    for one in both:
        assert one.communicate(timeout=120)[0].startswith("plait 0."), one.returncode
    calls = (tmp_path / "bin/calls").read_text()
    assert calls.count("--build") == 1 and f"-S {PACKAGE}/source" in calls and "MODULE_RPATH=/" in calls, calls


# --------------------------------------------------------- what is installed


def dynamic(path):
    """(names of the libraries it needs, where it looks for them) of a shared object."""
    said = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said), re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)


@pytest.mark.skipif(not (PACKAGE / "lib").exists(), reason="plait was built with an installed libplait")
def test_the_package_can_be_moved():
    """What it needs is in it, in torch, or in every Linux; it looks for it beside itself only."""
    everywhere = r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d|ld-linux.*|lib(c10|torch_cpu|torch_python)\.so"
    own = {path.name for path in (PACKAGE / "lib").iterdir()}
    for path in [*PACKAGE.glob("_C.*.so"), *(PACKAGE / "lib").iterdir()]:
        needs, looks = dynamic(path)
        assert all(name in own or re.fullmatch(everywhere, name) for name in needs), (path, needs)
        assert looks in ([], ["$ORIGIN"], ["$ORIGIN/lib"]), (path, looks)
    assert dynamic(next(PACKAGE.glob("_C.*.so")))[1] == ["$ORIGIN/lib"]


def test_the_package_says_what_it_is_for():
    minor = ".".join(torch.__version__.split(".")[:2])
    assert importlib.metadata.version("plait") == f"{plait.__version__}+torch{minor}"
    for group, value in (("torch.backends", "plait_autoload:hook"),
                         ("torch.distributed.backends", "plait_autoload:register")):  # fmt: skip
        [entry] = importlib.metadata.entry_points(group=group, name="plait")
        assert entry.value == value and callable(entry.load())
    for name in ("CMakeLists.txt", "plait.h", "csrc/bindings.cpp"):
        assert (PACKAGE / "source" / name).exists()
