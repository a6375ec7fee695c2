#include "measure.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "cold.h"

enum {
    SAMPLE_NS = 20000,
    BUDGET_NS = 200000000,       /* for the samples of a row, unless -n says how many */
    LONG_BUDGET_NS = 2000000000, /* what twenty samples may take; more than that, and five do */
    OPERATIONS_MOST = 1 << 20,   /* of a sample */
    SAMPLES_FEW = 5,
    SAMPLES_LEAST = 20,
    SAMPLES_MOST = 5000,
};

double measure_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static plait_status run(struct repetition *repetition, int operations)
{
    struct call *call = &repetition->call;
    unsigned char *input = call->input, *output = call->output;
    size_t stride = repetition->cold_room > 0 ? cold_stride(repetition->whole) : 0;
    plait_status status = PLAIT_OK;
    for (int i = 0; i < operations && status == PLAIT_OK; i++) {
        call->input = input + (size_t)i * stride;
        call->output = output + (size_t)i * stride;
        status = call->collective->start(call);
        if (repetition->rotate)
            call->root = call->root + 1 < call->ranks ? call->root + 1 : 0;
    }
    call->input = input;
    call->output = output;
    return status;
}

plait_status measure_operations(struct repetition *repetition)
{
    return run(repetition, repetition->operations);
}

/* All that lies around the places of a sample, since in place the two buffers are one and begin apart. */
static void empty_caches(const struct repetition *repetition)
{
    const struct call *call = &repetition->call;
    size_t input = collective_input_count(call) * plait_type_size(call->type);
    size_t output = collective_output_count(call) * plait_type_size(call->type);
    size_t stride = cold_stride(repetition->whole);
    for (int i = 0; i < repetition->operations; i++) {
        cold_flush((const unsigned char *)call->input + (size_t)i * stride, input);
        cold_flush((const unsigned char *)call->output + (size_t)i * stride, output);
    }
}

plait_status measure_start(const struct repetition *repetition)
{
    if (repetition->cold_room > 0)
        empty_caches(repetition);
    return plait_barrier(repetition->call.comm, NULL);
}

/* One sample on this rank. */
static plait_status take_sample(struct repetition *repetition, double *ns)
{
    plait_status status = measure_start(repetition);
    if (status != PLAIT_OK)
        return status;
    double start = measure_ns();
    status = measure_operations(repetition);
    *ns = measure_ns() - start;
    return status;
}

plait_status measure_slowest(plait_comm *comm, double *values, size_t count)
{
    return plait_allreduce(comm, values, values, count, PLAIT_F64, PLAIT_MAX, NULL);
}

static int operations_most(const struct repetition *repetition)
{
    if (repetition->cold_room == 0)
        return OPERATIONS_MOST;
    int places = cold_places(repetition->whole, repetition->cold_room);
    return places < OPERATIONS_MOST ? places : OPERATIONS_MOST;
}

/* Finds how many operations make a sample long enough, and how long such a sample is. All
 * ranks decide from the same times, so they decide alike. */
static plait_status size_sample(struct repetition *repetition, double *ns)
{
    int most = operations_most(repetition);
    repetition->operations = 1;
    for (;;) {
        plait_status status = take_sample(repetition, ns);
        if (status == PLAIT_OK)
            status = measure_slowest(repetition->call.comm, ns, 1);
        if (status != PLAIT_OK || *ns >= SAMPLE_NS || repetition->operations >= most)
            return status;
        double factor = *ns > 0 ? 1.1 * SAMPLE_NS / *ns : 8;
        factor = factor < 1.5 ? 1.5
                 : factor > 8 ? 8
                              : factor; /* a first sample may be slow: creep up on it */
        double wanted = repetition->operations * factor + 1;
        repetition->operations = wanted < most ? (int)wanted : most;
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

double measure_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void summarise(double *samples, int count, int operations, struct timing *timing)
{
    double median = measure_median(samples, count);
    int last = (99 * count + 99) / 100 - 1; /* the smallest that 99 % do not exceed */
    timing->time_us = median / operations / 1000;
    timing->p99_us = samples[last] / operations / 1000;
    timing->max_us = samples[count - 1] / operations / 1000;
    timing->iters = (uint64_t)count * (uint64_t)operations;
}

size_t measure_samples_most(const struct options *options)
{
    return options->samples ? (size_t)options->samples : SAMPLES_MOST;
}

plait_status measure_call(struct repetition *repetition, const struct options *options, double *samples,
                          struct timing *timing)
{
    const struct call *call = &repetition->call;
    double sample_ns;
    plait_status status = PLAIT_OK;
    for (int i = 0; i < options->warmups && status == PLAIT_OK; i++)
        status = run(repetition, 1);
    if (status == PLAIT_OK)
        status = size_sample(repetition, &sample_ns);
    if (status != PLAIT_OK)
        return status;

    int count = options->samples ? options->samples : samples_within_budget(sample_ns);
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        status = take_sample(repetition, &samples[i]);
    timing->plan = call->collective->reports_plan ? plait_comm_last_plan(call->comm) : NULL;
    if (status == PLAIT_OK)
        status = measure_slowest(call->comm, samples, (size_t)count);
    if (status == PLAIT_OK)
        summarise(samples, count, repetition->operations, timing);
    return status;
}
