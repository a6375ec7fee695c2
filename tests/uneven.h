/* V-forms as data: one call whose blocks differ in length, its buffers between guard pages, and the check of all
 * that a caller is promised of its outcome. Everything follows from one seed, so each rank knows all ranks' part. */
#ifndef PLAIT_TESTS_UNEVEN_H
#define PLAIT_TESTS_UNEVEN_H

#include "data.h"
#include "guarded.h"
#include "ranks.h"

enum uneven_kind {
    UNEVEN_ALLGATHER,
    UNEVEN_REDUCE_SCATTER,
    UNEVEN_GATHER,
    UNEVEN_SCATTER,
    UNEVEN_ALLTOALL,
    UNEVEN_KINDS
};

struct uneven_call {
    enum uneven_kind kind;
    plait_type type;
    plait_op op;
    int root;
    size_t most; /* elements of a block at most */
    bool in_place;
    bool gaps; /* blocks lie in any order with gaps between them; else displacements are NULL */
    uint64_t seed;
};

/* "all-gatherv" */
const char *uneven_name(enum uneven_kind kind);

/* Elements that go from one rank to another; each draws lengths with zeros, ones and primes among them. */
size_t uneven_moved(const struct uneven_call *call, int from, int to);

struct uneven_trial {
    struct uneven_call call;
    struct data data;
    int me, ranks;
    struct guarded input_room, output_room;
    unsigned char *input, *output, *expected;
    size_t input_counts[RANKS_MOST], input_firsts[RANKS_MOST];
    size_t output_counts[RANKS_MOST], output_firsts[RANKS_MOST];
    int input_blocks, output_blocks;
    size_t input_size, output_size; /* bytes, gaps included */
    bool in_place;                  /* on this rank */
    uint64_t input_sum;
};

bool uneven_open(struct uneven_trial *trial, size_t most_size, int ranks);
void uneven_close(struct uneven_trial *trial);
void uneven_prepare(struct uneven_trial *trial, const struct uneven_call *call, int me, int ranks);
/* The call, with the counts as they stand in the trial. */
plait_status uneven_make(const struct uneven_trial *trial, plait_comm *comm, plait_work **work);
bool uneven_right(struct uneven_trial *trial, char *why, size_t why_size);
/* The call failed with no effect. */
bool uneven_untouched(struct uneven_trial *trial, char *why, size_t why_size);
/* All in one go, as a work or blocking; records what is wrong. */
bool uneven_run(struct rank *rank, struct uneven_trial *trial, const struct uneven_call *call, bool as_work);

#endif
