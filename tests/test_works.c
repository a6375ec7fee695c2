/* Works: several in flight, waits in any order, limits, callbacks, release, and progress when nobody waits. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

enum { FLIGHT = 24, MOST = 30000 };

/* Many trials in flight on one rank. */
struct flight {
    struct trial trials[FLIGHT];
    plait_work *works[FLIGHT];
};

static struct flight *flight_start(struct rank *rank, plait_comm *comm, uint64_t seed)
{
    struct flight *flight = calloc(1, sizeof *flight);
    for (int i = 0; i < FLIGHT; i++) {
        const uint64_t random = mix(seed * 1000 + (uint64_t)i);
        struct call call = { .kind = (enum call_kind)(random % CALL_KINDS),
                             .root = (int)(random >> 24 & 0xff) % rank->size,
                             .count = (random >> 32 & 1) ? (random >> 33) % 10
                                                         : (random >> 33) % (MOST / DATA_MOST_SIZE) };
        data_choose(random, call_reduces(call.kind), &call.type, &call.op);
        struct layout layout = layout_drawn(call.kind, mix(random));
        char text[120];
        rank_check(rank, trial_open(&flight->trials[i], MOST, rank->size), "no memory");
        trial_prepare(&flight->trials[i], &call, &layout, random, plait_comm_rank(comm),
                      plait_comm_size(comm));
        rank_doing(rank, "starting %s, %d in flight", call_text(&call, text, sizeof text), i);
        rank_ok(rank, trial_call(&flight->trials[i], comm, &flight->works[i]), text);
    }
    return flight;
}

static void flight_end(struct rank *rank, struct flight *flight, int i)
{
    char text[120], why[300];
    rank_doing(rank, "waiting for %d: %s", i, call_text(&flight->trials[i].call, text, sizeof text));
    if (rank_ok(rank, plait_work_wait(flight->works[i], -1), text))
        rank_check(rank, trial_right(&flight->trials[i], why, sizeof why), "%s: %s", text, why);
    rank_status(rank, plait_work_status(flight->works[i]), PLAIT_OK, "the status of what is done");
    rank_status(rank, plait_work_test(flight->works[i]), PLAIT_OK, "a test of what is done");
    rank_status(rank, plait_work_wait(flight->works[i], 0), PLAIT_OK, "another wait");
    plait_work_release(flight->works[i]);
    trial_close(&flight->trials[i]);
}

static void run_in_order(struct rank *rank)
{
    struct flight *flight = flight_start(rank, rank->comm, 1);
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, flight, i);
    free(flight);
}

static void run_backwards(struct rank *rank)
{
    struct flight *flight = flight_start(rank, rank->comm, 2);
    for (int i = FLIGHT - 1; i >= 0; i--)
        flight_end(rank, flight, i);
    free(flight);
}

/* Each rank waits in an order of its own. */
static void run_shuffled(struct rank *rank)
{
    struct flight *flight = flight_start(rank, rank->comm, 3);
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, flight, (i * 7 + rank->number * 5) % FLIGHT);
    free(flight);
}

/* No rank waits: each polls. */
static void run_polled(struct rank *rank)
{
    struct flight *flight = flight_start(rank, rank->comm, 4);
    for (int left = FLIGHT; left > 0 && !rank_failed(rank);) {
        left = 0;
        for (int i = 0; i < FLIGHT; i++) {
            plait_status status = plait_work_test(flight->works[i]);
            left += status == PLAIT_IN_PROGRESS;
            rank_check(rank, status == PLAIT_OK || status == PLAIT_IN_PROGRESS, "work %d: %s", i,
                       plait_status_name(status));
        }
        sleep_ms(1);
    }
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, flight, i);
    free(flight);
}

/* Works first, then blocking calls behind them: these wait for those. */
static void run_blocking_behind(struct rank *rank)
{
    struct flight *flight = flight_start(rank, rank->comm, 5);
    for (int i = 0; i < 5; i++) {
        int64_t value = rank->number, sum = -1;
        rank_doing(rank, "a blocking all-reduce behind works");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
        rank_check(rank, sum == rank->size * (rank->size - 1) / 2, "the sum is %lld", (long long)sum);
    }
    for (int i = 0; i < FLIGHT; i++)
        rank_status(rank, plait_work_status(flight->works[i]), PLAIT_OK,
                    "a work before a blocking call that is done");
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, flight, i);
    free(flight);
}

/* Two communicators; ranks wait for them in opposite orders, which must not lock up. */
static void run_crosswise(struct rank *rank)
{
    plait_comm *other = NULL;
    if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &other), "split"))
        return;
    const bool even = rank->number % 2 == 0;
    struct flight *first = NULL, *second = NULL;
    first = flight_start(rank, even ? rank->comm : other, even ? 6 : 7);
    second = flight_start(rank, even ? other : rank->comm, even ? 7 : 6);
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, first, i);
    for (int i = 0; i < FLIGHT; i++)
        flight_end(rank, second, i);
    free(first);
    free(second);
    rank_ok(rank, plait_comm_destroy(other), "destroying the communicator");
}

/* Rank 0 starts a work and looks away; the others must not have to wait for it. */
static void run_unattended(struct rank *rank)
{
    enum { COUNT = 200000 };
    float *data = malloc(COUNT * sizeof *data);
    plait_work *work = NULL;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(i % 100);
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    const int64_t start = now_ns();
    rank_ok(rank, plait_allreduce(rank->comm, data, data, COUNT, PLAIT_F32, PLAIT_SUM, &work), "all-reduce");
    if (rank->number == 0) {
        rank_doing(rank, "looking away");
        sleep_ms(1500 * (ranks_slowness() > 1 ? 3 : 1));
        rank_status(rank, plait_work_status(work), PLAIT_OK, "the work that nobody waited for");
    } else {
        rank_doing(rank, "waiting beside a rank that looks away");
        rank_ok(rank, plait_work_wait(work, -1), "waiting");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms < 1000 * (ranks_slowness() > 1 ? 3 : 1),
                   "it took %lld ms beside a rank that looks away", (long long)took_ms);
    }
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    rank_check(rank, data[99] == 99.0f * (float)rank->size, "element 99 is %g", (double)data[99]);
    plait_work_release(work);
    free(data);
}

/* Starting a large work takes no part in it, even where nobody has to be waited for: the caller goes on. Now and
 * then the thread that takes it over has the caller's core at once, hence the tries. */
static void run_started_only(struct rank *rank)
{
    enum { SIZE = 16 << 20, TRIES = 100 };
    unsigned char *input = calloc(1, SIZE), *output = malloc(SIZE);
    bool under_way = false;
    for (int i = 0; i < TRIES && !under_way && !rank_failed(rank); i++) {
        plait_work *work = NULL;
        rank_ok(rank, plait_allgather(rank->comm, input, output, SIZE, PLAIT_U8, &work), "all-gather");
        under_way = plait_work_status(work) == PLAIT_IN_PROGRESS;
        rank_ok(rank, plait_work_wait(work, -1), "waiting");
        plait_work_release(work);
    }
    rank_check(rank, under_way, "works of %d bytes are done by the time they are started", SIZE);
    free(input);
    free(output);
}

/* A wait with a limit comes back in time, and the work goes on. */
static void run_limits(struct rank *rank)
{
    int value = 1, sum = 0;
    plait_work *work = NULL;
    if (rank->number != 0) {
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        const int64_t start = now_ns();
        rank_status(rank, plait_work_wait(work, 0), PLAIT_IN_PROGRESS, "waiting 0 ms");
        rank_status(rank, plait_work_test(work), PLAIT_IN_PROGRESS, "a test");
        rank_status(rank, plait_work_wait(work, 60), PLAIT_IN_PROGRESS, "waiting 60 ms");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms >= 59 && took_ms < 1500, "a wait of 60 ms took %lld ms", (long long)took_ms);
        rank_meet(rank);
    } else {
        rank_meet(rank);
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
    }
    rank_ok(rank, plait_work_wait(work, 10000), "waiting");
    rank_check(rank, sum == rank->size, "the sum is %d", sum);
    plait_fault fault = { .struct_size = sizeof fault, .kind = PLAIT_FAULT_DIED };
    rank_ok(rank, plait_work_fault(work, &fault), "asking for a fault");
    rank_check(rank, fault.kind == PLAIT_FAULT_NONE, "a fault of kind %d", fault.kind);
    rank_check(rank, plait_work_source(work) == -1 && plait_work_count(work) == 0,
               "a source of an all-reduce");
    plait_work_release(work);
}

/* Counts its calls. */
struct heard {
    _Atomic int calls;
    _Atomic int status;
    pthread_t thread;
};

static void hear(void *context, plait_work *work, plait_status status)
{
    struct heard *heard = context;
    heard->thread = pthread_self();
    atomic_store(&heard->status, plait_work_status(work) == status ? status : -99);
    atomic_fetch_add(&heard->calls, 1);
}

static bool await_heard(struct heard *heard)
{
    for (int i = 0; i < 5000 && atomic_load(&heard->calls) == 0; i++)
        sleep_ms(1);
    return atomic_load(&heard->calls) == 1;
}

static void run_callbacks(struct rank *rank)
{
    int value = 1, sum = 0;
    plait_work *work = NULL;
    struct heard before = { .status = -98 }, after = { .status = -98 };
    if (rank->number == 0)
        rank_meet(rank);
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work), "all-reduce");
    rank_ok(rank, plait_work_on_done(work, hear, &before), "asking to be called");
    rank_status(rank, plait_work_on_done(work, hear, &before), PLAIT_INVALID_USAGE, "asking twice");
    if (rank->number != 0) {
        rank_check(rank, atomic_load(&before.calls) == 0, "called before it was done");
        rank_meet(rank);
    }
    rank_doing(rank, "waiting to be called, without a wait for the work");
    rank_check(rank, await_heard(&before), "called %d times", before.calls);
    rank_check(rank, before.status == PLAIT_OK && sum == rank->size, "status %d, sum %d", before.status, sum);
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);

    work = NULL;
    rank_ok(rank, plait_barrier(rank->comm, &work), "barrier");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    rank_status(rank, plait_work_on_done(work, NULL, NULL), PLAIT_INVALID_ARGUMENT, "asking for no callback");
    rank_ok(rank, plait_work_on_done(work, hear, &after), "asking after it is done");
    rank_check(rank, atomic_load(&after.calls) == 1 && pthread_equal(after.thread, pthread_self()),
               "called %d times, not at once on this thread", after.calls);
    plait_work_release(work);
}

/* A callback may release its work. */
static void hear_and_release(void *context, plait_work *work, plait_status status)
{
    hear(context, work, status);
    plait_work_release(work);
}

static void run_release_in_callback(struct rank *rank)
{
    for (int i = 0; i < 20 && !rank_failed(rank); i++) {
        int value = 1, sum = 0;
        plait_work *work = NULL;
        struct heard heard = { .status = -98 };
        rank_doing(rank, "round %d", i);
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        rank_ok(rank, plait_work_on_done(work, hear_and_release, &heard), "asking to be called");
        const bool called = await_heard(&heard); /* before anything else is read */
        rank_check(rank, called && heard.status == PLAIT_OK && sum == rank->size,
                   "called %d times, status %d, sum %d", heard.calls, heard.status, sum);
        rank_status(rank, plait_work_status(work), PLAIT_INVALID_USAGE, "the status of a released work");
    }
}

/* A released work goes on to its end. */
static void run_released(struct rank *rank)
{
    enum { COUNT = 50000 };
    int32_t *data = malloc(COUNT * sizeof *data);
    for (int turn = 0; turn < 10; turn++) {
        plait_work *work = NULL;
        for (int i = 0; i < COUNT; i++)
            data[i] = i + turn;
        rank_ok(rank, plait_allreduce(rank->comm, data, data, COUNT, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        plait_work_release(work);
        rank_status(rank, plait_work_status(work), PLAIT_INVALID_USAGE, "the status of a released work");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
        rank_check(rank, data[COUNT - 1] == (COUNT - 1 + turn) * rank->size,
                   "turn %d: the last element is %d", turn, data[COUNT - 1]);
    }
    free(data);
}

/* Another thread waits. */
static void *wait_elsewhere(void *argument)
{
    return (void *)(intptr_t)plait_work_wait(argument, -1);
}

static void run_other_thread(struct rank *rank)
{
    for (int i = 0; i < 10; i++) {
        double value = 2, product = 0;
        void *status = NULL;
        plait_work *work = NULL;
        pthread_t thread;
        rank_ok(rank, plait_allreduce(rank->comm, &value, &product, 1, PLAIT_F64, PLAIT_PRODUCT, &work),
                "all-reduce");
        rank_check(rank, pthread_create(&thread, NULL, wait_elsewhere, work) == 0, "no thread");
        rank_ok(rank, plait_work_wait(work, -1), "waiting here");
        pthread_join(thread, &status);
        rank_ok(rank, (plait_status)(intptr_t)status, "waiting on another thread");
        rank_check(rank, product == (double)(1 << rank->size), "the product is %g", product);
        plait_work_release(work);
    }
}

/* Many threads wait for one work, which comes late. */
static void run_many_waiters(struct rank *rank)
{
    enum { WAITERS = 5 };
    for (int turn = 0; turn < 5 && !rank_failed(rank); turn++) {
        int value = 1, sum = 0;
        plait_work *work = NULL;
        pthread_t threads[WAITERS];
        if (rank->number == 0)
            sleep_ms(20);
        rank_doing(rank, "turn %d", turn);
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        for (int i = 0; i < WAITERS; i++)
            rank_check(rank, pthread_create(&threads[i], NULL, wait_elsewhere, work) == 0, "no thread");
        for (int i = 0; i < WAITERS; i++) {
            void *status = NULL;
            pthread_join(threads[i], &status);
            rank_ok(rank, (plait_status)(intptr_t)status, "waiting on one of many threads");
        }
        rank_check(rank, sum == rank->size, "the sum is %d", sum);
        plait_work_release(work);
    }
}

/* Another thread aborts while this one waits. */
static void *abort_soon(void *world)
{
    sleep_ms(30);
    return (void *)(intptr_t)plait_world_abort(world, "the other thread had enough");
}

static void run_abort_elsewhere(struct rank *rank)
{
    pthread_t thread;
    void *status = NULL;
    rank_ok(rank, plait_barrier(rank->comm, NULL), "barrier");
    if (rank->number == 0) /* who never enters */
        rank_meet(rank);
    if (rank->number == 0)
        return;
    if (rank->number == 1)
        rank_check(rank, pthread_create(&thread, NULL, abort_soon, rank->world) == 0, "no thread");
    const int64_t start = now_ns();
    rank_doing(rank, "a barrier that another thread aborts");
    rank_status(rank, plait_barrier(rank->comm, NULL), PLAIT_ABORTED, "a barrier that another thread aborts");
    const int64_t took_ms = (now_ns() - start) / 1000000;
    rank_says(rank, "the other thread had enough");
    rank_check(rank, took_ms < 1000, "it took %lld ms", (long long)took_ms);
    if (rank->number == 1) {
        pthread_join(thread, &status);
        rank_ok(rank, (plait_status)(intptr_t)status, "abort");
    }
    rank_meet(rank);
}

/* A callback is told of a failure, and once; so is the fault handler. */
static void run_failed_callback(struct rank *rank)
{
    int value = 1, sum = 0;
    plait_work *work = NULL;
    struct heard heard = { .status = -98 };
    if (rank->number != 0) {
        rank_ok(rank, plait_comm_set_timeout(rank->comm, 150), "setting the deadline");
        rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work),
                "all-reduce");
        rank_ok(rank, plait_work_on_done(work, hear, &heard), "asking to be called");
        const bool called = await_heard(&heard);
        rank_check(rank, called && heard.status == PLAIT_TIMED_OUT, "called %d times, status %d", heard.calls,
                   heard.status);
        rank_status(rank, plait_work_wait(work, -1), PLAIT_TIMED_OUT, "waiting");
        rank_says(rank, "rank 0");
        sleep_ms(20);
        rank_check(rank, heard.calls == 1, "called %d times", heard.calls);
        plait_work_release(work);
    }
    rank_meet(rank);
}

/* Works outlive their world, until they are released. */
static void run_after_world(struct rank *rank)
{
    plait_work *work = NULL;
    int value = 3, sum = 0;
    rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I32, PLAIT_SUM, &work), "all-reduce");
    rank_doing(rank, "destroying the world with a work under way");
    rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
    rank->world = NULL;
    plait_status status = plait_work_status(work);
    rank_check(rank, status == PLAIT_OK, "a work of a world that ended is %s", plait_status_name(status));
    rank_check(rank, sum == 3 * rank->size, "the sum is %d", sum);
    rank_status(rank, plait_work_wait(work, -1), PLAIT_OK, "waiting after the world's end");
    plait_work_release(work);
    plait_work_release(NULL);
}

/* A late rank fails works at their deadline; those behind fail too and the sentence is the waiter's. */
static void run_deadline(struct rank *rank)
{
    plait_work *works[3] = { NULL };
    int value = 1, sums[3] = { 0 };
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 200), "setting the deadline");
    if (rank->number != 0) {
        for (int i = 0; i < 3; i++)
            rank_ok(rank, plait_allreduce(rank->comm, &value, &sums[i], 1, PLAIT_I32, PLAIT_SUM, &works[i]),
                    "all-reduce");
        const int64_t start = now_ns();
        rank_status(rank, plait_work_wait(works[0], -1), PLAIT_TIMED_OUT, "waiting for a late rank");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms >= 100 && took_ms < 2000, "a deadline of 200 ms took %lld ms",
                   (long long)took_ms);
        rank_says(rank, "rank 0");
        rank_says(rank, "all-reduce");
        plait_fault fault = { .struct_size = sizeof fault };
        rank_ok(rank, plait_work_fault(works[0], &fault), "asking for the fault");
        rank_check(rank,
                   fault.kind == PLAIT_FAULT_NOT_ENTERED && fault.culprit == 0 && fault.operation_number == 1,
                   "fault of kind %d, culprit %d, operation %llu", fault.kind, fault.culprit,
                   (unsigned long long)fault.operation_number);
        for (int i = 1; i < 3; i++) {
            plait_status status = plait_work_wait(works[i], 5000);
            rank_check(rank, status < 0, "work %d behind the failed one: %s", i, plait_status_name(status));
        }
        for (int i = 0; i < 3; i++)
            plait_work_release(works[i]);
        plait_status status = plait_barrier(rank->comm, NULL);
        rank_check(rank, status < 0, "a barrier after the communicator's end: %s", plait_status_name(status));
    }
    rank_meet(rank);
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }

static const struct scenario scenarios[] = {
    ROW("waits in order", run_in_order, 1),
    ROW("waits in order", run_in_order, 2),
    ROW("waits in order", run_in_order, 5),
    ROW("waits backwards", run_backwards, 2),
    ROW("waits backwards", run_backwards, 4),
    ROW("each rank waits in its own order", run_shuffled, 3),
    ROW("polled", run_polled, 2),
    ROW("polled", run_polled, 3),
    ROW("blocking calls behind works", run_blocking_behind, 3),
    ROW("two communicators crosswise", run_crosswise, 2),
    ROW("two communicators crosswise", run_crosswise, 4),
    ROW("a large one is started only", run_started_only, 1),
    ROW("progress when nobody waits", run_unattended, 2),
    ROW("progress when nobody waits", run_unattended, 3),
    ROW("waits with limits", run_limits, 2),
    ROW("waits with limits", run_limits, 3),
    ROW("callbacks", run_callbacks, 2),
    ROW("callbacks", run_callbacks, 3),
    ROW("released in its callback", run_release_in_callback, 2),
    ROW("released while under way", run_released, 2),
    ROW("released while under way", run_released, 3),
    ROW("waits on two threads", run_other_thread, 2),
    ROW("many threads wait for one work", run_many_waiters, 2),
    ROW("another thread aborts", run_abort_elsewhere, 2),
    ROW("another thread aborts", run_abort_elsewhere, 4),
    ROW("a callback of a failure", run_failed_callback, 2),
    ROW("works outlive their world", run_after_world, 1),
    ROW("works outlive their world", run_after_world, 3),
    ROW("a late rank", run_deadline, 2),
    ROW("a late rank", run_deadline, 4),
    { "progress when nobody waits", run_unattended, { .way = RANKS_FILE, .size = 2 }, NULL },
    { "polled", run_polled, { .way = RANKS_FILE, .size = 3 }, NULL },
    { "each rank waits in its own order", run_shuffled, { .way = RANKS_FILE, .size = 4 }, NULL },
    { "callbacks", run_callbacks, { .way = RANKS_FILE, .size = 2 }, NULL },
};

int main(void)
{
    return scenarios_run("works", scenarios, LENGTH(scenarios));
}
