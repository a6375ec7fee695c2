/* Where the time of operations went, on each rank: what --explain adds to a row. */
#ifndef PLAIT_BENCH_EXPLAIN_H
#define PLAIT_BENCH_EXPLAIN_H

#include <stdio.h>

#include "measure.h"

/* A rank's part, of one operation on average. */
struct share {
    double time_us, waiting_us, copying_us, reducing_us, other_us;
    double copied, reduced; /* bytes */
    double chunks;
    double awaited_us; /* of the wait, for `awaited`, the rank that was waited for longest */
    int64_t awaited;   /* -1: none */
    uint64_t operations;
};

/* Takes some more samples with the library's profile on, for the row's own time is measured without it, and
 * picks the one of median time. All ranks get `shares`, one a rank; `operations` is 0 where the library counts
 * none (sends and receives). PLAIT_OUT_OF_MEMORY leaves no sentence. */
plait_status explain_call(struct repetition *repetition, struct share *shares);

/* The table, and what it says in words. */
void explain_print(FILE *table, const struct share *shares, int ranks, const char *place, double line_ns);

/* , "explain": [...]; null for NULL or nothing counted. */
void explain_json(FILE *json, const struct share *shares, int ranks);

#endif
