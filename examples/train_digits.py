#!/usr/bin/env python3
"""Trains a classifier of handwritten digits on several ranks, over Plait and over Gloo, and compares.

    torchrun --nproc-per-node 2 examples/train_digits.py

The data are the 1,797 real 8 x 8 images that come with scikit-learn, so nothing is downloaded. The same model
is trained from the same seed over each backend, one after another, with DistributedDataParallel. At the
end rank 0 prints the accuracy on images that were held back, the time of a step and how much of it went into
communication, and draws both into --out.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

try:
    import matplotlib
    import numpy  # noqa: F401  (torch.from_numpy needs it)
    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from torch.nn.parallel import DistributedDataParallel
    from tqdm import tqdm
except ImportError as error:
    sys.exit(
        f"train_digits.py needs the package {error.name}, which is not installed in {sys.prefix}.\n"
        "Install what it needs with: pip install numpy scikit-learn matplotlib tqdm, and PyTorch as "
        "its own site says"
    )

HIDDEN = 512  # two layers of it: 0.3 million parameters, 1.2 MB of gradients a step
HELD_BACK = 360  # images that test the model


def main():
    options = parse()
    torch.set_num_threads(1)  # the ranks share the cores
    try:
        store, rank, size = next(iter(dist.rendezvous("env://")))
    except ValueError as error:
        sys.exit(f"{error}\nStart it with: torchrun --nproc-per-node 2 {sys.argv[0]}")

    runs = []
    for number, backend in enumerate(options.backends):
        # A prefix each: two groups in one job must not read each other's keys.
        dist.init_process_group(backend, store=dist.PrefixStore(f"run{number}", store), rank=rank, world_size=size)
        runs.append({"backend": backend, **train(options, f"{backend} x {size}")})
        dist.destroy_process_group()
    if rank == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "digits.json").write_text(json.dumps({"ranks": size, "runs": runs}, indent=1) + "\n")
        draw(runs, size, options.out)
        sys.exit(report(runs, size, options))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="plait,gloo", type=lambda text: text.split(","),
                        help="one run each, in this order (default: plait,gloo)")  # fmt: skip
    parser.add_argument("--epochs", default=20, type=int, help="times over the images (default: 20)")
    parser.add_argument("--batch", default=64, type=int, help="images a step, over all ranks (default: 64)")
    parser.add_argument("--out", default=Path("build/digits"), type=Path,
                        help="folder for digits.json, digits.png and digits.svg (default: build/digits)")  # fmt: skip
    parser.add_argument("--tolerance", default=1e-3, type=float,
                        help="how far final losses may lie apart before this exits with 1 (default: 0.001)")  # fmt: skip
    options = parser.parse_args()
    if "plait" in options.backends:
        try:
            import plait  # noqa: F401  (registers the backend)
        except ImportError as error:
            sys.exit(f"{error}\nInstall it from the repository with: pip install ./python")
    return options


def images():
    """Images (float32, N x 64, 0 to 1) and digits (int64, N), shuffled the same way on every rank."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    pixels = torch.from_numpy(digits.data).float() / 16
    return pixels[order], torch.from_numpy(digits.target).long()[order]


class LastGradient:
    """When the last gradient of a backward() was there.

    DDP starts all-reducing a bucket of gradients as soon as backward() has filled it, goes on computing, and
    waits for all buckets before backward() returns. From the last gradient on there is nothing left to compute: what
    follows until backward() returns is communication that the step has to pay for, waiting for a slower
    rank included. What overlaps with computing is free and not counted; neither is the time to start the
    earlier buckets' all-reduces, which is small.
    """

    def __init__(self, layer):
        self.time = 0.0
        for parameter in layer.parameters():
            parameter.register_post_accumulate_grad_hook(self.arrived)

    def arrived(self, _parameter):
        self.time = time.perf_counter()


def train(options, title):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    pixels, digits = images()
    model = torch.nn.Sequential(
        torch.nn.Linear(64, HIDDEN), torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, 10),
    )  # fmt: skip
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    last_gradient = LastGradient(model[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    share = options.batch // size  # images a step and rank
    steps = (len(digits) - HELD_BACK) // (share * size)
    losses, step_times, communication_times = [], [], []
    bar = tqdm(total=options.epochs * steps, desc=title, unit="step", disable=rank != 0, leave=True)
    for epoch in range(options.epochs):
        order = HELD_BACK + torch.randperm(len(digits) - HELD_BACK, generator=torch.Generator().manual_seed(epoch))
        epoch_loss = torch.zeros(())
        for step in range(steps):
            first = (step * size + rank) * share
            mine = order[first : first + share]
            began = time.perf_counter()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(ddp(pixels[mine]), digits[mine])
            loss.backward()
            communication_times.append(time.perf_counter() - last_gradient.time)
            optimizer.step()
            step_times.append(time.perf_counter() - began)
            epoch_loss += loss.detach()
            bar.update()
        dist.all_reduce(epoch_loss)
        losses.append(epoch_loss.item() / (steps * size))
        bar.set_postfix(loss=f"{losses[-1]:.4f}")
    bar.close()

    with torch.no_grad():
        right = (model(pixels[:HELD_BACK]).argmax(1) == digits[:HELD_BACK]).float().mean().item()
    # DDP builds its final buckets in the first steps; they don't count.
    return {
        "losses": losses,
        "accuracy": right,
        "steps": len(step_times),
        "step_ms": statistics.median(step_times[steps:] or step_times) * 1e3,
        "communication_ms": statistics.median(communication_times[steps:] or communication_times) * 1e3,
        "digest": digest(model),
    }


def digest(model):
    """Of every bit of the parameters: two runs that give the same one learned exactly the same."""
    hashed = hashlib.sha256()
    for parameter in model.parameters():
        hashed.update(parameter.detach().numpy().tobytes())
    return hashed.hexdigest()[:16]


def report(runs, size, options):
    """Prints the comparison; gives the exit status: 1 if the final losses lie too far apart."""
    print(f"\n{size} ranks on this host, {runs[0]['steps']} steps of {options.batch} images; "
          "times are medians on rank 0")  # fmt: skip
    line("", [run["backend"] for run in runs])
    line("test accuracy", [f"{run['accuracy']:.1%}" for run in runs])
    line("final loss", [f"{run['losses'][-1]:.6f}" for run in runs])
    line("time per step", [f"{run['step_ms']:.3f} ms" for run in runs])
    line("  communicating", [f"{run['communication_ms']:.3f} ms" for run in runs])
    line("  share of the step", [f"{run['communication_ms'] / run['step_ms']:.0%}" for run in runs])
    line("digest of the model", [run["digest"] for run in runs])
    finals = [run["losses"][-1] for run in runs]
    apart = max(finals) - min(finals)
    if len(runs) > 1:
        verdict = "agree" if apart <= options.tolerance else "DIFFER"
        print(f"final losses {verdict}: {apart:.2g} apart, {options.tolerance:g} allowed")
    print(f"plot: {options.out / 'digits.png'}")
    return 0 if apart <= options.tolerance else 1


def line(title, columns):
    print(f"{title:<22}" + "".join(f"{column:>18}" for column in columns))


def draw(runs, size, folder):
    """Loss curves, and the time of a step split into computing and communicating."""
    matplotlib.use("agg")
    from matplotlib import pyplot

    compute_colour, communication_colour = "#9aa5b1", "#c2410c"
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, run in enumerate(runs):
        left.plot(range(1, len(run["losses"]) + 1), run["losses"], ("-", "--", ":", "-.")[number % 4],
                  linewidth=2.5 - number % 2, label=run["backend"])  # fmt: skip
    left.set(title="Training loss", xlabel="epoch", ylabel="cross entropy (log scale)", yscale="log")
    left.legend(frameon=False)

    places = range(len(runs))
    compute = [run["step_ms"] - run["communication_ms"] for run in runs]
    communicating = [run["communication_ms"] for run in runs]
    right.barh(places, compute, color=compute_colour, label="computing")
    right.barh(places, communicating, left=compute, color=communication_colour, label="communicating")
    for place, run in zip(places, runs):
        share = run["communication_ms"] / run["step_ms"]
        right.text(run["step_ms"], place, f"  {run['step_ms']:.2f} ms, {share:.0%} communicating", va="center")
    right.set(title=f"Time per step, {size} ranks (median)", xlabel="milliseconds",
              xlim=(0, 1.8 * max(run["step_ms"] for run in runs)))  # fmt: skip
    right.set_yticks(places, [run["backend"] for run in runs])
    right.invert_yaxis()
    right.legend(frameon=False, loc="lower right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    for ending in ("png", "svg"):
        figure.savefig(folder / f"digits.{ending}", dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
