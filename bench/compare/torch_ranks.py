"""A rank of torch.distributed on the common loop: torch_ranks.py BACKEND LIBLOOP --control ... --socket ...

The loop in C calls back for each collective, so the time is what a user of PyTorch sees, Python included."""
import ctypes
import datetime
import sys

import torch
import torch.distributed as dist

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "barrier")
TYPES = (torch.float32, torch.bfloat16)
PRIVATE = 0
VIEWS_MOST = 100_000


class Call(ctypes.Structure):
    """struct call of loop.h."""
    _fields_ = [("collective", ctypes.c_int), ("type", ctypes.c_int), ("input", ctypes.c_void_p),
                ("output", ctypes.c_void_p), ("count", ctypes.c_size_t), ("root", ctypes.c_int)]


START = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
                         ctypes.POINTER(ctypes.c_int))
VERSION = ctypes.CFUNCTYPE(ctypes.c_void_p)
CAN = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int, ctypes.c_int, ctypes.c_int)
COLLECTIVE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(Call))
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FINISH = ctypes.CFUNCTYPE(None)


class Backend(ctypes.Structure):
    """struct backend of loop.h."""
    _fields_ = [("name", ctypes.c_char_p), ("start", START), ("version", VERSION), ("can", CAN),
                ("collective", COLLECTIVE), ("allocate", ALLOCATE), ("release", RELEASE), ("finish", FINISH),
                ("scatters_to_front", ctypes.c_bool)]


class Rank:
    def __init__(self, name):
        self.name = name
        self.views = {}
        self.version_text = ctypes.create_string_buffer(f"{name} of PyTorch {torch.__version__}".encode())

    def start(self, _argc, _argv, rank, ranks):
        torch.set_num_threads(1)
        dist.init_process_group(self.name, timeout=datetime.timedelta(minutes=2))
        rank[0], ranks[0] = dist.get_rank(), dist.get_world_size()
        self.ranks = ranks[0]
        self.works = {(collective, type) for collective in range(len(COLLECTIVES)) for type in range(len(TYPES))
                      if self.try_out(collective, type)}
        return True

    def try_out(self, collective, type):
        """Whether the backend has it: every rank gets the same answer, for it has nothing to do with data."""
        buffer = torch.zeros(2 * self.ranks, dtype=TYPES[type])
        try:
            self.operation(collective, buffer[:self.ranks], buffer[self.ranks:], 0)()
        except (RuntimeError, ValueError, NotImplementedError):
            return False
        return True

    def view(self, address, count, type):
        """A tensor over the loop's memory."""
        dtype = TYPES[type]
        raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return torch.frombuffer(raw, dtype=dtype)

    def operation(self, collective, output, source, root):
        own = dist.get_rank() * (len(output) // self.ranks)
        block = output[own:own + len(output) // self.ranks]
        return {
            "all_reduce": lambda: dist.all_reduce(output),
            "all_gather": lambda: dist.all_gather_into_tensor(output, block),
            "broadcast": lambda: dist.broadcast(output, root),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(block, output),
            "all_to_all": lambda: dist.all_to_all_single(output, source),
            "barrier": dist.barrier,
        }[COLLECTIVES[collective]]

    def prepare(self, call):
        name = COLLECTIVES[call.collective]
        if name == "barrier":
            return dist.barrier
        count = call.count if name in ("all_reduce", "broadcast") else call.count * self.ranks
        output = self.view(call.output, count, call.type)
        source = self.view(call.input, count, call.type) if name == "all_to_all" else output
        return self.operation(call.collective, output, source, call.root)

    def collective(self, pointer):
        call = pointer[0]
        key = (call.collective, call.type, call.output, call.count, call.root)
        operation = self.views.get(key)
        if operation is None:
            if len(self.views) >= VIEWS_MOST:
                self.views.clear()
            operation = self.views[key] = self.prepare(call)
        operation()
        return True


def main():
    rank = Rank(sys.argv[1])
    backend = Backend(
        name=rank.name.encode(), start=START(rank.start),
        version=VERSION(lambda: ctypes.addressof(rank.version_text)),
        can=CAN(lambda collective, type, memory: memory == PRIVATE and (collective, type) in rank.works),
        collective=COLLECTIVE(rank.collective), finish=FINISH(dist.destroy_process_group))
    loop = ctypes.CDLL(sys.argv[2])
    arguments = (ctypes.c_char_p * len(sys.argv))(*(word.encode() for word in sys.argv))
    sys.exit(loop.loop_run(ctypes.byref(backend), len(sys.argv), arguments))


if __name__ == "__main__":
    main()
