#include "explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum {
    BUDGET_NS = 100000000,
    SAMPLES_LEAST = 5,
    SAMPLES_MOST = 301,
    ROWS_MOST = 16,   /* of the table: beyond, the average alone */
    FAR_LINE_NS = 120 /* a line takes longer only between cores that share no cache */
};

/* ----------------------------------------------------------------- measuring */

static double per_operation(int64_t after, int64_t before, uint64_t operations)
{
    return operations > 0 ? (double)(after - before) / (double)operations : 0;
}

static struct share share_of(const plait_profile *before, const plait_profile *after, int ranks)
{
    uint64_t count = after->operations - before->operations;
    struct share share = {
        .waiting_us = per_operation(after->waiting_ns, before->waiting_ns, count) / 1000,
        .copying_us = per_operation(after->copying_ns, before->copying_ns, count) / 1000,
        .reducing_us = per_operation(after->reducing_ns, before->reducing_ns, count) / 1000,
        .other_us = per_operation(after->other_ns, before->other_ns, count) / 1000,
        .copied = per_operation((int64_t)after->copied_bytes, (int64_t)before->copied_bytes, count),
        .reduced = per_operation((int64_t)after->reduced_bytes, (int64_t)before->reduced_bytes, count),
        .chunks = per_operation((int64_t)after->chunks, (int64_t)before->chunks, count),
        .awaited = -1,
        .operations = count,
    };
    share.time_us = share.waiting_us + share.copying_us + share.reducing_us + share.other_us;
    for (int rank = 0; rank < ranks; rank++) {
        double us = per_operation(after->awaited_ns[rank], before->awaited_ns[rank], count) / 1000;
        if (us > share.awaited_us) {
            share.awaited_us = us;
            share.awaited = rank;
        }
    }
    return share;
}

/* One sample with the profile on. It goes on after the barrier and off again before the next one, for
 * barriers are collectives, too. */
static plait_status profile_sample(struct repetition *repetition, plait_profile *before, plait_profile *after,
                                   struct share *share)
{
    plait_comm *comm = repetition->call.comm;
    plait_status status = plait_comm_profile(comm, before);
    if (status == PLAIT_OK)
        status = measure_start(repetition);
    if (status == PLAIT_OK)
        status = plait_comm_set_profiling(comm, 1);
    if (status == PLAIT_OK)
        status = measure_operations(repetition);
    if (status == PLAIT_OK)
        status = plait_comm_set_profiling(comm, 0);
    if (status == PLAIT_OK)
        status = plait_comm_profile(comm, after);
    if (status == PLAIT_OK)
        *share = share_of(before, after, repetition->call.ranks);
    return status;
}

/* Samples until the time is up on all ranks. */
static plait_status profile_samples(struct repetition *repetition, struct share *samples, int64_t *awaited,
                                    int *count)
{
    plait_comm *comm = repetition->call.comm;
    plait_profile before = { .struct_size = sizeof before, .awaited_ns = awaited };
    plait_profile after = { .struct_size = sizeof after, .awaited_ns = awaited + repetition->call.ranks };
    double start = measure_ns(), over = 0;
    plait_status status = PLAIT_OK;
    for (*count = 0; *count < SAMPLES_MOST && over <= 0 && status == PLAIT_OK; (*count)++) {
        status = profile_sample(repetition, &before, &after, &samples[*count]);
        over = *count + 1 >= SAMPLES_LEAST && measure_ns() - start >= BUDGET_NS;
        if (status == PLAIT_OK)
            status = measure_slowest(comm, &over, 1);
    }
    return status;
}

/* The sample of median time, where the slowest rank's time counts: the same on all ranks. */
static plait_status find_median(plait_comm *comm, const struct share *samples, int count, int *found)
{
    double times[SAMPLES_MOST], sorted[SAMPLES_MOST];
    for (int i = 0; i < count; i++)
        times[i] = samples[i].time_us;
    plait_status status = measure_slowest(comm, times, (size_t)count);
    memcpy(sorted, times, sizeof times[0] * (size_t)count);
    measure_median(sorted, count);
    *found = 0;
    while (times[*found] != sorted[count / 2] && *found + 1 < count)
        (*found)++;
    return status;
}

plait_status explain_call(struct repetition *repetition, struct share *shares)
{
    const struct call *call = &repetition->call;
    int64_t *awaited = calloc(2 * (size_t)call->ranks, sizeof *awaited);
    struct share *samples = calloc(SAMPLES_MOST, sizeof *samples);
    int count = 0, median = 0;
    plait_status status =
        awaited && samples ? profile_samples(repetition, samples, awaited, &count) : PLAIT_OUT_OF_MEMORY;
    if (status == PLAIT_OK)
        status = find_median(call->comm, samples, count, &median);
    if (status == PLAIT_OK)
        status = plait_allgather(call->comm, &samples[median], shares, sizeof *shares, PLAIT_U8, NULL);
    free(awaited);
    free(samples);
    return status;
}

/* ----------------------------------------------------------------- reporting */

static struct share average(const struct share *shares, int ranks)
{
    struct share sum = { .awaited = -1 };
    for (int rank = 0; rank < ranks; rank++) {
        sum.time_us += shares[rank].time_us / ranks;
        sum.waiting_us += shares[rank].waiting_us / ranks;
        sum.copying_us += shares[rank].copying_us / ranks;
        sum.reducing_us += shares[rank].reducing_us / ranks;
        sum.other_us += shares[rank].other_us / ranks;
        sum.copied += shares[rank].copied / ranks;
        sum.reduced += shares[rank].reduced / ranks;
        sum.chunks += shares[rank].chunks / ranks;
        sum.operations += shares[rank].operations;
    }
    return sum;
}

/* Bytes a microsecond are MB/s; GB/s. */
static double rate(double bytes, double us)
{
    return us > 0 ? bytes / us / 1000 : 0;
}

static void print_share(FILE *table, const char *name, const struct share *share)
{
    const double parts[] = { share->waiting_us, share->copying_us, share->reducing_us, share->other_us };
    fprintf(table, "#   %9s", name);
    text_number(table, 10, share->time_us);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        text_number(table, 10, parts[i]);
        fprintf(table, " %3.0f %%", share->time_us > 0 ? 100 * parts[i] / share->time_us : 0);
    }
    if (share->awaited >= 0)
        fprintf(table, "  mostly for rank %" PRId64, share->awaited);
    fputc('\n', table);
}

static void print_words(FILE *table, const struct share *all, double line_ns)
{
    double percent = all->time_us > 0 ? 100 / all->time_us : 0;
    fprintf(table, "#   On average %.0f %% waiting", all->waiting_us * percent);
    if (all->copied > 0)
        fprintf(table, ", %.0f %% copying at %.1f GB/s", all->copying_us * percent,
                rate(all->copied, all->copying_us));
    if (all->reduced > 0)
        fprintf(table, ", %.0f %% reducing at %.1f GB/s read", all->reducing_us * percent,
                rate(all->reduced, all->reducing_us));
    fprintf(table, ", %.0f %% the library's own", all->other_us * percent);
    if (all->chunks >= 1)
        fprintf(table, "; %.0f %s", all->chunks, all->chunks < 1.5 ? "chunk" : "chunks");
    else
        fprintf(table, "; the data ride in the notices");
    if (line_ns > 0)
        fprintf(table, "; a line costs %.0f ns (%s)", line_ns, line_ns > FAR_LINE_NS ? "far" : "near");
    if (line_ns > 0 && all->chunks < 1)
        fprintf(table, ", the wait is %.1f of them", all->waiting_us * 1000 / line_ns);
    fprintf(table, ".\n");
}

void explain_print(FILE *table, const struct share *shares, int ranks, const char *place, double line_ns)
{
    struct share all = average(shares, ranks);
    if (all.operations == 0) {
        fprintf(table, "#   %s: not explained, for messages are not profiled\n", place);
        return;
    }
    fprintf(table, "#   %-9s%10s%16s%16s%16s%16s\n", place, "time us", "waiting us    ", "copying us    ",
            "reducing us    ", "other us    ");
    for (int rank = 0; rank < ranks && ranks <= ROWS_MOST; rank++) {
        char name[24];
        snprintf(name, sizeof name, "rank %d", rank);
        print_share(table, name, &shares[rank]);
    }
    print_share(table, "average", &all);
    print_words(table, &all, line_ns);
}

static void json_share(FILE *json, const struct share *share, int rank)
{
    fprintf(json, "{\"rank\": %d, \"operations\": %" PRIu64, rank, share->operations);
    json_number(json, "time_us", share->time_us);
    json_number(json, "waiting_us", share->waiting_us);
    json_number(json, "copying_us", share->copying_us);
    json_number(json, "reducing_us", share->reducing_us);
    json_number(json, "other_us", share->other_us);
    json_number(json, "copied_bytes", share->copied);
    json_number(json, "reduced_bytes", share->reduced);
    json_number(json, "chunks", share->chunks);
    if (share->awaited >= 0)
        fprintf(json, ", \"awaited\": %" PRId64, share->awaited);
    else
        fputs(", \"awaited\": null", json);
    json_number(json, "awaited_us", share->awaited_us);
    fputc('}', json);
}

void explain_json(FILE *json, const struct share *shares, int ranks)
{
    fputs(", \"explain\": ", json);
    if (!shares || shares[0].operations == 0) {
        fputs("null", json);
        return;
    }
    for (int rank = 0; rank < ranks; rank++) {
        fputs(rank == 0 ? "[" : ", ", json);
        json_share(json, &shares[rank], rank);
    }
    fputc(']', json);
}
