/* How long operations take, over all ranks. */
#ifndef PLAIT_BENCH_MEASURE_H
#define PLAIT_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives.h"
#include "options.h"

struct timing {
    double time_us, p99_us; /* of one operation, median and 99th percentile over the samples */
    uint64_t iters;         /* operations timed */
    const char *plan;       /* how they were carried out; NULL if unknown */
};

/* Samples that measure_call() takes at most. */
size_t measure_samples_most(const struct options *options);

/* Warms up and times `call`, on all ranks together. A sample starts with a barrier and
 * is as many operations, one after another, as take 20 us: reading the clock costs as much as a small
 * operation. A sample's time is the slowest rank's.
 *
 * rotate   another root with each operation
 * samples  room for measure_samples_most() */
plait_status measure_call(struct call *call, const struct options *options, bool rotate, double *samples,
                          struct timing *timing);

#endif
