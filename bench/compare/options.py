"""What can be asked of compare, and sentences for what can't."""
import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cells import CACHES, COLLECTIVES, TYPES, UNITS
from peers import PEERS, ROOT, VARIANTS

SIZES = "8,1K,8K,64K,256K,1M,4M,16M,64M,256M"
QUICK_SIZES = "8,1K,64K,1M,16M,64M"
RANKS_MOST = 16  # sums of the check are exact up to there
SIZE_MOST = 1 << 30

HELP = """Measures Plait beside its peers on this machine: one C loop for all, in turns, answers checked.
Rows during which the cores moved (what a cache line costs has changed) are thrown away and measured again;
ratios are formed between rows of one state only. docs/compare.md says how to read what comes out."""


@dataclass
class Options:
    peers: list
    ranks: list
    sizes: list
    collectives: list
    types: list
    caches: list
    turns: int
    repeats: int
    seconds: float
    limit_s: float | None
    quick: bool
    resume: bool
    readme: bool
    priority: bool
    report_only: bool
    ucc: Path | None
    output: Path
    work: Path


def one_of(good):
    """A list of names, of which "all" is one; hyphens and underscores don't matter."""
    spellings = {name.replace("_", "-"): name for name in good}

    def parse(text):
        names = [part.strip().lower().replace("_", "-") for part in text.split(",") if part.strip()]
        for name in names:
            if name != "all" and name not in spellings:
                raise argparse.ArgumentTypeError(f"'{name}' is none of: {', '.join(good)}, all")
        if not names:
            raise argparse.ArgumentTypeError(f"nothing is named; good ones: {', '.join(good)}, all")
        return list(good) if "all" in names else [spellings[name] for name in dict.fromkeys(names)]
    return parse


def size(text):
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: 8, 64K, 16M are")
    value = int(match[1]) * UNITS[match[2].upper()]
    if not 4 <= value <= SIZE_MOST or value % 4:
        raise argparse.ArgumentTypeError(f"{text}: sizes are multiples of 4 from 4 to 1G")
    return value


def sizes(text):
    return sorted({size(part) for part in text.split(",")})


def whole(least, most):
    def parse(text):
        if not text.strip().isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number from {least} to {most}")
        return int(text)
    return parse


def rank_counts(text):
    return sorted({whole(1, RANKS_MOST)(part) for part in text.split(",")})


def positive(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def existing_folder(text):
    path = Path(text).resolve()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return path


def parser():
    parser = argparse.ArgumentParser(prog="compare", description=HELP, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*PEERS, *VARIANTS]
    add = parser.add_argument
    add("--quick", action="store_true",
        help="at most 5 minutes: few sizes, 2 ranks and a little of 4, peers that are installed already")
    add("--peers", type=one_of(known), metavar="LIST", help=f"of {', '.join(known)}; Plait always runs")
    add("--all-variants", action="store_true", help=f"also {', '.join(VARIANTS)}")
    add("--ranks", type=rank_counts, metavar="LIST", help="1,2,4,8 unless said")
    add("--sizes", type=sizes, metavar="LIST", help=f"{SIZES} unless said")
    add("--collectives", type=one_of(COLLECTIVES), metavar="LIST", help=f"of {', '.join(COLLECTIVES)}")
    add("--types", type=one_of(TYPES), metavar="LIST", help=f"of {', '.join(TYPES)}")
    add("--caches", type=one_of(CACHES), metavar="LIST", help="warm: one buffer; cold: more than the caches hold")
    add("--turns", type=whole(1, 100), metavar="N", help="how often all are measured; medians count (3)")
    add("--repeats", type=whole(0, 20), metavar="N", default=3,
        help="how often at most a row is measured again because the cores moved (3)")
    add("--seconds", type=positive, metavar="S", default=0.2, help="of timed calls in a row (0.2)")
    add("--minutes", type=positive, metavar="M", help="stop after so long and report what there is")
    add("--resume", action="store_true", help="go on where a run into the same folder was interrupted")
    add("--report", action="store_true", help="measure nothing: make tables and plots anew from stored rows")
    add("--readme", action="store_true", help="also write the README's plot, docs/images/compare.svg")
    add("--priority", action="store_true",
        help="put this run before others on the machine (Linux shares cores by autogroup); starves them")
    add("--ucc", type=existing_folder, metavar="FOLDER", help="an Open MPI that has UCC, such as HPC-X's")
    add("--output", type=Path, metavar="FOLDER", default=ROOT / "build" / "compare" / "report",
        help="where tables and plots go (build/compare/report)")
    return parser


def parse(arguments):
    """Options from the command line; exits with a sentence when they are wrong."""
    options = parser()
    given = options.parse_args(arguments)
    if given.report and given.resume:
        options.error("--report measures nothing, so there is nothing for --resume to go on with")
    names = list(given.peers or PEERS)
    names += [name for name in VARIANTS if given.all_variants and name not in names]
    if given.ucc and "ucc" not in names:
        names.append("ucc")
    minutes = given.minutes or (4 if given.quick else None)
    return Options(
        peers=["plait"] + [name for name in names if name != "plait"],
        ranks=given.ranks or ([2] if given.quick else [1, 2, 4, 8]),
        sizes=given.sizes or sizes(QUICK_SIZES if given.quick else SIZES),
        collectives=given.collectives or list(COLLECTIVES),
        types=given.types or (["float32"] if given.quick else list(TYPES)),
        caches=given.caches or (["warm"] if given.quick else list(CACHES)),
        turns=given.turns or 3, repeats=given.repeats, seconds=given.seconds,
        limit_s=minutes * 60 if minutes else None, quick=given.quick, resume=given.resume, readme=given.readme,
        priority=given.priority, report_only=given.report, ucc=given.ucc,
        output=Path(os.path.abspath(given.output)), work=ROOT / "build" / "compare")
