#include "measure.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

enum {
    SAMPLE_NS = 20000,
    BUDGET_NS = 200000000,       /* for the samples of a row, unless -n says how many */
    LONG_BUDGET_NS = 2000000000, /* what twenty samples may take; more than that, and five do */
    OPERATIONS_MOST = 1 << 20,   /* of a sample */
    SAMPLES_FEW = 5,
    SAMPLES_LEAST = 20,
    SAMPLES_MOST = 5000,
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static plait_status run(struct call *call, bool rotate, int operations)
{
    plait_status status = PLAIT_OK;
    for (int i = 0; i < operations && status == PLAIT_OK; i++) {
        status = call->collective->start(call);
        if (rotate)
            call->root = call->root + 1 < call->ranks ? call->root + 1 : 0;
    }
    return status;
}

/* One sample on this rank. */
static plait_status take_sample(struct call *call, bool rotate, int operations, double *ns)
{
    plait_status status = plait_barrier(call->comm, NULL);
    if (status != PLAIT_OK)
        return status;
    double start = now_ns();
    status = run(call, rotate, operations);
    *ns = now_ns() - start;
    return status;
}

static plait_status slowest(const struct call *call, double *values, size_t count)
{
    return plait_allreduce(call->comm, values, values, count, PLAIT_F64, PLAIT_MAX, NULL);
}

/* Finds how many operations make a sample long enough, and how long such a sample is. All
 * ranks decide from the same times, so they decide alike. */
static plait_status size_sample(struct call *call, bool rotate, int *operations, double *ns)
{
    *operations = 1;
    for (;;) {
        plait_status status = take_sample(call, rotate, *operations, ns);
        if (status == PLAIT_OK)
            status = slowest(call, ns, 1);
        if (status != PLAIT_OK || *ns >= SAMPLE_NS || *operations >= OPERATIONS_MOST)
            return status;
        double factor = *ns > 0 ? 1.1 * SAMPLE_NS / *ns : 8;
        factor = factor < 1.5 ? 1.5
                 : factor > 8 ? 8
                              : factor; /* a first sample may be slow: creep up on it */
        *operations = (int)(*operations * factor + 1);
    }
}

static int samples_within_budget(double sample_ns)
{
    double fitting = BUDGET_NS / sample_ns;
    if (fitting > SAMPLES_MOST)
        return SAMPLES_MOST;
    if (fitting >= SAMPLES_LEAST)
        return (int)fitting;
    fitting = LONG_BUDGET_NS / sample_ns;
    return fitting > SAMPLES_LEAST ? SAMPLES_LEAST : fitting > SAMPLES_FEW ? (int)fitting : SAMPLES_FEW;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(double *samples, int count, int operations, struct timing *timing)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    double median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    int last = (99 * count + 99) / 100 - 1; /* the smallest that 99 % do not exceed */
    timing->time_us = median / operations / 1000;
    timing->p99_us = samples[last] / operations / 1000;
    timing->iters = (uint64_t)count * (uint64_t)operations;
}

size_t measure_samples_most(const struct options *options)
{
    return options->samples ? (size_t)options->samples : SAMPLES_MOST;
}

plait_status measure_call(struct call *call, const struct options *options, bool rotate, double *samples,
                          struct timing *timing)
{
    int operations;
    double sample_ns;
    plait_status status = run(call, rotate, options->warmups);
    if (status == PLAIT_OK)
        status = size_sample(call, rotate, &operations, &sample_ns);
    if (status != PLAIT_OK)
        return status;

    int count = options->samples ? options->samples : samples_within_budget(sample_ns);
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        status = take_sample(call, rotate, operations, &samples[i]);
    timing->plan = call->collective->reports_plan ? plait_comm_last_plan(call->comm) : NULL;
    if (status == PLAIT_OK)
        status = slowest(call, samples, (size_t)count);
    if (status == PLAIT_OK)
        summarise(samples, count, operations, timing);
    return status;
}
