/* The engine: several threads on several communicators of one world, works that nobody waits for, callbacks,
 * limits, aborts and ends at any moment. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/handle.h"
#include "engine.h"
#include "ranks.h"
#include "world.h"

/* Rounds of a loop, fewer where everything is slower. */
static int rounds(int many)
{
    return ranks_slowness() > 1 ? many / 5 + 1 : many;
}

/* ------------------------------------------------- threads of one world */

enum { THREADS = 3 };

struct crew {
    struct rank *rank;
    plait_comm *comms[THREADS];
};

struct hand {
    struct crew *crew;
    int number;
    void (*labour)(struct rank *rank, plait_comm *comm, int number);
};

static void *work_on(void *argument)
{
    struct hand *hand = argument;
    hand->labour(hand->crew->rank, hand->crew->comms[hand->number], hand->number);
    return NULL;
}

/* Has THREADS threads do `labour`, each on a communicator of its own, as all ranks do, and in an
 * order of starting that differs between them. */
static void with_threads(struct rank *rank, void (*labour)(struct rank *, plait_comm *, int))
{
    struct crew crew = { .rank = rank };
    struct hand hands[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (!rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &crew.comms[i]), "split"))
            return;
    for (int i = 0; i < THREADS; i++) {
        int number = rank->number % 2 == 0 ? i : THREADS - 1 - i;
        hands[number] = (struct hand){ &crew, number, labour };
        pthread_create(&threads[number], NULL, work_on, &hands[number]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        rank_ok(rank, plait_comm_destroy(crew.comms[i]), "destroying a communicator");
}

static bool sum_is(struct rank *rank, const int64_t *sums, size_t count, int64_t first)
{
    for (size_t i = 0; i < count; i++) {
        int64_t wanted = (first + (int64_t)i) * rank->size + rank->size * (rank->size - 1) / 2;
        if (!rank_check(rank, sums[i] == wanted, "element %zu is %lld, not %lld", i, (long long)sums[i],
                        (long long)wanted))
            return false;
    }
    return true;
}

static void fill(const struct rank *rank, int64_t *data, size_t count, int64_t first)
{
    for (size_t i = 0; i < count; i++)
        data[i] = first + (int64_t)i + rank->number;
}

/* Blocking calls of all sizes. */
static void block(struct rank *rank, plait_comm *comm, int number)
{
    enum { MOST = 3000 };
    int64_t data[MOST];
    for (int i = 0; i < rounds(150) && !rank_failed(rank); i++) {
        size_t count = mix((uint64_t)(i * THREADS + number)) % (i % 3 == 0 ? MOST : 6);
        fill(rank, data, count, i);
        rank_ok(rank, plait_allreduce(comm, data, data, count, PLAIT_I64, PLAIT_SUM, NULL), "all-reduce");
        sum_is(rank, data, count, i);
    }
}

static void run_blocking(struct rank *rank)
{
    with_threads(rank, block);
}

/* A work and then a blocking call: never overtaken, which counts that differ would show. */
static void start_and_block(struct rank *rank, plait_comm *comm, int number)
{
    (void)number;
    for (int i = 0; i < rounds(1500) && !rank_failed(rank); i++) {
        int64_t first[3], second[5];
        plait_work *work = NULL;
        fill(rank, first, 3, i);
        fill(rank, second, 5, i);
        rank_ok(rank, plait_allreduce(comm, first, first, 3, PLAIT_I64, PLAIT_SUM, &work), "a work");
        rank_ok(rank, plait_allreduce(comm, second, second, 5, PLAIT_I64, PLAIT_SUM, NULL),
                "a call behind a work");
        rank_status(rank, plait_work_status(work), PLAIT_OK, "the work before a call that is done");
        sum_is(rank, first, 3, i);
        sum_is(rank, second, 5, i);
        plait_work_release(work);
    }
}

static void run_start_and_block(struct rank *rank)
{
    with_threads(rank, start_and_block);
}

/* Many works at once, waited for backwards with limits, some released unseen. */
static void storm(struct rank *rank, plait_comm *comm, int number)
{
    enum { WORKS = 40, MOST = 700 };
    int64_t(*data)[MOST] = calloc(WORKS, sizeof *data);
    for (int turn = 0; turn < rounds(15) && !rank_failed(rank); turn++) {
        plait_work *works[WORKS] = { NULL };
        size_t counts[WORKS];
        for (int i = 0; i < WORKS; i++) {
            counts[i] = mix((uint64_t)(turn * WORKS + i)) % MOST;
            fill(rank, data[i], counts[i], i);
            rank_ok(rank, plait_allreduce(comm, data[i], data[i], counts[i], PLAIT_I64, PLAIT_SUM, &works[i]),
                    "a work");
        }
        for (int i = 0; i < WORKS; i += 5) {
            plait_work_release(works[i]);
            works[i] = NULL;
        }
        for (int i = WORKS - 1; i > 0 && !rank_failed(rank); i--) {
            plait_status status = PLAIT_IN_PROGRESS;
            for (int tries = 0; works[i] != NULL && status == PLAIT_IN_PROGRESS && tries < 20000; tries++)
                status = plait_work_wait(works[i], (number + tries) % 3);
            if (works[i] != NULL && rank_ok(rank, status, "a wait in small portions"))
                sum_is(rank, data[i], counts[i], i);
            plait_work_release(works[i]);
        }
        rank_ok(rank, plait_barrier(comm, NULL), "barrier");
        for (int i = 0; i < WORKS; i += 5)
            sum_is(rank, data[i], counts[i], i);
    }
    free(data);
}

static void run_storm(struct rank *rank)
{
    with_threads(rank, storm);
}

/* -------------------------------------------------------------- callbacks */

struct relay {
    struct rank *rank;
    plait_comm *comm;
    _Atomic int left, failed;
    int64_t value, sum;
};

static void pass_on(void *context, plait_work *work, plait_status status)
{
    struct relay *relay = context;
    plait_work_release(work);
    if (status != PLAIT_OK || relay->sum != relay->rank->size) {
        atomic_store(&relay->failed, 1);
        atomic_store(&relay->left, 0);
        return;
    }
    if (atomic_fetch_sub(&relay->left, 1) > 1) {
        plait_work *next = NULL;
        relay->sum = 0;
        if (plait_allreduce(relay->comm, &relay->value, &relay->sum, 1, PLAIT_I64, PLAIT_SUM, &next) !=
                PLAIT_OK ||
            plait_work_on_done(next, pass_on, relay) != PLAIT_OK)
            atomic_store(&relay->failed, 1);
    }
}

/* Each work's callback starts the next work. */
static void run_relay(struct rank *rank)
{
    struct relay relay = { .rank = rank, .comm = rank->comm, .value = 1 };
    plait_work *work = NULL;
    atomic_store(&relay.left, rounds(200));
    rank_ok(rank, plait_allreduce(rank->comm, &relay.value, &relay.sum, 1, PLAIT_I64, PLAIT_SUM, &work),
            "a work");
    rank_ok(rank, plait_work_on_done(work, pass_on, &relay), "asking to be called");
    for (int i = 0; i < 10000 && atomic_load(&relay.left) > 0; i++)
        sleep_ms(1);
    rank_check(rank, atomic_load(&relay.left) == 0 && atomic_load(&relay.failed) == 0, "%d left, failed %d",
               atomic_load(&relay.left), atomic_load(&relay.failed));
}

/* --------------------------------------------------------- ends and aborts */

struct aside {
    struct rank *rank;
    plait_comm *comm;
    plait_status status;
    _Atomic int state; /* 1: under way; 2: ended */
};

static void *barrier_aside(void *argument)
{
    struct aside *aside = argument;
    atomic_store(&aside->state, 1);
    aside->status = plait_barrier(aside->comm, NULL);
    return NULL;
}

/* A communicator that was aborted under its driver is destroyed; the world's goes on. */
static void run_abort_and_go_on(struct rank *rank)
{
    for (int i = 0; i < rounds(30) && !rank_failed(rank); i++) {
        plait_comm *comm = NULL;
        struct aside aside = { .rank = rank };
        pthread_t thread;
        rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
        aside.comm = comm;
        if (rank->number == 0) {
            pthread_create(&thread, NULL, barrier_aside, &aside);
            while (atomic_load(&aside.state) == 0)
                sleep_ms(1);
            rank_ok(rank, plait_comm_abort(comm, "the test wants it"), "abort");
            pthread_join(thread, NULL);
            rank_status(rank, aside.status, PLAIT_ABORTED, "the aborted barrier");
        } else {
            /* Rank 0 has entered the first, so the others may have all they need for it. */
            rank_meet(rank);
            plait_barrier(comm, NULL);
            rank_status(rank, plait_barrier(comm, NULL), PLAIT_ABORTED, "a barrier after rank 0's abort");
            rank_says(rank, "the test wants it");
        }
        if (rank->number == 0)
            rank_meet(rank);
        rank_ok(rank, plait_comm_destroy(comm), "destroying it");
        for (int j = 0; j < 3; j++)
            rank_ok(rank, plait_barrier(rank->comm, NULL), "a barrier of the world");
    }
}

/* Nothing that is started after an abort succeeds, whichever thread asked for it. */
static void run_nothing_after_abort(struct rank *rank)
{
    plait_comm *comm = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
    rank_ok(rank, plait_comm_abort(comm, NULL), "abort");
    rank_status(rank, plait_barrier(comm, NULL), PLAIT_ABORTED, "a barrier after the abort");
    plait_work *work = NULL;
    rank_ok(rank, plait_barrier(comm, &work), "a work after the abort");
    rank_status(rank, plait_work_wait(work, -1), PLAIT_ABORTED, "a work after the abort");
    plait_work_release(work);
    rank_ok(rank, plait_comm_destroy(comm), "destroying it");
}

static void *abort_soon(void *argument)
{
    sleep_ms(20);
    return (void *)(intptr_t)plait_comm_abort(argument, "soon");
}

/* Also where no call ever waits, for the rank is alone. */
static void run_abort_of_one(struct rank *rank)
{
    plait_comm *comm = NULL;
    pthread_t thread;
    rank_ok(rank, plait_comm_split(rank->comm, rank->number, 0, NULL, &comm), "split");
    pthread_create(&thread, NULL, abort_soon, comm);
    plait_status status = PLAIT_OK;
    const int64_t start = now_ns();
    while (status == PLAIT_OK && now_ns() - start < 5000000000)
        status = plait_barrier(comm, NULL);
    rank_status(rank, status, PLAIT_ABORTED, "barriers until the abort");
    pthread_join(thread, NULL);
    rank_ok(rank, plait_comm_destroy(comm), "destroying it");
}

static void *wait_for(void *argument)
{
    return (void *)(intptr_t)plait_work_wait(argument, -1);
}

/* One thread waits for a work while another releases it, and ends the world. */
static void run_end_under_waiters(struct rank *rank)
{
    for (int i = 0; i < rounds(15) && !rank_failed(rank); i++) {
        plait_world_options options = rank_options(rank);
        plait_world *world = NULL;
        plait_work *works[2] = { NULL };
        pthread_t threads[2];
        rank_doing(rank, "world %d", i);
        if (!rank_ok(rank, plait_world_create(&options, &world), "creating a world"))
            return;
        for (int j = 0; j < 2; j++) {
            rank_ok(rank, plait_barrier(plait_world_comm(world), &works[j]), "a work");
            pthread_create(&threads[j], NULL, wait_for, works[j]);
        }
        if (i % 2 == 0)
            rank_ok(rank, plait_work_wait(works[1], -1), "waiting");
        plait_work_release(works[0]);
        rank_ok(rank, plait_world_destroy(world), "destroying the world");
        for (int j = 0; j < 2; j++) {
            void *status = NULL;
            pthread_join(threads[j], &status);
            rank_check(rank,
                       (intptr_t)status == PLAIT_OK || (j == 0 && (intptr_t)status == PLAIT_INVALID_USAGE),
                       "a waiter got %s", plait_status_name((plait_status)(intptr_t)status));
        }
        plait_work_release(works[1]);
    }
}

/* ------------------------------------------------------ limits, lives, rest */

static void *stream(void *argument)
{
    struct aside *aside = argument;
    int64_t going = 1;
    while (aside->status == PLAIT_OK && going > 0) { /* until rank 0 says so */
        going = aside->rank->number != 0 || atomic_load(&aside->state) == 0;
        aside->status = plait_allreduce(aside->comm, &going, &going, 1, PLAIT_I64, PLAIT_MIN, NULL);
    }
    return NULL;
}

/* A deadline passes on one communicator while another is busy all the time. */
static void run_deadline_beside(struct rank *rank)
{
    plait_comm *busy = NULL, *idle = NULL;
    struct aside aside = { .rank = rank };
    pthread_t thread;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &busy), "split");
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &idle), "split");
    rank_ok(rank, plait_comm_set_timeout(idle, 100), "setting the deadline");
    aside.comm = busy;
    pthread_create(&thread, NULL, stream, &aside);
    if (rank->number == 0) {
        int64_t value = 1;
        plait_work *work = NULL;
        const int64_t start = now_ns();
        rank_ok(rank, plait_allreduce(idle, &value, &value, 1, PLAIT_I64, PLAIT_SUM, &work), "a work");
        rank_status(rank, plait_work_wait(work, 30), PLAIT_IN_PROGRESS, "a wait of 30 ms");
        const int64_t limited_ms = (now_ns() - start) / 1000000;
        rank_check(rank, limited_ms >= 29 && limited_ms < 1500, "a wait of 30 ms took %lld ms",
                   (long long)limited_ms);
        rank_status(rank, plait_work_wait(work, 10000), PLAIT_TIMED_OUT, "what the others never start");
        const int64_t took_ms = (now_ns() - start) / 1000000;
        rank_check(rank, took_ms < 3000, "a deadline of 100 ms took %lld ms", (long long)took_ms);
        plait_work_release(work);
        atomic_store(&aside.state, 1);
    }
    pthread_join(thread, NULL);
    rank_ok(rank, aside.status, "the busy communicator");
    rank_ok(rank, plait_comm_destroy(busy), "destroying the busy communicator");
    rank_ok(rank, plait_comm_destroy(idle), "destroying the other");
}

/* Rank 1 sends and leaves at once, at all moments of the receiver's patience: it is never accused. */
static void run_send_and_leave(struct rank *rank)
{
    for (int i = 0; i < rounds(60) && !rank_failed(rank); i++) {
        plait_world_options options = rank_options(rank);
        plait_world *world = NULL;
        int64_t value = i;
        rank_doing(rank, "world %d", i);
        if (!rank_ok(rank, plait_world_create(&options, &world), "creating a world"))
            return;
        plait_comm *comm = plait_world_comm(world);
        if (rank->number == 0) {
            rank_ok(rank,
                    plait_recv(comm, &value, 1, PLAIT_I64, i % 2 == 0 ? 1 : PLAIT_ANY_SOURCE, 3, NULL, NULL,
                               NULL),
                    "a receive");
            rank_check(rank, value == 1000 + i, "%lld came", (long long)value);
        } else {
            value = 1000 + i;
            nanosleep(&(struct timespec){ .tv_nsec = (long)(mix((uint64_t)i) % 12000000) }, NULL);
            rank_ok(rank, plait_send(comm, &value, 1, PLAIT_I64, 0, 3, NULL), "a send");
        }
        rank_ok(rank, plait_world_destroy(world), "destroying the world");
    }
}

/* All ranks end their worlds right after their last operation, whatever it was. */
static void run_finish_and_leave(struct rank *rank)
{
    enum { COUNT = 60000 };
    float *data = calloc(COUNT, sizeof *data);
    for (int i = 0; i < rounds(20) && !rank_failed(rank); i++) {
        plait_world_options options = rank_options(rank);
        plait_world *world = NULL;
        static const char *const plans[] = { NULL,      "ring", "direct-one-shot", "tree", "direct-two-phase",
                                             "doubling" };
        options.plan = plans[i % 6];
        if (!rank_ok(rank, plait_world_create(&options, &world), "creating a world"))
            break;
        plait_comm *comm = plait_world_comm(world);
        size_t count = i % 3 == 0 ? COUNT : 100;
        rank_doing(rank, "world %d", i);
        if (i % 4 == 3)
            rank_ok(rank, plait_broadcast(comm, data, count, PLAIT_F32, 0, NULL), "broadcast");
        else
            rank_ok(rank, plait_allreduce(comm, data, data, count, PLAIT_F32, PLAIT_SUM, NULL), "all-reduce");
        rank_ok(rank, plait_world_destroy(world), "destroying the world");
    }
    free(data);
}

/* ------------------------------------------------------------ by hand
 *
 * The test takes the drive itself, as another thread would that is between two looks. */

static struct engine *engine_of(const struct rank *rank)
{
    return &((struct world *)handle_find(HANDLE_WORLD, rank->world))->engine;
}

/* A driver leaves without what was submitted while it looked away; then comes a blocking call. */
static void run_left_behind(struct rank *rank)
{
    struct engine *engine = engine_of(rank);
    for (int i = 0; i < 20 && !rank_failed(rank); i++) {
        int64_t first[3], second[5];
        plait_work *work = NULL;
        fill(rank, first, 3, i);
        fill(rank, second, 5, i);
        while (!engine_enter(engine))
            sleep_ms(1);
        rank_ok(rank, plait_allreduce(rank->comm, first, first, 3, PLAIT_I64, PLAIT_SUM, &work), "a work");
        atomic_store(&engine->driving, 0);
        rank_ok(rank, plait_allreduce(rank->comm, second, second, 5, PLAIT_I64, PLAIT_SUM, NULL),
                "a call behind it");
        rank_status(rank, plait_work_status(work), PLAIT_OK, "the work before a call that is done");
        sum_is(rank, first, 3, i);
        sum_is(rank, second, 5, i);
        plait_work_release(work);
    }
}

/* Passes alone, as where something moves all the time, come to look at the clock. */
static void run_passes_alone(struct rank *rank)
{
    struct engine *engine = engine_of(rank);
    plait_comm *comm = NULL;
    plait_work *work = NULL;
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &comm), "split");
    rank_ok(rank, plait_comm_set_timeout(comm, 10), "setting the deadline");
    if (rank->number == 0) {
        while (!engine_enter(engine))
            sleep_ms(1);
        rank_ok(rank, plait_barrier(comm, &work), "a work");
        for (int i = 0; i < 1000 && plait_work_status(work) == PLAIT_IN_PROGRESS; i++) {
            engine_pass(engine);
            nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
        }
        rank_status(rank, plait_work_status(work), PLAIT_TIMED_OUT, "a work past its deadline");
        engine_leave(engine);
        plait_work_release(work);
    }
    rank_meet(rank);
    rank_ok(rank, plait_comm_destroy(comm), "destroying it");
}

static int64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Worlds that have nothing to do use no processor, though their background threads are there. */
static void run_idle(struct rank *rank)
{
    plait_work *work = NULL;
    rank_ok(rank, plait_barrier(rank->comm, &work), "a work");
    rank_ok(rank, plait_work_wait(work, -1), "waiting");
    plait_work_release(work);
    sleep_ms(50);
    rank_meet(rank);
    int64_t used = cpu_ns();
    sleep_ms(300);
    used = cpu_ns() - used;
    rank_check(rank, used < 5000000 * ranks_slowness(), "%d idle ranks used %lld us in 300 ms", rank->size,
               (long long)used / 1000);
    rank_meet(rank);
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }
#define BARE(title, function, ranks)                                                                         \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks, .bare = true }, NULL                         \
    }

static const struct scenario scenarios[] = {
    ROW("idle worlds use no processor", run_idle, 1),
    ROW("idle worlds use no processor", run_idle, 3),
    ROW("three threads block", run_blocking, 1),
    ROW("three threads block", run_blocking, 2),
    ROW("three threads block", run_blocking, 3),
    ROW("a call never overtakes a work", run_start_and_block, 2),
    ROW("three threads start storms of works", run_storm, 2),
    ROW("three threads start storms of works", run_storm, 4),
    ROW("callbacks that start works", run_relay, 1),
    ROW("callbacks that start works", run_relay, 3),
    ROW("an aborted communicator is destroyed, the world goes on", run_abort_and_go_on, 2),
    ROW("an aborted communicator is destroyed, the world goes on", run_abort_and_go_on, 3),
    ROW("nothing succeeds after an abort", run_nothing_after_abort, 1),
    ROW("nothing succeeds after an abort", run_nothing_after_abort, 2),
    ROW("an abort where no call waits", run_abort_of_one, 2),
    ROW("a driver leaves a work behind", run_left_behind, 1),
    ROW("a driver leaves a work behind", run_left_behind, 2),
    ROW("passes look at the clock", run_passes_alone, 2),
    ROW("a deadline beside a busy communicator", run_deadline_beside, 2),
    BARE("a world ends under waiters", run_end_under_waiters, 2),
    BARE("a sender leaves at once", run_send_and_leave, 2),
    BARE("all leave at once", run_finish_and_leave, 2),
    BARE("all leave at once", run_finish_and_leave, 4),
};

int main(void)
{
    return scenarios_run("engine", scenarios, LENGTH(scenarios));
}
