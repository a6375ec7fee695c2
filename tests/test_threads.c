/* Several threads at one world: what is safe at any time while another thread ends the object; an
 * end while another thread waits; callbacks that call what waits. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

/* --------------------------------------------------- at any time, beside the end */

struct targets {
    _Atomic(plait_world *) world;
    _Atomic(plait_comm *) comm;
    _Atomic(plait_work *) work;
    atomic_bool stop, aborts;
};

static void read_all(const struct targets *targets)
{
    plait_fault fault = { .struct_size = sizeof fault };
    plait_world_facts facts = { .struct_size = sizeof facts };
    plait_profile profile = { .struct_size = sizeof profile };
    plait_world_fault(targets->world, &fault);
    plait_world_get_facts(targets->world, &facts);
    plait_world_local_size(targets->world);
    plait_world_comm(targets->world);
    plait_comm_fault(targets->comm, &fault);
    plait_comm_last_plan(targets->comm);
    plait_comm_set_profiling(targets->comm, 1);
    plait_comm_profile(targets->comm, &profile);
    plait_comm_rank(targets->comm);
    plait_work_fault(targets->work, &fault);
    plait_work_status(targets->work);
    plait_work_count(targets->work);
    plait_work_test(targets->work);
    plait_work_wait(targets->work, 1);
}

static void *poke(void *context)
{
    struct targets *targets = context;
    while (!targets->stop) {
        read_all(targets);
        if (targets->aborts) {
            plait_comm_abort(targets->comm, "a watchdog says so");
            plait_world_abort(targets->world, "a watchdog says so");
        }
    }
    return NULL;
}

/* A short life; what fails because of an abort is as it should be. */
static void live(struct rank *rank, struct targets *targets)
{
    plait_world_options options = rank_options(rank);
    plait_world *world = NULL;
    plait_status status = plait_world_create(&options, &world);
    if (!rank_ok(rank, status, "creating a world"))
        return;
    targets->world = world;
    targets->comm = plait_world_comm(world);
    for (int turn = 0; turn < 8; turn++) {
        plait_work *work = NULL;
        plait_comm *half = NULL;
        float value = 1;
        if (plait_allreduce(plait_world_comm(world), &value, &value, 1, PLAIT_F32, PLAIT_SUM, &work) ==
            PLAIT_OK)
            targets->work = work;
        plait_work_wait(work, -1);
        plait_work_release(work);
        if (plait_comm_split(plait_world_comm(world), 0, 0, NULL, &half) == PLAIT_OK)
            targets->comm = half;
        plait_comm_destroy(half);
    }
    rank_ok(rank, plait_world_destroy(world), "destroying a world");
}

static void run_any_time(struct rank *rank)
{
    struct targets targets = { .aborts = false };
    pthread_t thread;
    pthread_create(&thread, NULL, poke, &targets);
    for (int i = 0; i < 20 && !rank_failed(rank); i++) {
        targets.aborts = i % 4 == 3;
        rank_doing(rank, "life %d", i);
        live(rank, &targets);
        rank_meet(rank);
    }
    targets.stop = true;
    pthread_join(thread, NULL);
}

/* -------------------------------------------------------- an end beside a wait */

struct waiter {
    pthread_t thread;
    plait_comm *comm;
    plait_work *work; /* to wait for; else it makes a barrier */
    atomic_bool started;
    plait_status status;
    char sentence[256];
};

static void *wait_long(void *context)
{
    struct waiter *waiter = context;
    waiter->started = true;
    waiter->status =
        waiter->work != NULL ? plait_work_wait(waiter->work, -1) : plait_barrier(waiter->comm, NULL);
    snprintf(waiter->sentence, sizeof waiter->sentence, "%s", plait_last_error());
    return NULL;
}

static void waiter_start(struct waiter *waiter)
{
    pthread_create(&waiter->thread, NULL, wait_long, waiter);
    while (!waiter->started)
        sleep_ms(1);
    sleep_ms(20);
}

/* The communicator, or the whole world, is destroyed while another thread waits in it for a peer that
 * never comes. */
static void end_beside_wait(struct rank *rank, bool by_work, bool whole_world)
{
    plait_comm *comm = NULL;
    if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split"))
        return;
    if (rank->number == 0) {
        struct waiter waiter = { .comm = comm };
        if (by_work)
            rank_ok(rank, plait_barrier(comm, &waiter.work), "starting a barrier");
        waiter_start(&waiter);
        const int64_t start = now_ns();
        rank_doing(rank, "destroying beside a wait");
        rank_ok(rank, whole_world ? plait_world_destroy(rank->world) : plait_comm_destroy(comm),
                "destroying");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms < 1500 * ranks_slowness(), "it took %lld ms", (long long)took_ms);
        pthread_join(waiter.thread, NULL);
        rank_check(rank, waiter.status == PLAIT_ABORTED, "the wait gave %s: %s",
                   plait_status_name(waiter.status), waiter.sentence);
        plait_work_release(waiter.work);
    }
    rank_meet(rank);
    if (whole_world && rank->number == 0) {
        rank->world = NULL;
        return;
    }
    if (rank->number != 0)
        rank_ok(rank, plait_comm_destroy(comm), "destroying it here");
    if (!whole_world) /* the world goes on */
        rank_ok(rank, plait_barrier(rank->comm, NULL), "a barrier of the world");
}

static void run_comm_end_beside_call(struct rank *rank)
{
    end_beside_wait(rank, false, false);
}
static void run_comm_end_beside_work(struct rank *rank)
{
    end_beside_wait(rank, true, false);
}
static void run_world_end_beside_call(struct rank *rank)
{
    end_beside_wait(rank, false, true);
}
static void run_world_end_beside_work(struct rank *rank)
{
    end_beside_wait(rank, true, true);
}

/* One thread waits long in one communicator, which must not keep another from ending a second one:
 * the peer comes to the first only after it has heard of that. */
static void run_end_beside_other_comm(struct rank *rank)
{
    plait_comm *first = NULL, *second = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &first), "split");
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &second), "split");
    if (rank_failed(rank))
        return;
    struct waiter waiter = { .comm = first };
    if (rank->number == 0) {
        waiter_start(&waiter);
        rank_doing(rank, "destroying one while a thread waits in the other");
        rank_ok(rank, plait_comm_destroy(second), "destroying the second");
    }
    rank_meet(rank);
    if (rank->number != 0)
        rank_ok(rank, plait_barrier(first, NULL), "the first's barrier");
    else
        pthread_join(waiter.thread, NULL);
    rank_ok(rank, waiter.status, "the barrier on the other thread");
    rank_meet(rank);
}

/* An aborted communicator leaves nothing behind in the engine's lists. */
static void run_end_after_abort(struct rank *rank)
{
    for (int turn = 0; turn < 20 && !rank_failed(rank); turn++) {
        plait_comm *comm = NULL;
        plait_work *work = NULL;
        rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
        if (rank->number == 0) {
            rank_ok(rank, plait_barrier(comm, &work), "starting a barrier");
            rank_ok(rank, plait_comm_abort(comm, "a test"), "abort");
            /* Rank 1 may have left before. */
            plait_status status = plait_work_wait(work, -1);
            rank_check(rank, status == PLAIT_ABORTED || status == PLAIT_PEER_LOST, "waiting gave %s",
                       plait_status_name(status));
            plait_work_release(work);
        }
        rank_ok(rank, plait_comm_destroy(comm), "destroying");
        rank_ok(rank, plait_barrier(rank->comm, NULL), "the world's barrier");
    }
}

/* ------------------------------------------------------------------ callbacks */

struct calls_in_callback {
    struct rank *rank;
    plait_comm *comm, *split;
    plait_work *other;
    plait_status barrier, wait, destroy, destroy_world, split_again, start;
    plait_work *started;
    atomic_bool done;
};

static void call_everything(void *context, plait_work *work, plait_status status)
{
    struct calls_in_callback *calls = context;
    plait_comm *comm = NULL;
    (void)work, (void)status;
    calls->barrier = plait_barrier(calls->comm, NULL);
    calls->wait = plait_work_wait(calls->other, -1);
    calls->destroy = plait_comm_destroy(calls->split);
    calls->destroy_world = plait_world_destroy(calls->rank->world);
    calls->split_again = plait_comm_split(calls->comm, 0, 0, NULL, &comm);
    calls->start = plait_barrier(calls->comm, &calls->started);
    calls->done = true;
}

/* What waits says so instead of waiting for its own thread for ever; what starts works. The callback
 * is that of a message which is sent once both ranks have asked for it, so it runs on the thread that drives. */
static void run_waits_in_callback(struct rank *rank)
{
    struct calls_in_callback calls = { .rank = rank, .comm = rank->comm };
    plait_work *work = NULL;
    char token = 0, other = 0;
    const int peer = 1 - rank->number;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &calls.split), "split");
    rank_ok(rank, plait_recv(rank->comm, &token, 1, PLAIT_U8, peer, 7, NULL, NULL, &work), "receiving");
    rank_ok(rank, plait_recv(rank->comm, &other, 1, PLAIT_U8, peer, 8, NULL, NULL, &calls.other),
            "receiving");
    rank_ok(rank, plait_work_on_done(work, call_everything, &calls), "asking for a callback");
    rank_meet(rank);
    rank_doing(rank, "waiting for a work whose callback calls what waits");
    rank_ok(rank, plait_send(rank->comm, &token, 1, PLAIT_U8, peer, 7, NULL), "sending");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    while (!calls.done)
        sleep_ms(1);
    rank_status(rank, calls.barrier, PLAIT_INVALID_USAGE, "a blocking barrier");
    rank_status(rank, calls.wait, PLAIT_INVALID_USAGE, "a wait");
    rank_status(rank, calls.destroy, PLAIT_INVALID_USAGE, "destroying the communicator");
    rank_status(rank, calls.destroy_world, PLAIT_INVALID_USAGE, "destroying the world");
    rank_status(rank, calls.split_again, PLAIT_INVALID_USAGE, "a split");
    if (rank_ok(rank, calls.start, "starting a work"))
        rank_ok(rank, plait_work_wait(calls.started, -1), "the barrier that the callback started");
    plait_work_release(calls.started);
    rank_ok(rank, plait_send(rank->comm, &other, 1, PLAIT_U8, peer, 8, NULL), "sending");
    rank_ok(rank, plait_work_wait(calls.other, -1), "the other message");
    plait_work_release(calls.other);
    plait_work_release(work);
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }

static const struct scenario scenarios[] = {
    { "readers and aborts beside the end",
      run_any_time,
      { .way = RANKS_THREADS, .size = 2, .bare = true },
      NULL },
    ROW("a communicator's end beside a call", run_comm_end_beside_call, 2),
    ROW("a communicator's end beside a wait", run_comm_end_beside_work, 2),
    ROW("the world's end beside a call", run_world_end_beside_call, 2),
    ROW("the world's end beside a wait", run_world_end_beside_work, 2),
    ROW("an end while another communicator waits", run_end_beside_other_comm, 2),
    ROW("an end after an abort", run_end_after_abort, 2),
    ROW("what waits, in a callback", run_waits_in_callback, 2),
};

int main(void)
{
    return scenarios_run("threads", scenarios, LENGTH(scenarios));
}
