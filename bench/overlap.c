#include "overlap.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "text.h"

enum {
    BUDGET_NS = 1500000000, /* for the samples of a row, unless -n says how many */
    SAMPLES_LEAST = 11,
    SAMPLES_MOST = 301,
    CALIBRATIONS = 9,
    CELLS = 2048, /* of what is computed on: half of a first-level cache */
};

enum turn { BLOCKING, ASYNC, COMPUTING, COMPUTING_BESIDE, SLEEPING, SLEEPING_BESIDE, TURNS };

/* ------------------------------------------------------------ the caller's part */

/* What a caller computes: arithmetic out of the first-level cache. */
static void compute(uint64_t rounds)
{
    static _Thread_local float cells[CELLS];
    for (uint64_t round = 0; round < rounds; round++) {
        float *cell = &cells[round * 64 % CELLS];
        for (int i = 0; i < 64; i++)
            cell[i] = cell[i] * 0.999F + 1.0F;
        __asm__ volatile("" : : "r"(cell) : "memory"); /* as if somebody looked at it */
    }
}

static void rest(double ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)ns % 1000000000 };
    nanosleep(&time, NULL);
}

/* Rounds of compute() that take `ns` on this rank. */
static uint64_t rounds_of(double ns)
{
    enum { ROUNDS = 2000 };
    double best = 1e18;
    for (int i = 0; i < CALIBRATIONS; i++) {
        double start = measure_ns();
        compute(ROUNDS);
        double took = measure_ns() - start;
        best = took < best ? took : best;
    }
    return (uint64_t)(ns / best * ROUNDS) + 1;
}

/* ------------------------------------------------------------------- measuring */

struct sampler {
    struct call *call;
    double part_ns;  /* the caller's part */
    uint64_t rounds; /* of compute(), to fill it */
    double *times[TURNS];
    double *inner[2]; /* the caller's part within COMPUTING_BESIDE and SLEEPING_BESIDE */
};

static void do_part(const struct sampler *sampler, bool sleeps)
{
    if (sleeps)
        rest(sampler->part_ns);
    else
        compute(sampler->rounds);
}

/* An operation under way with the caller's part beside it, if there is one. */
static plait_status run_async(const struct sampler *sampler, enum turn turn, double *inner)
{
    plait_work *work = NULL;
    sampler->call->work = &work;
    plait_status status = sampler->call->collective->start(sampler->call);
    sampler->call->work = NULL;
    if (status != PLAIT_OK)
        return status;
    double start = measure_ns();
    if (turn != ASYNC)
        do_part(sampler, turn == SLEEPING_BESIDE);
    *inner = measure_ns() - start;
    status = plait_work_wait(work, -1);
    plait_work_release(work);
    return status;
}

static plait_status take_turn(const struct sampler *sampler, enum turn turn, int sample)
{
    double inner = 0;
    plait_status status = plait_barrier(sampler->call->comm, NULL);
    if (status != PLAIT_OK)
        return status;
    double start = measure_ns();
    switch (turn) {
    case BLOCKING: status = sampler->call->collective->start(sampler->call); break;
    case COMPUTING:
    case SLEEPING: do_part(sampler, turn == SLEEPING); break;
    default: status = run_async(sampler, turn, &inner); break;
    }
    sampler->times[turn][sample] = measure_ns() - start;
    if (turn == COMPUTING_BESIDE || turn == SLEEPING_BESIDE)
        sampler->inner[turn == SLEEPING_BESIDE][sample] = inner;
    return status;
}

/* Warms up, and finds how long the caller's part is to be. All ranks take the slowest one's time. */
static plait_status size_part(struct sampler *sampler, const struct options *options)
{
    plait_status status = PLAIT_OK;
    for (int i = 0; i < options->warmups + SAMPLES_LEAST && status == PLAIT_OK; i++)
        status = take_turn(sampler, BLOCKING, i < options->warmups ? 0 : i - options->warmups);
    if (status != PLAIT_OK)
        return status;
    sampler->part_ns = measure_median(sampler->times[BLOCKING], SAMPLES_LEAST);
    status = measure_slowest(sampler->call->comm, &sampler->part_ns, 1);
    sampler->rounds = rounds_of(sampler->part_ns);
    return status;
}

static int sample_count(const struct sampler *sampler, const struct options *options)
{
    if (options->samples)
        return options->samples < SAMPLES_MOST ? options->samples : SAMPLES_MOST;
    double fitting = BUDGET_NS / (9 * sampler->part_ns + 200000);
    return fitting > SAMPLES_MOST ? SAMPLES_MOST : fitting < SAMPLES_LEAST ? SAMPLES_LEAST : (int)fitting;
}

static struct beside compare(double operation_us, double alone_us, double both_us)
{
    double shorter = operation_us < alone_us ? operation_us : alone_us;
    return (struct beside){ .alone_us = alone_us,
                            .both_us = both_us,
                            .hidden = (operation_us + alone_us - both_us) / shorter,
                            .blocked = both_us / (operation_us + alone_us) };
}

static plait_status summarise(const struct sampler *sampler, int count, struct overlap *overlap)
{
    plait_comm *comm = sampler->call->comm;
    double us[TURNS] = { 0 };
    plait_status status = measure_slowest(comm, sampler->inner[0], (size_t)count);
    if (status == PLAIT_OK)
        status = measure_slowest(comm, sampler->inner[1], (size_t)count);
    for (int turn = 0; turn < TURNS && status == PLAIT_OK; turn++) {
        status = measure_slowest(comm, sampler->times[turn], (size_t)count);
        us[turn] = measure_median(sampler->times[turn], count) / 1000;
    }
    overlap->blocking_us = us[BLOCKING];
    overlap->async_us = us[ASYNC];
    overlap->computing = compare(us[BLOCKING], us[COMPUTING], us[COMPUTING_BESIDE]);
    overlap->computing.slowed = measure_median(sampler->inner[0], count) / 1000 / us[COMPUTING] - 1;
    overlap->sleeping.slowed = measure_median(sampler->inner[1], count) / 1000 / us[SLEEPING] - 1;
    overlap->sleeping = compare(us[BLOCKING], us[SLEEPING], us[SLEEPING_BESIDE]);
    overlap->samples = count;
    return status;
}

plait_status overlap_measure(struct call *call, const struct options *options, struct overlap *overlap)
{
    double *room = calloc((TURNS + 2) * (size_t)SAMPLES_MOST, sizeof *room);
    struct sampler sampler = { .call = call, .inner = { room, room + SAMPLES_MOST } };
    if (!room)
        return PLAIT_OUT_OF_MEMORY;
    for (int turn = 0; turn < TURNS; turn++)
        sampler.times[turn] = room + (turn + 2) * SAMPLES_MOST;
    plait_status status = size_part(&sampler, options);
    int count = status == PLAIT_OK ? sample_count(&sampler, options) : 0;
    for (int sample = 0; sample < count && status == PLAIT_OK; sample++)
        for (int turn = 0; turn < TURNS && status == PLAIT_OK; turn++)
            status = take_turn(&sampler, (enum turn)turn, sample);
    overlap->plan = plait_comm_last_plan(call->comm);
    if (status == PLAIT_OK)
        status = summarise(&sampler, count, overlap);
    free(room);
    return status;
}

/* ------------------------------------------------------------------- reporting */

void overlap_print_head(FILE *table, const struct collective *collective)
{
    fprintf(table,
            "# %s\n"
            "#                                operation alone     beside a caller that computes      "
            "          beside one that sleeps\n"
            "#      size  type    redop   blocking     async     alone      both  hidden  slowed  "
            "   alone      both  hidden  samples  plan\n"
            "#       (B)                      (us)      (us)      (us)      (us)     (%%)     (%%)  "
            "    (us)      (us)     (%%)\n",
            collective->name);
}

void overlap_print(FILE *table, const struct row *row, const struct overlap *overlap)
{
    fprintf(table, "%11zu %5s %8s ", row->bytes, row->type ? plait_type_name(row->type) : "none",
            row->op ? plait_op_name(row->op) : "none");
    text_number(table, 10, overlap->blocking_us);
    text_number(table, 10, overlap->async_us);
    text_number(table, 10, overlap->computing.alone_us);
    text_number(table, 10, overlap->computing.both_us);
    fprintf(table, "%8.0f%8.0f", 100 * overlap->computing.hidden, 100 * overlap->computing.slowed);
    text_number(table, 10, overlap->sleeping.alone_us);
    text_number(table, 10, overlap->sleeping.both_us);
    fprintf(table, "%8.0f%9d  %s\n", 100 * overlap->sleeping.hidden, overlap->samples, overlap->plan);
    fflush(table);
}

static void json_beside(FILE *json, const char *name, const struct beside *beside)
{
    fprintf(json, ", \"%s\": {\"alone_us\": %.9g", name, beside->alone_us);
    json_number(json, "both_us", beside->both_us);
    json_number(json, "hidden", beside->hidden);
    json_number(json, "to_serial", beside->blocked);
    json_number(json, "slowed", beside->slowed);
    fputc('}', json);
}

void overlap_json(FILE *json, const struct row *row, int ranks, const struct overlap *overlap)
{
    fputs("{\"overlap\": ", json);
    json_string(json, row->collective->name);
    fputs(", \"type\": ", json);
    json_string(json, row->type ? plait_type_name(row->type) : NULL);
    fputs(", \"op\": ", json);
    json_string(json, row->op ? plait_op_name(row->op) : NULL);
    fprintf(json, ", \"ranks\": %d, \"bytes\": %zu, \"samples\": %d", ranks, row->bytes, overlap->samples);
    json_number(json, "blocking_us", overlap->blocking_us);
    json_number(json, "async_us", overlap->async_us);
    json_beside(json, "computing", &overlap->computing);
    json_beside(json, "sleeping", &overlap->sleeping);
    fputs(", \"plan\": ", json);
    json_string(json, overlap->plan);
    fputs("}\n", json);
    fflush(json);
}
