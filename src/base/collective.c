#include "base/collective.h"

const char *collective_name(enum collective kind)
{
    static const char *const names[COLLECTIVES] = {
        [COLLECTIVE_ALLREDUCE] = "all-reduce",
        [COLLECTIVE_REDUCE] = "reduce",
        [COLLECTIVE_BROADCAST] = "broadcast",
        [COLLECTIVE_ALLGATHER] = "all-gather",
        [COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
        [COLLECTIVE_GATHER] = "gather",
        [COLLECTIVE_SCATTER] = "scatter",
        [COLLECTIVE_ALLTOALL] = "all-to-all",
        [COLLECTIVE_SCAN] = "scan",
        [COLLECTIVE_EXSCAN] = "exclusive scan",
        [COLLECTIVE_BARRIER] = "barrier",
    };
    return (unsigned)kind < COLLECTIVES ? names[kind] : "?";
}

bool collective_reduces(enum collective kind)
{
    return kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER ||
           collective_scans(kind);
}

bool collective_scans(enum collective kind)
{
    return kind == COLLECTIVE_SCAN || kind == COLLECTIVE_EXSCAN;
}

bool collective_has_root(enum collective kind)
{
    return kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_GATHER ||
           kind == COLLECTIVE_SCATTER;
}

int collective_input_blocks(enum collective kind, int ranks, int root, int rank)
{
    switch (kind) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
    case COLLECTIVE_GATHER: return 1;
    case COLLECTIVE_BROADCAST: return rank == root ? 1 : 0;
    case COLLECTIVE_SCATTER: return rank == root ? ranks : 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return ranks;
    case COLLECTIVE_BARRIER:
    case COLLECTIVES: break;
    }
    return 0;
}

int collective_output_blocks(enum collective kind, int ranks, int root, int rank)
{
    switch (kind) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_SCATTER: return 1;
    case COLLECTIVE_EXSCAN: return rank > 0 ? 1 : 0;
    case COLLECTIVE_REDUCE: return rank == root ? 1 : 0;
    case COLLECTIVE_GATHER: return rank == root ? ranks : 0;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return ranks;
    case COLLECTIVE_BARRIER:
    case COLLECTIVES: break;
    }
    return 0;
}
