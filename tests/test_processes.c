/* Ranks as real processes over shared memory: the streams of calls, both ways to meet, worlds one after
 * another. */
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "calls.h"
#include "streams.h"

/* The world says that its ranks are processes of one host. */
static void run_facts(struct rank *rank)
{
    plait_world_facts facts = { .struct_size = sizeof facts };
    rank_ok(rank, plait_world_get_facts(rank->world, &facts), "asking for facts");
    rank_check(rank, rank->size == 1 || strcmp(facts.transport, "shm") == 0, "the transport is \"%s\"",
               facts.transport);
    rank_check(rank, plait_world_local_size(rank->world) == rank->size, "%d ranks on this host",
               plait_world_local_size(rank->world));
    rank_check(rank, plait_world_local_rank(rank->world) == rank->number, "local rank %d",
               plait_world_local_rank(rank->world));
}

/* One world after another through the same meeting place. */
static void run_again(struct rank *rank)
{
    for (int turn = 0; turn < 12 && !rank_failed(rank); turn++) {
        plait_world *world = NULL;
        plait_world_options options = rank_options(rank);
        rank_doing(rank, "creating world %d", turn);
        if (!rank_ok(rank, plait_world_create(&options, &world), "creating a world"))
            return;
        int value = turn, sum = 0;
        rank_doing(rank, "an all-reduce in world %d", turn);
        rank_ok(rank, plait_allreduce(plait_world_comm(world), &value, &sum, 1, PLAIT_I32, PLAIT_SUM, NULL),
                "all-reduce");
        rank_check(rank, sum == turn * rank->size, "the sum is %d", sum);
        rank_doing(rank, "destroying world %d", turn);
        rank_ok(rank, plait_world_destroy(world), "destroying a world");
    }
}

/* Some ranks come late. */
static void run_late(struct rank *rank)
{
    plait_world_options options = rank_options(rank);
    sleep_ms((rank->number * 7 % 3) * 150);
    rank_doing(rank, "creating the world");
    if (rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world"))
        rank_ok(rank, plait_barrier(plait_world_comm(rank->world), NULL), "barrier");
}

static void hear_tick(int signal)
{
    (void)signal;
}

/* Signals all the time, whose handler does not restart what they interrupt. */
static void run_storm(struct rank *rank)
{
    struct sigaction action = { .sa_handler = hear_tick };
    const struct itimerval storm = { { 0, 700 }, { 0, 700 } }, calm = { { 0, 0 }, { 0, 0 } };
    plait_world_options options = rank_options(rank);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &storm, NULL);
    rank_doing(rank, "creating the world in a storm of signals");
    if (rank_ok(rank, plait_world_create(&options, &rank->world), "creating the world")) {
        rank->comm = plait_world_comm(rank->world);
        stream_everything(rank);
        stream_large(rank);
        rank_doing(rank, "destroying the world in a storm of signals");
        rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
        rank->world = NULL;
    }
    setitimer(ITIMER_REAL, &calm, NULL);
}

static int64_t cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

/* A world in which nothing happens uses no CPU; nor does one whose works have come to their end. */
static void run_idle(struct rank *rank)
{
    float value = 1;
    plait_work *work = NULL;
    for (int i = 0; i < 100; i++) {
        rank_ok(rank, plait_allreduce(rank->comm, &value, &value, 1, PLAIT_F32, PLAIT_MAX, &work),
                "all-reduce");
        rank_ok(rank, plait_work_wait(work, -1), "waiting");
        plait_work_release(work);
    }
    sleep_ms(50);
    rank_meet(rank);
    const int64_t before = cpu_us();
    rank_doing(rank, "idle");
    sleep_ms(600);
    const int64_t used = cpu_us() - before;
    rank_check(rank, used < 6000 * ranks_slowness(), "an idle world used %lld us of 600 ms", (long long)used);
    rank_meet(rank);
}

/* One who waits long for a late rank sleeps meanwhile. */
static void run_waiting_sleeps(struct rank *rank)
{
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    if (rank->number == 0)
        sleep_ms(600);
    const int64_t before = cpu_us();
    rank_doing(rank, "a barrier with a late rank");
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    const int64_t used = cpu_us() - before;
    rank_check(rank, used < 120000 * ranks_slowness(), "waiting 600 ms used %lld us of CPU", (long long)used);
}

#define FILES(title, function, ranks)                                                                        \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks, .shared_size = STREAM_SHARED }, NULL            \
    }
#define TORCH(title, function, ranks)                                                                        \
    {                                                                                                        \
        title, function, { .way = RANKS_ENVIRONMENT, .size = ranks, .shared_size = STREAM_SHARED }, NULL     \
    }
#define PLAN(name, ranks)                                                                                    \
    {                                                                                                        \
        "everything, " name, stream_everything, { .way = RANKS_FILE, .size = ranks, .plan = name }, NULL     \
    }
#define BARE(title, function, meeting, ranks)                                                                \
    {                                                                                                        \
        title, function, { .way = meeting, .size = ranks, .bare = true }, NULL                               \
    }

static const struct scenario scenarios[] = {
    FILES("facts", run_facts, 2),
    TORCH("facts", run_facts, 3),
    FILES("everything", stream_everything, 1),
    FILES("everything", stream_everything, 2),
    FILES("everything", stream_everything, 3),
    TORCH("everything", stream_everything, 5),
    TORCH("everything", stream_everything, 8),
    FILES("everything", stream_everything, 9),
    PLAN("direct-one-shot", 3),
    PLAN("direct-two-phase", 3),
    PLAN("doubling", 4),
    PLAN("ring", 3),
    PLAN("tree", 5),
    PLAN("chain", 3),
    PLAN("pairwise", 3),
    FILES("small ones in a row", stream_small, 2),
    FILES("small ones in a row", stream_small, 3),
    TORCH("small ones in a row", stream_small, 8),
    FILES("repeats give the same bits", stream_repeats, 2),
    FILES("repeats give the same bits", stream_repeats, 5),
    FILES("megabytes", stream_large, 2),
    FILES("megabytes", stream_large, 3),
    TORCH("megabytes", stream_large, 5),
    BARE("one world after another, over a file", run_again, RANKS_FILE, 3),
    BARE("one world after another, over the environment", run_again, RANKS_ENVIRONMENT, 3),
    BARE("late ranks, over a file", run_late, RANKS_FILE, 4),
    BARE("late ranks, over the environment", run_late, RANKS_ENVIRONMENT, 4),
    BARE("a storm of signals, over a file", run_storm, RANKS_FILE, 3),
    BARE("a storm of signals, over the environment", run_storm, RANKS_ENVIRONMENT, 2),
    FILES("idle", run_idle, 2),
    FILES("waiting long", run_waiting_sleeps, 2),
};

int main(void)
{
    return scenarios_run("processes", scenarios, LENGTH(scenarios));
}
