/* Profiles: where the time of collectives went, as a caller reads it. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { MOST_RANKS = 4, LATE_MS = 150, LARGE = 1 << 18 };

struct reading {
    plait_profile profile;
    int64_t awaited[MOST_RANKS];
};

static bool read_profile(struct rank *rank, struct reading *reading)
{
    *reading = (struct reading){ .profile = { .struct_size = sizeof reading->profile,
                                              .awaited_ns = reading->awaited } };
    return rank_ok(rank, plait_comm_profile(rank->comm, &reading->profile), "reading the profile");
}

static int64_t total_ns(const plait_profile *profile)
{
    return profile->waiting_ns + profile->copying_ns + profile->reducing_ns + profile->other_ns;
}

static bool reduce_some(struct rank *rank, size_t count, int operations)
{
    float *data = calloc(count, sizeof *data);
    bool good = data != NULL;
    for (int i = 0; i < operations && good; i++)
        good = rank_ok(rank, plait_allreduce(rank->comm, data, data, count, PLAIT_F32, PLAIT_SUM, NULL),
                       "all-reduce");
    free(data);
    return good;
}

static void check_awaited(struct rank *rank, const struct reading *reading)
{
    int64_t sum = 0;
    for (int i = 0; i < rank->size; i++)
        sum += reading->awaited[i];
    int64_t off = reading->profile.waiting_ns - sum;
    rank_check(rank, off >= 0 && off <= rank->size, "ranks make up %lld of %lld ns waited", (long long)sum,
               (long long)reading->profile.waiting_ns);
    rank_check(rank, reading->awaited[rank->number] == 0, "a rank waited for itself");
}

/* Nothing before it is on, all of it while it is, nothing after. */
static void run_on_and_off(struct rank *rank)
{
    struct reading off, on, later;
    if (!reduce_some(rank, LARGE, 1) || !read_profile(rank, &off))
        return;
    rank_check(rank, off.profile.operations == 0 && total_ns(&off.profile) == 0, "counted while off");
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 1), "on");
    int64_t start = now_ns();
    reduce_some(rank, LARGE, 3);
    int64_t took = now_ns() - start;
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 0), "off");
    read_profile(rank, &on);
    reduce_some(rank, LARGE, 2);
    read_profile(rank, &later);

    rank_check(rank, on.profile.operations == 3, "%llu operations",
               (unsigned long long)on.profile.operations);
    rank_check(rank, later.profile.operations == 3 && later.profile.copied_bytes == on.profile.copied_bytes,
               "counted after it was switched off");
    int64_t total = total_ns(&on.profile);
    rank_check(rank, total > 0 && total <= took + took / 50, "%lld ns of %lld", (long long)total,
               (long long)took);
    check_awaited(rank, &on);
}

/* What moves is counted, by whatever plan: each element is read from each rank by somebody. */
static void run_bytes(struct rank *rank)
{
    struct reading reading;
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 1), "on");
    reduce_some(rank, LARGE, 1);
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 0), "off");
    read_profile(rank, &reading);
    uint64_t sums[2] = { reading.profile.reduced_bytes, reading.profile.copied_bytes };
    rank_ok(rank, plait_allreduce(rank->comm, sums, sums, 2, PLAIT_U64, PLAIT_SUM, NULL), "adding up");
    size_t size = (size_t)LARGE * sizeof(float);
    rank_check(rank,
               sums[0] >= 2 * size * (size_t)(rank->size - 1) && sums[0] <= 2 * size * (size_t)rank->size * 2,
               "%llu bytes reduced", (unsigned long long)sums[0]);
    rank_check(rank, reading.profile.reducing_ns > 0, "no time to reduce");
    rank_check(rank, reading.profile.chunks >= 1, "no chunk");
    if (reading.profile.copied_bytes > 0)
        rank_check(rank, reading.profile.copying_ns > 0, "no time to copy");
}

/* The rank that comes late is the one that is waited for. Half of its lateness will do: on a busy machine the
 * others are late as well. */
static void run_late(struct rank *rank)
{
    struct reading reading;
    int late = rank->size - 1;
    reduce_some(rank, LARGE, 1); /* so that no rank is late for making its plan */
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 1), "on");
    for (size_t count = 1; count <= LARGE; count *= LARGE) { /* in a notice, and by steps */
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        if (rank->number == late)
            sleep_ms(LATE_MS);
        reduce_some(rank, count, 1);
    }
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 0), "off");
    read_profile(rank, &reading);
    check_awaited(rank, &reading);
    if (rank->number != late)
        rank_check(rank, reading.awaited[late] > (int64_t)LATE_MS * 1000000,
                   "waited %lld ns for the late rank", (long long)reading.awaited[late]);
}

static void run_small(struct rank *rank)
{
    struct reading reading;
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 1), "on");
    rank_ok(rank, plait_comm_set_profiling(rank->comm, 7), "on once more");
    reduce_some(rank, 2, 5);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    reduce_some(rank, 0, 1);
    read_profile(rank, &reading);
    rank_check(rank, reading.profile.operations == 7, "%llu operations",
               (unsigned long long)reading.profile.operations);
    rank_check(rank, reading.profile.copied_bytes == 0 && total_ns(&reading.profile) > 0, "bytes or no time");
    check_awaited(rank, &reading);
}

static void run_arguments(struct rank *rank)
{
    plait_profile profile = { .struct_size = 0 };
    rank_status(rank, plait_comm_profile(rank->comm, NULL), PLAIT_INVALID_ARGUMENT, "no profile");
    rank_says(rank, "profile is NULL");
    rank_status(rank, plait_comm_profile(rank->comm, &profile), PLAIT_INVALID_ARGUMENT, "no size");
    rank_says(rank, "struct_size is 0; set it to sizeof(plait_profile)");

    rank_ok(rank, plait_comm_set_profiling(rank->comm, 1), "on");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    memset(&profile, 0x5a, sizeof profile);
    profile.awaited_ns = NULL;
    profile.struct_size = offsetof(plait_profile, chunks); /* an earlier version's */
    rank_ok(rank, plait_comm_profile(rank->comm, &profile), "a short one");
    rank_check(rank, profile.operations == 1 && profile.chunks == UINT64_C(0x5a5a5a5a5a5a5a5a),
               "wrote beyond struct_size");
}

#define BOTH(title, function, ranks)                                                                         \
    { title, function, { .way = RANKS_THREADS, .size = ranks }, NULL },                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    BOTH("on and off", run_on_and_off, 1),
    BOTH("on and off", run_on_and_off, 3),
    BOTH("bytes", run_bytes, 2),
    { "bytes of a ring", run_bytes, { .way = RANKS_THREADS, .size = 3, .plan = "ring" }, NULL },
    { "bytes of doubling", run_bytes, { .way = RANKS_THREADS, .size = 4, .plan = "doubling" }, NULL },
    BOTH("a late rank", run_late, 3),
    { "a late rank of a ring", run_late, { .way = RANKS_FILE, .size = 2, .plan = "ring" }, NULL },
    BOTH("small ones", run_small, 2),
    BOTH("arguments", run_arguments, 2),
};

int main(void)
{
    return scenarios_run("profiles", scenarios, LENGTH(scenarios));
}
