/* Groups, prepared calls, memory, v-forms and callers' operations at the wrong moment: with the wrong handle, in a forked
 * child, after the world's end, before a group starts. */
#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

static bool refused(struct rank *rank, plait_status got, plait_status wanted, const char *says)
{
    return rank_status(rank, got, wanted, says) && rank_says(rank, says);
}

static void still_works(struct rank *rank)
{
    int64_t value = 1, sum = 0;
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
            "a call after it");
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
}

/* ----------------------------------------------------------------------------- handles */

/* Every new function with a handle of another kind, an ended one, or none. */
static void try_handle(struct rank *rank, void *handle, plait_status wanted)
{
    int64_t input[RANKS_MOST] = { 0 }, output[RANKS_MOST] = { 0 };
    size_t ones[RANKS_MOST];
    void *memory = NULL;
    unsigned char *pages = aligned_alloc(4096, 4096);
    for (int i = 0; i < RANKS_MOST; i++)
        ones[i] = 1;
    const plait_status got[] = {
        plait_allgatherv(handle, input, 1, output, ones, NULL, PLAIT_I64, NULL),
        plait_reduce_scatterv(handle, input, output, ones, PLAIT_I64, PLAIT_SUM, NULL),
        plait_gatherv(handle, input, 1, output, ones, NULL, PLAIT_I64, 0, NULL),
        plait_scatterv(handle, input, ones, NULL, output, 1, PLAIT_I64, 0, NULL),
        plait_alltoallv(handle, input, ones, NULL, output, ones, NULL, PLAIT_I64, NULL),
        plait_scan(handle, input, output, 1, PLAIT_I64, PLAIT_SUM, NULL),
        plait_exscan(handle, input, output, 1, PLAIT_I64, PLAIT_SUM, NULL),
        plait_prepared_start(handle, NULL),
        plait_mem_alloc(handle, 1, &memory),
        plait_mem_free(handle, pages),
        plait_mem_register(handle, pages, 4096),
        plait_mem_deregister(handle, pages),
    };
    for (size_t i = 0; i < LENGTH(got); i++)
        rank_check(rank, got[i] == wanted, "call %zu gave %s", i, plait_status_name(got[i]));
    rank_check(rank, memory == NULL, "memory was given");
    plait_prepared_release(handle);
    free(pages);
}

static void run_handles(struct rank *rank)
{
    plait_comm *comm = NULL;
    plait_work *work = NULL;
    plait_prepared *prepared = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
    rank_ok(rank, plait_comm_destroy(comm), "destroy");
    rank_ok(rank, plait_barrier(rank->comm, &work), "barrier");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing");
    plait_prepared_release(prepared);
    try_handle(rank, NULL, PLAIT_INVALID_ARGUMENT);
    try_handle(rank, comm, PLAIT_INVALID_USAGE);
    try_handle(rank, work, PLAIT_INVALID_USAGE);
    try_handle(rank, prepared, PLAIT_INVALID_USAGE);
    try_handle(rank, &comm, PLAIT_INVALID_USAGE);
    try_handle(rank, (void *)(intptr_t)-1, PLAIT_INVALID_USAGE);
    rank_status(rank, plait_prepared_start((plait_prepared *)rank->comm, NULL), PLAIT_INVALID_USAGE,
                "starting a communicator");
    rank_status(rank, plait_mem_alloc((plait_world *)rank->comm, 1, (void **)&work), PLAIT_INVALID_USAGE,
                "memory of a communicator");
    plait_prepared_release((plait_prepared *)rank->comm);
    still_works(rank);
}

/* In a group, a refusal spoils the whole group, whatever function it was. */
static void run_handles_in_groups(struct rank *rank)
{
    int64_t input[2] = { 1, 2 }, output[2] = { 7, 7 };
    const size_t ones[RANKS_MOST] = { 1 };
    for (int turn = 0; turn < 4 && !rank_failed(rank); turn++) {
        rank_ok(rank, plait_group_begin(), "begin");
        rank_ok(rank, plait_allreduce(rank->comm, input, output, 2, PLAIT_I64, PLAIT_SUM, NULL),
                "a good call");
        const plait_status status =
            turn == 0   ? plait_scan(NULL, input, output, 1, PLAIT_I64, PLAIT_SUM, NULL)
            : turn == 1 ? plait_alltoallv(rank->comm, input, NULL, NULL, output, ones, NULL, PLAIT_I64, NULL)
            : turn == 2 ? plait_recv(rank->comm, output, 1, PLAIT_I64, rank->size, 0, NULL, NULL, NULL)
                        : plait_exscan(rank->comm, input, output, 1, PLAIT_I64, PLAIT_AVERAGE, NULL);
        rank_status(rank, status, PLAIT_INVALID_ARGUMENT, "a bad call");
        rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_ARGUMENT, "the end");
        rank_says(rank, "nothing of the group was started");
        rank_check(rank, output[0] == 7, "something ran");
        still_works(rank);
    }
}

/* -------------------------------------------------------------------------------- forks */

struct kept {
    plait_prepared *prepared;
    void *memory;
    unsigned char *pages;
    plait_op op;
};

/* With a group that was open at the fork. */
static void be_child(struct rank *rank, const struct kept *kept)
{
    void *memory = NULL;
    plait_prepared *prepared = NULL;
    double factor = 2;
    plait_op op;
    alarm(10 * (unsigned)ranks_slowness());
    refused(rank, plait_group_end(NULL), PLAIT_INVALID_USAGE, "fork");
    const plait_status got[] = {
        plait_prepared_start(kept->prepared, NULL),     plait_mem_alloc(rank->world, 1, &memory),
        plait_mem_free(rank->world, kept->memory),      plait_mem_register(rank->world, kept->pages, 4096),
        plait_mem_deregister(rank->world, kept->pages),
    };
    for (size_t i = 0; i < LENGTH(got); i++)
        rank_check(rank, got[i] == PLAIT_INVALID_USAGE, "in a child, call %zu gave %s", i,
                   plait_status_name(got[i]));
    plait_prepared_release(kept->prepared);
    rank_ok(rank, plait_op_create_premul(PLAIT_F64, &factor, &op), "an operation of the child's own");
    rank_ok(rank, plait_op_destroy(op), "destroying it");
    rank_ok(rank, plait_op_destroy(kept->op), "destroying the parent's, here");
    rank_ok(rank, plait_group_begin(), "a group of the child's own");
    rank_ok(rank, plait_group_prepare(&prepared), "preparing nothing");
    rank_ok(rank, plait_prepared_start(prepared, NULL), "starting nothing");
    plait_prepared_release(prepared);
    plait_world_options options = { .struct_size = sizeof options, .size = 1 };
    plait_thread_group *group = NULL;
    plait_world *world = NULL;
    rank_ok(rank, plait_thread_group_create(1, &group), "a thread group");
    options.threads = group;
    if (rank_ok(rank, plait_world_create(&options, &world), "a world of the child's own")) {
        rank_ok(rank, plait_mem_alloc(world, 5000, &memory), "memory of its own");
        rank_ok(rank, plait_mem_free(world, memory), "freeing it");
        rank_ok(rank, plait_world_destroy(world), "destroying it");
    }
}

static void run_fork(struct rank *rank)
{
    struct kept kept = { .pages = aligned_alloc(4096, 4096) };
    int64_t value = 1, sum = 0;
    double factor = 1;
    rank_ok(rank, plait_mem_alloc(rank->world, 4096, &kept.memory), "allocating");
    rank_ok(rank, plait_mem_register(rank->world, kept.pages, 4096), "registering");
    rank_ok(rank, plait_op_create_premul(PLAIT_F64, &factor, &kept.op), "making an operation");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    rank_ok(rank, plait_group_prepare(&kept.prepared), "preparing");
    rank_ok(rank, plait_prepared_start(kept.prepared, NULL), "starting");
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        be_child(rank, &kept);
        _exit(rank_failed(rank));
    }
    int status = -1;
    waitpid(child, &status, 0);
    rank_check(rank, status == 0, "the child ended with %#x", (unsigned)status);
    sum = 0;
    rank_ok(rank, plait_group_end(NULL), "the parent's end");
    rank_check(rank, sum == rank->size, "the sum is %lld", (long long)sum);
    rank_ok(rank, plait_prepared_start(kept.prepared, NULL), "starting again");
    plait_prepared_release(kept.prepared);
    rank_ok(rank, plait_op_destroy(kept.op), "destroying the operation");
    rank_ok(rank, plait_mem_free(rank->world, kept.memory), "freeing");
    rank_ok(rank, plait_mem_deregister(rank->world, kept.pages), "deregistering");
    free(kept.pages);
    still_works(rank);
}

/* ------------------------------------------------------------------------------ too late */

/* Prepared calls, works of an open group, an operation: all outlive their world. */
static void run_outlive(struct rank *rank)
{
    int64_t value = 1, sum = 0;
    plait_prepared *prepared = NULL, *unused = NULL;
    plait_work *own = NULL;
    plait_op op;
    rank_ok(rank, plait_op_create_premul(PLAIT_I64, &value, &op), "making an operation");
    for (int i = 0; i < 2; i++) {
        rank_ok(rank, plait_group_begin(), "begin");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, op, NULL), "all-reduce");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_ok(rank, plait_group_prepare(i == 0 ? &prepared : &unused), "preparing");
    }
    rank_ok(rank, plait_prepared_start(prepared, NULL), "starting");
    plait_work *work = NULL;
    rank_ok(rank, plait_prepared_start(prepared, &work), "starting");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    rank_ok(rank, plait_barrier(rank->comm, &own), "barrier");
    rank_ok(rank, plait_work_wait(own, -1), "waiting");
    rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
    rank->world = NULL;
    rank_ok(rank, plait_work_status(work), "the work of a group");
    plait_fault fault = { .struct_size = sizeof fault };
    rank_ok(rank, plait_work_fault(work, &fault), "its fault");
    refused(rank, plait_prepared_start(prepared, NULL), PLAIT_INVALID_USAGE, "not a living");
    refused(rank, plait_prepared_start(prepared, &own), PLAIT_INVALID_USAGE, "not a living");
    plait_prepared_release(prepared);
    plait_work_release(work);
    plait_work_release(own);
    plait_prepared_release(unused);
    rank_ok(rank, plait_op_destroy(op), "destroying the operation");
}

static void count_call(void *context, plait_work *work, plait_status status)
{
    (void)work;
    atomic_fetch_add((_Atomic int *)context, status == PLAIT_OK ? 1 : 100);
}

/* Works of calls in an open group: released before it starts, called back, and dropped with it. */
static void run_early(struct rank *rank)
{
    static _Atomic int called[RANKS_MOST];
    _Atomic int *mine = &called[rank->number];
    int64_t value = 1, sum = 0, more = 0;
    plait_work *released = NULL, *heard = NULL, *dropped = NULL;
    atomic_store(mine, 0);
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, &released),
            "all-reduce");
    plait_work_release(released);
    rank_status(rank, plait_work_wait(released, -1), PLAIT_INVALID_USAGE, "waiting for what was released");
    rank_ok(rank, plait_allreduce(rank->comm, &value, &more, 1, PLAIT_I64, PLAIT_SUM, &heard), "all-reduce");
    rank_ok(rank, plait_work_on_done(heard, count_call, mine), "asking to be called");
    rank_check(rank, atomic_load(mine) == 0, "called before the start");
    rank_ok(rank, plait_group_end(NULL), "end");
    rank_ok(rank, plait_work_wait(heard, -1), "waiting");
    plait_work_release(heard);
    rank_check(rank, sum == rank->size && more == rank->size, "the sums are %lld and %lld", (long long)sum,
               (long long)more);
    rank_check(rank, atomic_load(mine) == 1, "called %d times", atomic_load(mine));
    rank_ok(rank, plait_group_begin(), "begin");
    rank_ok(rank, plait_barrier(rank->comm, &dropped), "barrier");
    rank_ok(rank, plait_work_on_done(dropped, count_call, mine), "asking to be called");
    plait_work_release(dropped);
    rank_status(rank, plait_barrier(NULL, NULL), PLAIT_INVALID_ARGUMENT, "a bad call");
    rank_status(rank, plait_group_end(NULL), PLAIT_INVALID_ARGUMENT, "end");
    rank_check(rank, atomic_load(mine) == 101, "called %d times", atomic_load(mine));
    still_works(rank);
}

/* A callback that releases the prepared calls in the midst of which it runs. */
struct releaser {
    plait_prepared *prepared;
    _Atomic int called;
};

static void release_prepared(void *context, plait_work *work, plait_status status)
{
    struct releaser *releaser = context;
    (void)work, (void)status;
    plait_prepared_release(releaser->prepared);
    atomic_fetch_add(&releaser->called, 1);
}

static void run_released_inside(struct rank *rank)
{
    for (int calls = 1; calls <= 2 && !rank_failed(rank); calls++)
        for (int turn = 0; turn < 2; turn++) {
            struct releaser releaser = { .prepared = NULL };
            int64_t value = 1, sums[2] = { 0, 0 };
            plait_work *before = NULL, *work = NULL;
            rank_ok(rank, plait_group_begin(), "begin");
            for (int i = 0; i < calls; i++)
                rank_ok(rank, plait_allreduce(rank->comm, &value, &sums[i], 1, PLAIT_I64, PLAIT_SUM, NULL),
                        "all-reduce");
            rank_ok(rank, plait_group_prepare(&releaser.prepared), "preparing");
            if (rank->number == 0)
                rank_meet(rank);
            rank_ok(rank, plait_barrier(rank->comm, &before), "barrier");
            rank_ok(rank, plait_work_on_done(before, release_prepared, &releaser), "asking to be called");
            plait_work_release(before);
            if (rank->number != 0) /* so that the barrier is done in the midst of the start */
                rank_meet(rank);
            plait_prepared *prepared = releaser.prepared;
            plait_status status = plait_prepared_start(prepared, turn == 0 ? NULL : &work);
            if (status == PLAIT_INVALID_USAGE) { /* it came first after all */
                for (int i = 0; i < calls; i++)
                    rank_ok(rank,
                            plait_allreduce(rank->comm, &value, &sums[i], 1, PLAIT_I64, PLAIT_SUM, NULL),
                            "all-reduce");
            } else {
                rank_ok(rank, status, "starting");
                if (work != NULL)
                    rank_ok(rank, plait_work_wait(work, -1), "waiting");
            }
            plait_work_release(work);
            rank_check(rank, sums[0] == rank->size && sums[calls - 1] == rank->size, "the sums are wrong");
            while (atomic_load(&releaser.called) == 0)
                sleep_ms(1);
        }
}

#define THREADS(title, function, ranks)                                                                      \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define PROCESSES(title, function, ranks)                                                                    \
    {                                                                                                        \
        title, function, { .way = RANKS_FILE, .size = ranks }, NULL                                          \
    }

static const struct scenario scenarios[] = {
    THREADS("handles of another kind", run_handles, 2),
    THREADS("handles of another kind, in groups", run_handles_in_groups, 3),
    PROCESSES("a forked child", run_fork, 1),
    PROCESSES("a forked child", run_fork, 3),
    THREADS("what outlives its world", run_outlive, 2),
    PROCESSES("what outlives its world", run_outlive, 2),
    THREADS("works of an open group", run_early, 1),
    THREADS("prepared calls released in their midst", run_released_inside, 2),
    THREADS("prepared calls released in their midst", run_released_inside, 3),
    THREADS("works of an open group", run_early, 3),
};

int main(void)
{
    return scenarios_run("misuse", scenarios, LENGTH(scenarios));
}
