#include "watch.h"

#include "base/clock.h"
#include "ending.h"
#include "tidings.h"
#include "uses.h"

static const int64_t WATCH_NS = 1000000, LIFE_NS = 5000000;

/* Has `rank` done all it has to do for the collective under way here? */
static bool has_finished(const struct comm *comm, int rank, uint64_t number)
{
    const struct seat *seat = comm_seat(comm, rank);
    return atomic_load_explicit(&seat->finished, memory_order_acquire) >= number;
}

/* Does the end of `rank` matter to the collective under way? Not if it came
 * after that rank had finished it. */
static bool end_matters(const struct comm *comm, int rank)
{
    const struct work *head = comm->first;
    return rank != comm->group.rank && comm_has_ended(comm, rank) && head != NULL && head->begun &&
           !has_finished(comm, rank, head->number);
}

static bool watch_ends(struct comm *comm)
{
    tidings_hear(comm);
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (end_matters(comm, rank)) {
            comm_end_as_peer_did(comm, rank);
            return true;
        }
    }
    return false;
}

/* For messages: a failure anywhere in the communicator is everybody's; that a
 * rank left it in good order concerns those who wait for it (lost_peer()). */
static bool watch_failures(struct comm *comm)
{
    tidings_hear(comm);
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (rank != comm->group.rank && comm_has_ended(comm, rank) && !comm_has_left(comm, rank)) {
            comm_end_as_peer_did(comm, rank);
            return true;
        }
    }
    return false;
}

static enum life life_of(const struct comm *comm, int rank)
{
    if (rank == comm->group.rank)
        return LIFE_HERE;
    if (comm_has_left(comm, rank))
        return LIFE_LEFT;
    return comm->group.transport->life(comm->group.endpoint, comm->world_ranks[rank]);
}

/* What a rank that is gone left behind may still lie in the transport, word of how far it was among it. */
static bool still_comes(struct comm *comm, int rank, uint64_t number, bool *moved)
{
    if (comm->group.board != NULL)
        return has_finished(comm, rank, number); /* it may have finished between the two looks */
    bool more;
    do { /* each word that is heard may make way for the next */
        more = comm->group.transport->progress(comm->group.endpoint);
        more |= tidings_hear(comm);
        *moved |= more;
    } while (more);
    return !*moved && has_finished(comm, rank, number);
}

static bool watch_collective_lives(struct comm *comm)
{
    struct work *work = comm->first;
    if (work == NULL || !work->begun)
        return false;
    int lost = -1;
    enum life how = LIFE_HERE;
    for (int rank = 0; rank < comm->group.ranks && how != LIFE_DEAD; rank++) {
        if (has_finished(comm, rank, work->number))
            continue;
        enum life life = life_of(comm, rank);
        if (life == LIFE_HERE)
            continue;
        bool moved = false;
        if (still_comes(comm, rank, work->number, &moved))
            continue;
        if (moved)
            return false; /* the work may be over by what came just now, from whomever */
        /* Who left may have done so because of the one who died. */
        if (lost < 0 || life == LIFE_DEAD) {
            lost = rank;
            how = life;
        }
    }
    if (lost >= 0)
        comm_end_by_loss(comm, work, lost, how);
    return lost >= 0;
}

/* A peer whose loss may leave a message waiting for ever; -1 if there is none. For any source that is
 * one who died, for it may have been the one to send, or all, if they left in good order. */
static int lost_peer(const struct work *work, enum life *life)
{
    const struct comm *comm = work->comm;
    int lost = -1;
    bool hope = false;
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (rank == comm->group.rank)
            continue;
        if (work->transfer.peer >= 0 && comm->world_ranks[rank] != work->transfer.peer)
            continue;
        *life = life_of(comm, rank);
        if (*life == LIFE_DEAD)
            return rank;
        if (*life == LIFE_HERE)
            hope = true;
        else
            lost = rank;
    }
    *life = LIFE_LEFT;
    return hope ? -1 : lost;
}

static bool watch_message_lives(struct engine *engine)
{
    for (struct work *work = engine->messages; work != NULL; work = work->next) {
        enum life life = LIFE_HERE;
        int lost = work->transfer.status == PLAIT_IN_PROGRESS ? lost_peer(work, &life) : -1;
        if (lost < 0)
            continue;
        /* What it left behind may still come. */
        while (engine->transport->progress(engine->endpoint))
            ;
        if (work->transfer.status != PLAIT_IN_PROGRESS)
            continue; /* it came; the next pass settles it */
        comm_end_by_loss(work->comm, work, lost, life);
        return true; /* the list has changed */
    }
    return false;
}

/* True if the work's deadline passed, which has ended its communicator. */
static bool watch_deadline(struct work *work)
{
    int64_t timeout_ms = atomic_load(&work->comm->timeout_ms);
    if (work->deadline == 0)
        work->deadline = deadline_after_ms(timeout_ms);
    if (!deadline_passed(work->deadline))
        return false;
    comm_end_by_deadline(work->comm, work, timeout_ms);
    return true;
}

static bool wants_abort(const struct comm *comm)
{
    /* One that was left may be freed as soon as the world's lock is. */
    return atomic_load(&comm->abort_asked) && atomic_load(&comm->over) == 0 && !atomic_load(&comm->left);
}

static bool wants_to_leave(const struct comm *comm)
{
    return atomic_load(&comm->leave_asked) && !atomic_load(&comm->left);
}

/* Whoever destroys `comm` frees it once it sees `left`. */
static void let_leave(struct engine *engine, struct comm *comm)
{
    if (atomic_load(&comm->over) == 0)
        comm_show_left(comm);
    tidings_end(comm);
    engine_forget(engine, comm);
    atomic_store(&comm->left, true);
}

/* Does what other threads have asked for. */
static void watch_requests(struct engine *engine)
{
    atomic_store(&engine->alarm, false);
    uses_answer(engine);
    struct world *world = engine->world;
    for (;;) {
        struct comm *comm;
        pthread_mutex_lock(&world->lock);
        for (comm = world->comms; comm != NULL; comm = comm->next)
            if (wants_abort(comm) || wants_to_leave(comm))
                break;
        pthread_mutex_unlock(&world->lock);
        if (comm == NULL)
            return;
        if (wants_abort(comm))
            comm_end_by_abort(comm);
        else
            let_leave(engine, comm);
    }
}

static void watch_comms(struct engine *engine, bool lives)
{
    struct comm *next;
    for (struct comm *comm = engine->busy; comm != NULL; comm = next) {
        next = comm->next_busy;
        if (comm->first == NULL || atomic_load(&comm->over) != 0 || watch_ends(comm))
            continue;
        if (lives && watch_collective_lives(comm))
            continue;
        if (comm->first->begun)
            watch_deadline(comm->first);
    }
}

static void watch_messages(struct engine *engine, bool lives)
{
    struct work *work = engine->messages;
    while (work != NULL) {
        bool waits = work->transfer.status == PLAIT_IN_PROGRESS;
        if (waits && (watch_failures(work->comm) || watch_deadline(work)))
            work = engine->messages;
        else
            work = work->next;
    }
    if (lives)
        while (watch_message_lives(engine))
            ;
}

void engine_watch(struct engine *engine, bool now)
{
    if (atomic_load_explicit(&engine->alarm, memory_order_relaxed))
        watch_requests(engine);
    int64_t time = clock_ns();
    if (!now && time < engine->next_watch_ns)
        return;
    engine->next_watch_ns = time + WATCH_NS;
    bool lives = time >= engine->next_life_ns;
    if (lives)
        engine->next_life_ns = time + LIFE_NS;
    watch_comms(engine, lives);
    watch_messages(engine, lives);
}
