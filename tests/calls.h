/* Collectives as data: one call's arguments, its buffers between guard pages, and the check of all
 * that a caller is promised of its outcome. */
#ifndef PLAIT_TESTS_CALLS_H
#define PLAIT_TESTS_CALLS_H

#include "data.h"
#include "guarded.h"
#include "ranks.h"

enum call_kind {
    CALL_ALLREDUCE,
    CALL_REDUCE,
    CALL_BROADCAST,
    CALL_ALLGATHER,
    CALL_REDUCE_SCATTER,
    CALL_GATHER,
    CALL_SCATTER,
    CALL_ALLTOALL,
    CALL_SCAN,
    CALL_EXSCAN,
    CALL_BARRIER,
    CALL_KINDS
};

struct call {
    enum call_kind kind;
    plait_type type;
    plait_op op;
    int root;
    size_t count;
};

/* "all-reduce" */
const char *call_name(enum call_kind kind);
bool call_reduces(enum call_kind kind);
bool call_has_root(enum call_kind kind);
bool call_has_in_place(enum call_kind kind);
/* Blocks of `count` elements that `rank` of `ranks` hands in and gets; 0: it has no such buffer. */
int call_input_blocks(const struct call *call, int ranks, int rank);
int call_output_blocks(const struct call *call, int ranks, int rank);
/* "all-reduce of 7 f32, sum, root 2" */
const char *call_text(const struct call *call, char *text, size_t size);

/* Makes the call. For a broadcast, `output` is the buffer. */
plait_status call_make(const struct call *call, plait_comm *comm, const void *input, void *output,
                       plait_work **work);

/* How a call's buffers lie. */
struct layout {
    bool in_place;
    size_t input_shift, output_shift; /* bytes from the guard page */
    bool input_upper, output_upper;
    bool special;      /* floats of the troublesome kinds */
    bool spare_output; /* where a rank has no output: a buffer that must stay as it is, instead of NULL */
};

/* A layout drawn from `random`. */
struct layout layout_drawn(enum call_kind kind, uint64_t random);

/* One call on one rank, from its buffers to the verdict. `me` is the rank in the communicator. */
struct trial {
    struct call call;
    struct layout layout;
    struct data data;
    int me, ranks;
    struct guarded input_room, output_room;
    unsigned char *input, *output;
    size_t input_size, output_size; /* bytes; 0: none */
    uint64_t input_sum;             /* before the call */
    uint64_t outside_sum;           /* in place: of the input's other blocks */
};

/* Buffers for calls of at most `most_size` bytes a block with at most `ranks` ranks. */
bool trial_open(struct trial *trial, size_t most_size, int ranks);
void trial_close(struct trial *trial);

/* Lays out and fills the buffers. Outputs hold a pattern that no result has. */
void trial_prepare(struct trial *trial, const struct call *call, const struct layout *layout, uint64_t seed,
                   int me, int ranks);
plait_status trial_call(struct trial *trial, plait_comm *comm, plait_work **work);

/* The result is right, the input is as it was, nothing outside was touched. */
bool trial_right(struct trial *trial, char *why, size_t why_size);
/* Just the latter two. */
bool trial_surroundings_right(const struct trial *trial, char *why, size_t why_size);
/* The call failed with no effect: input and output are as they were. */
bool trial_untouched(struct trial *trial, char *why, size_t why_size);
/* Of the output's bytes. */
uint64_t trial_output_sum(const struct trial *trial);

/* Prepares, calls and checks in one go, and records what is wrong. */
bool trial_run(struct rank *rank, struct trial *trial, plait_comm *comm, const struct call *call,
               const struct layout *layout, uint64_t seed);

#endif
