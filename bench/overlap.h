/* How much of a collective is hidden behind what its caller does meanwhile: "plait-perf overlap". */
#ifndef PLAIT_BENCH_OVERLAP_H
#define PLAIT_BENCH_OVERLAP_H

#include <stdio.h>

#include "measure.h"
#include "options.h"
#include "report.h"

/* The caller's own part, and that part with an operation under way. */
struct beside {
    double alone_us, both_us;
    double hidden;  /* of the shorter of the two, how much was saved: 1 is all, below 0 it got worse */
    double slowed;  /* how much longer the caller's own part takes beside the operation: 0 is not at all */
    double blocked; /* both_us over one after the other */
};

struct overlap {
    double blocking_us,
        async_us;            /* the operation alone: a blocking call; a work that is waited for at once */
    struct beside computing; /* the caller's core is busy */
    struct beside sleeping;  /* the caller waits for something else, a GPU for example: its core is free */
    int samples;
    const char *plan;
};

/* On all ranks together, each kind of sample in turns; the slowest rank counts, medians. The caller's part is
 * as long as the operation. */
plait_status overlap_measure(struct call *call, const struct options *options, struct overlap *overlap);

void overlap_print_head(FILE *table, const struct collective *collective);
void overlap_print(FILE *table, const struct row *row, const struct overlap *overlap);
void overlap_json(FILE *json, const struct row *row, int ranks, const struct overlap *overlap);

#endif
