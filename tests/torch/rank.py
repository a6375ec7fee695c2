"""One rank of test_cases.py: runs the cases with the others and writes what became of each."""

import json
import traceback
import warnings
from datetime import timedelta

import cases
import cases_forms  # noqa: F401: its cases come after those of cases
import cases_values  # noqa: F401
import torch
import torch.distributed as dist

import plait  # noqa: F401

DEADLINE = timedelta(seconds=60)


def main(rank, size, store_file, result_file, names):
    warnings.simplefilter("ignore")
    store = dist.FileStore(store_file, size)
    store.set_timeout(DEADLINE)
    results = {}
    generation = start(store, rank, size, 0)
    for case in cases.CASES:
        if names and case.__name__ not in names:
            continue
        results[case.__name__] = run(case, rank, size)
        with open(result_file, "w") as file:
            json.dump(results, file)
        if not agreed(store, rank, size, case.__name__, results[case.__name__]):
            generation = restart(store, rank, size, generation)
    # No destroy_process_group(): leaving without it must be fine.


def start(store, rank, size, generation):
    dist.init_process_group("plait", store=dist.PrefixStore(f"group{generation}", store), rank=rank, world_size=size,
                            timeout=timedelta(seconds=20))  # fmt: skip
    return generation


def restart(store, rank, size, generation):
    """After a case that failed somewhere the ranks may be out of step: they begin again in a new group."""
    dist.destroy_process_group()
    return start(store, rank, size, generation + 1)


def run(case, rank, size):
    try:
        case(rank, size)
        return "ok"
    except BaseException:
        return traceback.format_exc()


def agreed(store, rank, size, name, result):
    """Tells the others; True if the case went well on all ranks."""
    store.set(f"{name}/{rank}", "ok" if result == "ok" else "failed")
    return all(store.get(f"{name}/{other}") == b"ok" for other in range(size))
