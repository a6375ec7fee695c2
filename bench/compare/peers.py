"""The peers: how each is found or installed, built with the common loop, and started."""
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANKS = [sys.executable, HERE / "ranks.py", "{ranks}"]  # the launcher of those that have none
LOOP = [HERE / name for name in ("loop.c", "control.c", "line.c", "check.c")]
C_FLAGS = ["-O3", "-march=native", "-std=c17", "-D_GNU_SOURCE", "-pthread"]
CXX_FLAGS = ["-O3", "-march=native", "-std=c++17", "-D_GNU_SOURCE", "-pthread"]


class Missing(Exception):
    """The peer can't be had; the sentence says why."""


@dataclass
class Peer:
    """One library to measure, ready to start."""
    name: str                # as --peers takes it
    title: str               # as plots and tables show it
    words: list              # the launcher's command; {ranks} is replaced
    environment: dict = field(default_factory=dict)

    def command(self, ranks, arguments):
        return [str(word).replace("{ranks}", str(ranks)) for word in self.words] + arguments


@dataclass
class Workshop:
    """Where peers are put, and what may be done to get them."""
    folder: Path             # of what is built and installed
    install: bool = True     # False: only what is there already
    ucc: Path | None = None  # an Open MPI with UCC in it
    log: object = print

    def run(self, what, command, **options):
        """Runs a step; its output goes to a log whose end is told when it fails."""
        self.log(what)
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "steps.log"
        with open(log, "ab") as output:
            output.write(f"$ {' '.join(map(str, command))}\n".encode())
            output.flush()
            try:
                result = subprocess.run(list(map(str, command)), stdout=output, stderr=output, check=False,
                                        stdin=subprocess.DEVNULL, **options).returncode
            except OSError as error:
                raise Missing(f"{what}: {error}") from None
        if result != 0:
            last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1]
            raise Missing(f"{what} failed: {last[:200]} (all of it: {log})")

    def venv(self, name, packages):
        """A virtual environment with `packages`; made whole or not at all."""
        folder = self.folder / "venvs" / name
        done = folder / "complete"
        if done.exists():
            return folder
        if not self.install:
            raise Missing(f"{' '.join(packages)} is not installed yet; a run without --quick installs it")
        shutil.rmtree(folder, ignore_errors=True)
        self.run(f"making {folder}", [sys.executable, "-m", "venv", folder])
        self.run(f"installing {' '.join(packages)} from PyPI",
                 [folder / "bin" / "pip", "install", "--disable-pip-version-check", "--no-compile", *packages])
        done.touch()
        return folder

    def program(self, name, compiler, sources, flags):
        """The loop with a backend, compiled again when a source or the library is newer than it."""
        target = self.folder / "programs" / name
        headers = list(HERE.glob("*.h"))
        if target.exists() and all(target.stat().st_mtime > Path(file).stat().st_mtime
                                   for file in [*sources, *headers]):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        self.run(f"compiling {name}", [*compiler, *sources, *flags, "-o", target])
        return target


def mpi_program(shop, name, prefix):
    flags = C_FLAGS + [f"-I{prefix}/include", f"-L{prefix}/lib", "-lmpi", f"-Wl,-rpath,{prefix}/lib"]
    return shop.program(name, ["cc"], [*LOOP, HERE / "backend_mpi.c"], flags)


def plait(shop):
    build = ROOT / "build" / "release"
    program = build / "bench" / "compare" / "compare-plait"
    if not (build / "build.ninja").exists() and not (build / "Makefile").exists():
        shop.run("configuring Plait", ["cmake", "--preset", "release"], cwd=ROOT)
    shop.run("building Plait (build/release)", ["cmake", "--build", "--preset", "release", "--target", "compare-plait"], cwd=ROOT)
    return Peer("plait", "Plait", [*RANKS, program])


AS_ROOT = ["--allow-run-as-root"] if os.getuid() == 0 else []
# What malloc has given back the system must fault in again: a large all-reduce takes twice as long.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_THRESHOLD_": "4294967296"}


def openmpi_debian(shop):
    if not shutil.which("mpicc.openmpi") or not shutil.which("mpirun.openmpi"):
        raise Missing("Debian's Open MPI is not installed: apt-get install libopenmpi-dev openmpi-bin")
    program = shop.program("openmpi-debian", ["mpicc.openmpi"], [*LOOP, HERE / "backend_mpi.c"], C_FLAGS)
    return Peer("openmpi-debian", "Open MPI (Debian)",
                ["mpirun.openmpi", *AS_ROOT, "--oversubscribe", "--bind-to", "none", "-np", "{ranks}", program])


def openmpi_at(shop, name, title, prefix, more=()):
    return Peer(name, title, [prefix / "bin" / "mpirun", *AS_ROOT, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none",
                              *more, "-np", "{ranks}", mpi_program(shop, name, prefix)])


def openmpi(shop):
    return openmpi_at(shop, "openmpi", "Open MPI 5", shop.venv("openmpi", ["openmpi"]))


def openmpi_pinned(shop):
    peer = openmpi_at(shop, "openmpi-pinned", "Open MPI 5, memory kept", shop.venv("openmpi", ["openmpi"]))
    peer.environment |= KEEP_MEMORY
    return peer


def openmpi_xhc(shop):
    return openmpi_at(shop, "openmpi-xhc", "Open MPI 5, xhc", shop.venv("openmpi", ["openmpi"]),
                      ["--mca", "coll_xhc_priority", "100"])


def mpich(shop):
    prefix = shop.venv("mpich", ["mpich"])
    return Peer("mpich", "MPICH 5", [prefix / "bin" / "mpiexec", "-launcher", "fork", "-n", "{ranks}",
                                     mpi_program(shop, "mpich", prefix)])


def intel_launcher(prefix):
    """Without the fork bootstrap it takes one host for several and stops."""
    words = [prefix / "bin" / "mpiexec.hydra", "-np", "{ranks}", "-ppn", "{ranks}", "-hosts", "localhost"]
    environment = {"I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm", "FI_PROVIDER_PATH": str(prefix / "lib"),
                   "I_MPI_HYDRA_BOOTSTRAP": "fork", "I_MPI_HYDRA_IFACE": "lo"}
    return words, environment


def intel_mpi(shop):
    prefix = shop.venv("intel-mpi", ["impi-rt", "impi-devel"])
    words, environment = intel_launcher(prefix)
    return Peer("intel-mpi", "Intel MPI", [*words, mpi_program(shop, "intel-mpi", prefix)], environment=environment)


def oneccl(shop):
    """Its progress threads would take the ranks' cores on a small machine: milliseconds a call."""
    prefix = shop.venv("oneccl", ["oneccl", "oneccl-devel", "impi-devel"])
    objects = [shop.program(f"oneccl-{source.stem}.o", ["cc", "-c"], [source], C_FLAGS) for source in LOOP]
    flags = CXX_FLAGS + [*objects, f"-I{prefix}/include", f"-L{prefix}/lib", "-lccl", "-lmpi", "-Wl,--allow-shlib-undefined",
                         f"-Wl,-rpath,{prefix}/lib"]
    program = shop.program("oneccl", ["c++"], [HERE / "backend_ccl.cpp"], flags)
    words, environment = intel_launcher(prefix)
    return Peer("oneccl", "oneCCL", [*words, program],
                environment=environment | {"CCL_WORKER_OFFLOAD": "0", "CCL_ATL_TRANSPORT": "mpi",
                                           "CCL_ROOT": str(prefix),
                                           "LD_LIBRARY_PATH": f"{prefix}/lib"})


def has_torch(python):
    probe = [str(python), "-c", "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"]
    return Path(python).exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def gloo(shop):
    python = ROOT / ".venv" / "bin" / "python"
    if not has_torch(python):
        python = shop.venv("torch", ["torch", "numpy"]) / "bin" / "python"
    library = shop.program("libloop.so", ["cc"], LOOP, [*C_FLAGS, "-shared", "-fPIC"])
    return Peer("gloo", "Gloo (PyTorch)", [*RANKS, python, HERE / "torch_ranks.py", "gloo", library],
                environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "USE_LIBUV": "0"})


def ucc(shop):
    if not shop.ucc:
        raise Missing("UCC is measured when --ucc gives the folder of an Open MPI that has it, such as HPC-X's")
    if not (shop.ucc / "bin" / "mpirun").exists():
        raise Missing(f"there is no bin/mpirun below {shop.ucc} (--ucc)")
    return openmpi_at(shop, "ucc", "UCC", shop.ucc, ["--mca", "coll_ucc_enable", "1", "--mca", "coll_ucc_priority", "100"])


# In the order of the tables. Those of VARIANTS run when they are asked for.
PEERS = {"plait": plait, "intel-mpi": intel_mpi, "openmpi": openmpi, "openmpi-debian": openmpi_debian,
         "mpich": mpich, "oneccl": oneccl, "ucc": ucc, "gloo": gloo}
VARIANTS = {"openmpi-pinned": openmpi_pinned, "openmpi-xhc": openmpi_xhc}


def prepare(names, shop):
    """The peers that can be had, and for each other one a sentence."""
    ready, missing = [], {}
    for name in names:
        try:
            ready.append((PEERS | VARIANTS)[name](shop))
        except Missing as reason:
            missing[name] = str(reason)
    return ready, missing
