/* One loop for every peer: what is timed, how it is repeated, how the answer is checked. A peer is
 * a backend: a small table in a file of its own. A program that links one calls loop_run() and
 * nothing else; rank 0 then takes orders through a socket and answers each with a row.
 *
 * Buffers are in place but for all-to-all, which few peers have in place. `bytes` is the bigger of
 * a rank's buffers, as everywhere in the field: the whole result of an all-gather, the whole
 * input of a reduce-scatter and of an all-to-all. */
#ifndef PLAIT_COMPARE_LOOP_H
#define PLAIT_COMPARE_LOOP_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum collective { ALL_REDUCE, ALL_GATHER, BROADCAST, REDUCE_SCATTER, ALL_TO_ALL, BARRIER, COLLECTIVES };
enum type { FLOAT32, BFLOAT16, TYPES };
enum memory { PRIVATE, REGISTERED, MEMORIES };

/* One collective call on one rank; reductions are sums. */
struct call {
    enum collective collective;
    enum type type;
    const void *input; /* all-gather: this rank's block of `output`; else `output`, but for all-to-all */
    void *output;
    size_t count; /* elements: of the buffer (all-reduce, broadcast), of a block (the others) */
    int root;     /* broadcast's */
};

struct backend {
    const char *name;

    /* Joins the other ranks. Prints a sentence and returns false where that fails. */
    bool (*start)(int *argc, char ***argv, int *rank, int *ranks);

    /* What there is to say about the library, in a few words. */
    const char *(*version)(void);

    bool (*can)(enum collective collective, enum type type, enum memory memory);

    /* Makes the call and waits for its end. Prints a sentence and returns false on failure. */
    bool (*collective)(const struct call *call);

    /* Memory that peers read in place, for rows of REGISTERED; NULL where there is no such thing. */
    void *(*allocate)(size_t size);
    void (*release)(void *memory);

    void (*finish)(void);

    bool scatters_to_front; /* a reduce-scatter in place leaves the block at the front, as MPI does */
};

static inline bool call_reduces(enum collective collective)
{
    return collective == ALL_REDUCE || collective == REDUCE_SCATTER;
}

static inline size_t type_size(enum type type)
{
    return type == FLOAT32 ? 4 : 2;
}

/* The whole program but for the backend: the arguments are --control FILE --socket PATH --cpus
 * LIST among what the backend knows. Returns the exit status. */
int loop_run(const struct backend *backend, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
