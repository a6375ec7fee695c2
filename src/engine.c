#include "engine.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/status.h"
#include "ending.h"
#include "patience.h"
#include "watch.h"
#include "work.h"
#include "world.h"

enum {
    PROGRESS_EVERY = 32,  /* passes between looks at messages while no work waits for one */
    WATCH_EVERY = 128,    /* passes between looks at the clock while things move */
    DOZE_NS = 100000,     /* a nap of the background thread... */
    DOZING_NS = 2000000,  /* ...which takes such naps for so long after it was wanted */
    RECHECK_NS = 1000000, /* how long a work that was submitted in a gap may lie unseen */
};

/* ------------------------------------------------------------- the driver's */

static void accept_message(struct engine *engine, struct work *work)
{
    if (atomic_load(&work->comm->over) != 0) {
        work_finish(work, (plait_status)atomic_load(&work->comm->over), &work->comm->fault);
        return;
    }
    work->next = engine->messages;
    engine->messages = work;
    if (work->kind == WORK_SEND)
        engine->transport->send(engine->endpoint, &work->transfer);
    else
        engine->transport->recv(engine->endpoint, &work->transfer);
}

/* Takes a new work over. */
static void accept_work(struct engine *engine, struct work *work)
{
    struct comm *comm = work->comm;
    work->next = NULL;
    if (work->kind != WORK_COLLECTIVE) {
        accept_message(engine, work);
        return;
    }
    if (comm->first == NULL)
        comm->first = work;
    else
        comm->last->next = work;
    comm->last = work;
    if (!comm->busy) {
        comm->busy = true;
        comm->next_busy = engine->busy;
        engine->busy = comm;
    }
}

void engine_forget(struct engine *engine, struct comm *comm)
{
    for (struct comm **link = &engine->busy; *link != NULL; link = &(*link)->next_busy) {
        if (*link == comm) {
            *link = comm->next_busy;
            return;
        }
    }
}

static void accept_incoming(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct work *work = engine->incoming;
    engine->incoming = engine->incoming_last = NULL;
    atomic_store_explicit(&engine->incoming_any, false, memory_order_relaxed);
    pthread_mutex_unlock(&engine->lock);
    while (work != NULL) {
        struct work *next = work->next;
        accept_work(engine, work);
        work = next;
    }
}

static struct work *pop(struct comm *comm)
{
    struct work *work = comm->first;
    comm->first = work->next;
    if (comm->first == NULL)
        comm->last = NULL;
    return work;
}

/* Tells the peers how far this rank is: they need not fear for it, nor for
 * what it still had to read, up to that operation. */
static void show_finished(struct comm *comm, uint64_t number)
{
    atomic_store_explicit(&comm_seat(comm, comm->group.rank)->finished, number, memory_order_release);
}

/* What became of the head's execution. */
static void settle_head(struct comm *comm, plait_status status)
{
    struct work *work = pop(comm);
    if (status == PLAIT_OK || work->execution.refused || plait_status_remedy(status) == PLAIT_REMEDY_GO_ON) {
        show_finished(comm, work->execution.number);
        if (status == PLAIT_OK)
            work_finish(work, PLAIT_OK, NULL);
        else
            comm_report_failure(comm, work, status);
        return;
    }
    comm_end_by_transfer(comm, work, status);
}

/* A caller's function may run meanwhile. */
static plait_status advance_head(const struct engine *engine, struct work *work)
{
    if (work->execution.call.made == NULL)
        return execution_advance(&work->execution);
    struct callback_frame frame;
    callback_enter(&frame, engine);
    plait_status status = execution_advance(&work->execution);
    callback_leave(&frame);
    return status;
}

/* Advances the communicator's collectives, one after another. */
static bool advance_comm(const struct engine *engine, struct comm *comm)
{
    bool moved = false;
    while (comm->first != NULL) {
        struct work *work = comm->first;
        if (atomic_load_explicit(&comm->over, memory_order_relaxed) != 0) {
            comm_fail_all(comm);
            return true;
        }
        if (!work->begun) {
            plait_status status = execution_begin(&work->execution, &comm->group, &work->execution.call);
            if (status != PLAIT_OK) {
                work_fail_by_sentence(pop(comm), status);
                moved = true;
                continue;
            }
            work->begun = true;
            work->number = work->execution.number;
        }
        plait_status status = advance_head(engine, work);
        moved |= work->execution.moved;
        work->execution.moved = false;
        if (status == PLAIT_IN_PROGRESS)
            break;
        settle_head(comm, status);
        moved = true;
    }
    return moved;
}

static bool advance_busy(struct engine *engine)
{
    bool moved = false;
    struct comm **link = &engine->busy;
    while (*link != NULL) {
        struct comm *comm = *link;
        moved |= advance_comm(engine, comm);
        if (comm->first == NULL && *link == comm) {
            *link = comm->next_busy;
            comm->busy = false;
        } else {
            link = &comm->next_busy;
        }
    }
    return moved;
}

static bool settle_messages(struct engine *engine)
{
    bool moved = false;
    struct work **link = &engine->messages;
    while (*link != NULL) {
        struct work *work = *link;
        if (work->transfer.status == PLAIT_IN_PROGRESS) {
            link = &work->next;
            continue;
        }
        *link = work->next;
        moved = true;
        if (message_settle(work))
            link = &engine->messages; /* others went with it */
    }
    return moved;
}

static bool messages_wanted(const struct engine *engine)
{
    if (engine->messages != NULL)
        return true;
    for (const struct comm *comm = engine->busy; comm != NULL; comm = comm->next_busy)
        if (comm->first != NULL && comm->first->begun &&
            (comm->first->execution.open > 0 || comm->group.board == NULL))
            return true;
    return false;
}

bool engine_pass(struct engine *engine)
{
    bool moved = false;
    /* Requests first, so that nothing which is started after an abort succeeds. The clock is looked at
     * now and then even while things move, for there may be others which do not. */
    if (atomic_load_explicit(&engine->alarm, memory_order_relaxed))
        engine_watch(engine, true);
    else if (++engine->passes % WATCH_EVERY == 0)
        engine_watch(engine, false);
    if (atomic_load_explicit(&engine->incoming_any, memory_order_acquire)) {
        accept_incoming(engine);
        moved = true;
    }
    if (engine->busy != NULL)
        moved |= advance_busy(engine);
    if (engine->passes % PROGRESS_EVERY == 0 || messages_wanted(engine)) {
        moved |= engine->transport->progress(engine->endpoint);
        if (engine->messages != NULL)
            moved |= settle_messages(engine);
    }
    return moved;
}

static bool anything_moves(void *context)
{
    return engine_pass(context);
}

/* Does a rank that is waited for need this core? */
static bool is_in_the_way(const struct engine *engine)
{
    const struct comm *comm = engine->busy;
    return comm != NULL && comm->first != NULL && comm->first->begun && comm->group.board != NULL &&
           execution_blocks_peer(&comm->first->execution);
}

/* Are all ranks in the operation that is waited for? */
static bool is_soon(const struct engine *engine)
{
    const struct comm *comm = engine->busy;
    return comm != NULL && comm->first != NULL && comm->first->begun && comm->first->execution.met;
}

/* Drives until `done` or the deadline; `done` is NULL for the background
 * thread, which stops when there is nothing to do or somebody waits. */
static void drive(struct engine *engine, const struct work *done, int64_t deadline)
{
    struct patience patience = { 0 };
    struct waiting waiting = { .temper = &engine->temper,
                               .crowded = engine->crowded,
                               .background = done == NULL,
                               .bell = engine->bell,
                               .berth = &engine->berth,
                               .look = anything_moves,
                               .context = engine };
    for (;;) {
        bool moved = engine_pass(engine);
        if (done != NULL ? work_status(done) != PLAIT_IN_PROGRESS
                         : atomic_load(&engine->active) == 0 || atomic_load(&engine->waiters) > 0)
            return;
        if (moved) {
            patience_end(&patience, &waiting);
            if (deadline_passed(deadline))
                return;
            continue;
        }
        waiting.in_the_way = engine->crowded && is_in_the_way(engine);
        waiting.soon = done == NULL && is_soon(engine);
        if (patience_turn(&patience, &waiting)) {
            engine_watch(engine, false);
            if (deadline_passed(deadline))
                return;
        }
    }
}

/* ---------------------------------------------------------------- handing on */

/* The driver may be napping. */
static void ring(struct engine *engine)
{
    if (engine->bell != NULL)
        bell_ring(engine->bell);
    else
        berth_wake(&engine->berth);
}

static void wake_thread(struct engine *engine)
{
    atomic_fetch_add(&engine->thread_word, 1);
    if (atomic_load(&engine->thread_idle))
        futex_wake(&engine->thread_word, 1);
}

static void wake_waiters(struct engine *engine)
{
    atomic_fetch_add(&engine->turn, 1);
    if (atomic_load(&engine->waiters) > 0)
        futex_wake(&engine->turn, INT32_MAX);
}

void engine_work_done(struct engine *engine)
{
    if (atomic_load(&engine->waiters) > 0)
        wake_waiters(engine);
}

/* A work that is submitted between the two loads of a fence-less hand-over
 * may be missed here; the background thread, which engine_nudge() wakes when it finds a
 * driver, looks again within RECHECK_NS. The fence would cost every small operation. */
void engine_leave(struct engine *engine)
{
    atomic_store_explicit(&engine->driving, 0, memory_order_release);
    if (atomic_load_explicit(&engine->active, memory_order_relaxed) == 0)
        return;
    if (atomic_load(&engine->waiters) > 0)
        wake_waiters(engine);
    else
        wake_thread(engine);
}

/* Drives if there is work that nobody waits for. */
static bool drive_alone(struct engine *engine)
{
    if (atomic_load(&engine->active) == 0 || atomic_load(&engine->waiters) > 0 || !engine_enter(engine))
        return false;
    drive(engine, NULL, NO_DEADLINE);
    atomic_exchange(&engine->driving, 0);
    if (atomic_load(&engine->waiters) > 0)
        wake_waiters(engine);
    return true;
}

/* For a while after it was wanted the thread only dozes: it looks by itself, so that a
 * caller who starts a work and waits for it at once need not pay for waking it. */
static void *background(void *context)
{
    struct engine *engine = context;
    uint32_t seen = atomic_load(&engine->thread_word);
    int64_t wanted_ns = clock_ns();
    while (!atomic_load(&engine->stop)) {
        bool drove = drive_alone(engine);
        uint32_t now = atomic_load(&engine->thread_word);
        if (drove || now != seen)
            wanted_ns = clock_ns();
        seen = now;
        if (drove)
            continue;
        bool doze = clock_ns() - wanted_ns < DOZING_NS;
        atomic_store(&engine->thread_idle, !doze);
        bool work = atomic_load(&engine->active) > 0; /* submitted since, or driven by others */
        if (atomic_load(&engine->thread_word) == seen)
            futex_wait(&engine->thread_word, seen, doze ? DOZE_NS : work ? RECHECK_NS : -1);
        atomic_store(&engine->thread_idle, false);
    }
    return NULL;
}

/* Under the lock. Without a thread works still progress whenever somebody
 * tests or waits, so failing to make one costs overlap and no more. */
static void make_thread(struct engine *engine)
{
    if (engine->has_thread)
        return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    engine->has_thread = pthread_create(&engine->thread, NULL, background, engine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void engine_submit(struct engine *engine, struct work *work)
{
    work->counted = true;
    atomic_fetch_add(&work->comm->outstanding, 1);
    atomic_fetch_add(&engine->active, 1);
    work->next = NULL;

    pthread_mutex_lock(&engine->lock);
    if (engine->incoming == NULL)
        engine->incoming = work;
    else
        engine->incoming_last->next = work;
    engine->incoming_last = work;
    atomic_store_explicit(&engine->incoming_any, true, memory_order_release);
    make_thread(engine);
    pthread_mutex_unlock(&engine->lock);
}

void engine_nudge(struct engine *engine)
{
    if (engine_enter(engine)) {
        engine_pass(engine);
        engine_leave(engine);
        return;
    }
    ring(engine);
    if (atomic_load(&engine->active) > 0)
        wake_thread(engine);
}

void engine_hand_over(struct engine *engine)
{
    ring(engine);
    atomic_fetch_add(&engine->thread_word, 1);
    futex_wake(&engine->thread_word, 1); /* also while it only dozes, which may last too long here */
}

plait_status engine_wait(struct engine *engine, struct work *work, int64_t deadline)
{
    while (work_status(work) == PLAIT_IN_PROGRESS && !deadline_passed(deadline)) {
        if (engine_enter(engine)) {
            drive(engine, work, deadline);
            engine_leave(engine);
            continue;
        }
        atomic_fetch_add(&engine->waiters, 1);
        uint32_t seen = atomic_load(&engine->turn);
        if (work_status(work) == PLAIT_IN_PROGRESS && atomic_load(&engine->driving) != 0) {
            ring(engine); /* the driver may be napping */
            int64_t left = deadline_left_ms(deadline);
            futex_wait(&engine->turn, seen, (left < 5 ? left : 5) * 1000000);
        }
        atomic_fetch_sub(&engine->waiters, 1);
    }
    return work_status(work);
}

/* The short way of a collective that nothing else is under way beside: without a queue,
 * and done if the peers are here already. Otherwise it is under way, and the queue takes it from there. */
static bool run_at_once(struct engine *engine, struct work *work)
{
    struct comm *comm = work->comm;
    if (work->kind != WORK_COLLECTIVE || work->execution.call.made != NULL || engine->busy != NULL ||
        engine->messages != NULL || atomic_load_explicit(&comm->over, memory_order_relaxed) != 0 ||
        atomic_load_explicit(&engine->alarm, memory_order_relaxed) ||
        execution_begin(&work->execution, &comm->group, &work->execution.call) != PLAIT_OK)
        return false;
    work->begun = true;
    work->number = work->execution.number;
    if (execution_advance(&work->execution) != PLAIT_OK)
        return false;
    show_finished(comm, work->execution.number);
    return true;
}

/* The end of a work on its caller's stack. */
static plait_status end_run(struct work *work)
{
    plait_status status = work_tell(work);
    free(work->fault);
    work->fault = NULL;
    return status;
}

/* One that has to wait counts among the communicator's users, so that another thread may destroy it
 * meanwhile. */
plait_status engine_run(struct engine *engine, struct work *work)
{
    _Atomic int *users = &work->comm->users;
    if (engine_enter(engine)) {
        /* Works that were submitted before, to a driver who left without them, come first. */
        if (atomic_load_explicit(&engine->incoming_any, memory_order_relaxed))
            accept_incoming(engine);
        if (run_at_once(engine, work)) {
            engine_leave(engine);
            return PLAIT_OK;
        }
        atomic_fetch_add(users, 1);
        accept_work(engine, work);
        drive(engine, work, NO_DEADLINE);
        engine_leave(engine);
        atomic_fetch_sub(users, 1);
        return end_run(work);
    }
    if (engine_calls_back(engine))
        return failure(PLAIT_INVALID_USAGE,
                       "a blocking call from a callback, which must not wait; start a work instead");
    atomic_fetch_add(users, 1);
    engine_submit(engine, work);
    ring(engine);
    engine_wait(engine, work, NO_DEADLINE);
    atomic_fetch_sub(users, 1);
    return end_run(work);
}

static void count_users(struct work *first, int change)
{
    for (struct work *work = first; work != NULL; work = work->sibling)
        atomic_fetch_add(&work->comm->users, change);
}

void engine_run_together(struct engine *engine, struct work *first, struct work *all)
{
    count_users(first, 1);
    if (engine_enter(engine)) {
        if (atomic_load_explicit(&engine->incoming_any, memory_order_relaxed))
            accept_incoming(engine);
        for (struct work *work = first; work != NULL; work = work->sibling)
            accept_work(engine, work);
        drive(engine, all, NO_DEADLINE);
        engine_leave(engine);
    } else {
        for (struct work *work = first; work != NULL; work = work->sibling)
            engine_submit(engine, work);
        ring(engine);
        engine_wait(engine, all, NO_DEADLINE);
    }
    count_users(first, -1);
}

plait_status engine_start(struct engine *engine, struct world *world)
{
    engine->world = world;
    engine->transport = world->transport;
    engine->endpoint = world->endpoint;
    engine->bell = world->transport->bell(world->endpoint);
    berth_open(&engine->berth, world->transport, world->endpoint);
    engine->crowded = world->local_size > world->cores;
    int error = pthread_mutex_init(&engine->lock, NULL);
    return error == 0 ? PLAIT_OK : failure_errno(PLAIT_SYSTEM_ERROR, error, "no lock for the engine");
}

void engine_stop(struct engine *engine)
{
    if (engine->has_thread) {
        atomic_store(&engine->stop, true);
        wake_thread(engine);
        pthread_join(engine->thread, NULL);
    }
    berth_close(&engine->berth);
    pthread_mutex_destroy(&engine->lock);
}
