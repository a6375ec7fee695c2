/* How long operations take, over all ranks. */
#ifndef PLAIT_BENCH_MEASURE_H
#define PLAIT_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives.h"
#include "options.h"

struct timing {
    double time_us, p99_us,
        max_us;       /* of one operation: median, 99th percentile and greatest of the samples */
    uint64_t iters;   /* operations timed */
    const char *plan; /* how they were carried out; NULL if unknown */
};

/* A call, repeated. */
struct repetition {
    struct call call;
    bool rotate;  /* another root with each operation */
    size_t whole; /* bytes of the bigger of its buffers */
    size_t
        cold_room;  /* bytes of both buffers, for places that no cache holds; 0: the same place every time */
    int operations; /* of a sample; measure_call() finds out */
};

/* Samples that measure_call() takes at most. */
size_t measure_samples_most(const struct options *options);

/* Warms up and times `repetition`, on all ranks together. A sample starts with a barrier and
 * is as many operations, one after another, as take 20 us: reading the clock costs as much as a small
 * operation. A sample's time is the slowest rank's.
 *
 * samples  room for measure_samples_most() */
plait_status measure_call(struct repetition *repetition, const struct options *options, double *samples,
                          struct timing *timing);

/* Gets everybody to the start of a sample: caches emptied where that is wanted, then a barrier. */
plait_status measure_start(const struct repetition *repetition);

/* The operations of a sample. */
plait_status measure_operations(struct repetition *repetition);

/* Monotonic. */
double measure_ns(void);

/* Sorts `count` >= 1 values, and gives the median. */
double measure_median(double *values, int count);

/* Of each of `values` the greatest of all ranks'. */
plait_status measure_slowest(plait_comm *comm, double *values, size_t count);

#endif
