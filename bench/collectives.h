/* The collectives that plait-perf knows: what each moves, how it is called, what must come out. */
#ifndef PLAIT_BENCH_COLLECTIVES_H
#define PLAIT_BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "plait.h"

enum { ALL_RANKS = -1 };

/* How much of a buffer a rank hands over or gets. */
enum extent {
    NO_DATA,
    ONE_BLOCK,      /* `count` elements */
    BLOCK_PER_RANK, /* `count` elements for each rank */
};

struct collective;

/* The arguments of one operation on one rank. */
struct call {
    const struct collective *collective;
    plait_comm *comm;
    int rank, ranks;
    int root;
    size_t count; /* as plait.h counts */
    plait_type type;
    plait_op op;
    void *input, *output; /* collective_place() sets them */
    plait_work **work;    /* NULL: the call blocks */
    const size_t *counts; /* of the v-forms, by collective_counts() */
};

/* Where an element of the output comes from. */
struct origin {
    int rank;     /* ALL_RANKS: reduced over all */
    size_t index; /* in that rank's input */
};

struct collective {
    const char *name;                   /* "all_reduce" */
    bool reduces;                       /* has an operation */
    bool rooted;                        /* has a root */
    bool input_at_root, output_at_root; /* the other ranks have none */
    bool out_of_place, in_place;        /* what the API allows */
    bool uneven;                        /* a v-form: of all ranks' blocks, one after another, block r is r + 1
                                           times as long as block 0; all-to-all begins with its own rank's */
    enum extent input, output;
    bool reports_plan; /* plait_comm_last_plan() tells how it went */
    int least_ranks;
    double (*bus_factor)(int ranks); /* busbw / algbw, as nccl-tests has it */
    plait_status (*start)(const struct call *call);
    struct origin (*origin)(const struct call *call, size_t index);
};

/* In the order in which "all" runs them; NULL past the end. */
const struct collective *collective_at(size_t index);

/* By name; case, hyphens and underscores don't matter. NULL if there is none. */
const struct collective *collective_find(const char *name);

/* Elements of the bigger of a rank's two buffers. */
size_t collective_whole(const struct collective *collective, int ranks, size_t count);

/* The `count` whose bigger buffer comes nearest to `bytes` from below; at least 1 unless `bytes` is 0. */
size_t collective_count(const struct collective *collective, int ranks, plait_type type, size_t bytes);

/* What a v-form's rank moves to and from each rank; `counts` has room for a number a rank. */
void collective_counts(const struct call *call, size_t *counts);

/* Elements of this rank's own input or output: 0 where it has none. */
size_t collective_input_count(const struct call *call);
size_t collective_output_count(const struct call *call);

/* Points input and output at two buffers, or in place into the second of them. */
void collective_place(struct call *call, void *input, void *output, bool in_place);

#endif
