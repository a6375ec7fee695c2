/* The collectives: their names, and what buffers they have. */
#ifndef PLAIT_BASE_COLLECTIVE_H
#define PLAIT_BASE_COLLECTIVE_H

#include <stdbool.h>

enum collective {
    COLLECTIVE_ALLREDUCE,
    COLLECTIVE_REDUCE,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALLGATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_ALLTOALL,
    COLLECTIVE_SCAN,
    COLLECTIVE_EXSCAN,
    COLLECTIVE_BARRIER,
    COLLECTIVES
};

/* "all-reduce" */
const char *collective_name(enum collective kind);
bool collective_reduces(enum collective kind);
/* Is a rank's result the fold over the ranks before it, without or with itself? */
bool collective_scans(enum collective kind);
bool collective_has_root(enum collective kind);
/* Blocks of `count` elements in a rank's input and output; 0 where that rank has no such buffer. */
int collective_input_blocks(enum collective kind, int ranks, int root, int rank);
int collective_output_blocks(enum collective kind, int ranks, int root, int rank);

#endif
