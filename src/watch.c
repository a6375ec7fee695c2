#include "watch.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

static const int64_t WATCH_NS = 1000000, LIFE_NS = 5000000;

/* -------------------------------------------------------------- who and what */

static struct culprit culprit_of(const struct comm *comm, int world_rank)
{
    if (world_rank < 0 || world_rank >= comm->world->size)
        return (struct culprit){ .rank = -1 };
    const struct member *member = &comm->world->members[world_rank];
    return (struct culprit){ .rank = world_rank, .pid = member->pid, .host = member->host };
}

static void describe_work(const struct work *work, const char **operation, char call[CALL_TEXT_BYTES])
{
    if (work == NULL) {
        *operation = "";
        call[0] = '\0';
    } else if (work->kind == WORK_COLLECTIVE) {
        *operation = collective_name(work->execution.call.kind);
        call_describe(&work->execution.call, call);
    } else {
        bool sends = work->kind == WORK_SEND;
        const struct transfer *transfer = &work->transfer;
        *operation = sends ? "send" : "receive";
        char peer[32];
        snprintf(peer, sizeof peer, transfer->peer < 0 ? "any rank" : "rank %d", transfer->peer);
        snprintf(call, CALL_TEXT_BYTES, "%s of %s%zu bytes %s %s, tag %llu", *operation,
                 sends ? "" : "up to ", transfer->size, sends ? "to" : "from", peer,
                 (unsigned long long)transfer->key.operation);
    }
}

static void write_record(struct fault_record *record, const struct comm *comm, const struct work *work,
                         plait_fault_kind kind, plait_status status, int culprit, const char *evidence)
{
    const char *operation;
    char call[CALL_TEXT_BYTES];
    describe_work(work, &operation, call);
    struct culprit who = culprit_of(comm, culprit);
    uint64_t number = work != NULL && work->number > 0 ? work->number - comm->group.uncounted : 0;
    fault_write(record, kind, status, &who, comm->name, number, operation, call, evidence);
}

/* The work that a communicator's fault is about: its collective, else a message of it. */
static const struct work *current_work(const struct comm *comm)
{
    if (comm->first != NULL && comm->first->begun)
        return comm->first;
    for (const struct work *work = comm->world->engine.messages; work != NULL; work = work->next)
        if (work->comm == comm)
            return work;
    return comm->first;
}

static struct seat *seat_of(const struct comm *comm, int rank)
{
    return comm->group.board == NULL ? NULL : comm->group.board->seats[rank];
}

/* ------------------------------------------------------------------- endings */

/* Tells the peers, through this rank's seat. */
static void show_end(struct comm *comm, const plait_fault *fault)
{
    struct seat *seat = seat_of(comm, comm->group.rank);
    if (seat == NULL)
        return;
    seat->end_status = fault->status;
    seat->end_kind = (int32_t)fault->kind;
    seat->end_culprit = fault->culprit;
    snprintf(seat->end_reason, sizeof seat->end_reason, "%.239s", fault->evidence);
    atomic_store_explicit(&seat->ended, (uint32_t)comm->first_number, memory_order_release);
    for (int rank = 0; rank < comm->group.ranks; rank++)
        if (rank != comm->group.rank)
            bell_ring(comm->group.board->bells[rank]);
}

/* Is the communicator over on `rank`, as far as its seat says? A mark that an
 * earlier user of the channel left does not count. */
bool comm_has_ended(const struct comm *comm, int rank)
{
    const struct seat *seat = seat_of(comm, rank);
    return seat != NULL &&
           atomic_load_explicit(&seat->ended, memory_order_acquire) == (uint32_t)comm->first_number;
}

/* In good order, by destroying it? */
static bool has_left(const struct comm *comm, int rank)
{
    return comm_has_ended(comm, rank) && seat_of(comm, rank)->end_kind == PLAIT_FAULT_LEFT;
}

/* Tells the peers that this rank has destroyed the communicator. */
static void show_left(struct comm *comm)
{
    struct fault_record record;
    write_record(&record, comm, NULL, PLAIT_FAULT_LEFT, PLAIT_PEER_LOST, comm->world->rank,
                 "it destroyed the communicator while others needed it");
    show_end(comm, &record.fault);
}

static void remember(struct comm *comm, const struct fault_record *record)
{
    struct world *world = comm->world;
    pthread_mutex_lock(&comm->fault_lock);
    comm->fault = *record;
    pthread_mutex_unlock(&comm->fault_lock);
    pthread_mutex_lock(&world->lock);
    if (world->fault.fault.kind == PLAIT_FAULT_NONE)
        world->fault = *record;
    pthread_mutex_unlock(&world->lock);
}

static void tell_handler(const struct comm *comm, const struct fault_record *record)
{
    const struct settings *settings = &comm->world->settings;
    if (settings->on_fault == NULL)
        return;
    struct callback_frame frame;
    callback_enter(&frame, &comm->world->engine);
    settings->on_fault(settings->fault_context, &record->fault);
    callback_leave(&frame);
}

/* Ends a communicator: its works fail with `record`, its peers are told. */
static void end(struct comm *comm, const struct fault_record *record)
{
    if (atomic_load(&comm->over) != 0)
        return;
    remember(comm, record);
    atomic_store(&comm->over, record->fault.status);
    show_end(comm, &record->fault);
    log_info("communicator %s is over: %s", comm->name, record->sentence);
    tell_handler(comm, record);
    comm_fail_all(comm);
}

static void fail_messages(struct comm *comm)
{
    struct engine *engine = &comm->world->engine;
    struct work **link = &engine->messages;
    while (*link != NULL) {
        struct work *work = *link;
        if (work->comm != comm) {
            link = &work->next;
            continue;
        }
        *link = work->next;
        if (work->transfer.status == PLAIT_IN_PROGRESS)
            engine->transport->cancel(engine->endpoint, &work->transfer);
        work_finish(work, (plait_status)comm->over, &comm->fault);
        link = &engine->messages; /* a callback may have added some */
    }
}

void comm_fail_all(struct comm *comm)
{
    while (comm->first != NULL) {
        struct work *work = comm->first;
        comm->first = work->next;
        if (comm->first == NULL)
            comm->last = NULL;
        if (work->begun)
            execution_cancel(&work->execution);
        work_finish(work, (plait_status)comm->over, &comm->fault);
    }
    fail_messages(comm);
}

/* Takes over the verdict of a peer whose communicator is over. */
static void write_verdict(struct fault_record *record, const struct comm *comm, const struct work *work,
                          int rank)
{
    const struct seat *seat = seat_of(comm, rank);
    char reason[sizeof seat->end_reason], evidence[320];
    memcpy(reason, seat->end_reason, sizeof reason);
    reason[sizeof reason - 1] = '\0';
    plait_status status = (plait_status)seat->end_status;
    if (plait_status_remedy(status) != PLAIT_REMEDY_REBUILD)
        status = PLAIT_PEER_LOST;
    if (seat->end_culprit == comm->world_ranks[rank])
        snprintf(evidence, sizeof evidence, "%s", reason);
    else
        snprintf(evidence, sizeof evidence, "%s (seen by rank %d)", reason, comm->world_ranks[rank]);
    write_record(record, comm, work, (plait_fault_kind)seat->end_kind, status, seat->end_culprit, evidence);
}

/* Ends a communicator by a transfer of `work` that failed. A peer whose communicator is over gives up its
 * messages after it has said why; then that is why. `rank` is the peer, -1 for any. */
static void end_by_transfer(struct comm *comm, struct work *work, int rank, plait_status status)
{
    struct fault_record record;
    if (rank >= 0 && comm_has_ended(comm, rank))
        write_verdict(&record, comm, work, rank);
    else
        write_record(&record, comm, work, PLAIT_FAULT_STUCK, status, rank < 0 ? -1 : comm->world_ranks[rank],
                     failure_text());
    if (work->kind == WORK_COLLECTIVE)
        execution_cancel(&work->execution);
    end(comm, &record);
    work_finish(work, record.fault.status, &record);
}

void comm_end_by_transfer(struct comm *comm, struct work *work, plait_status status)
{
    end_by_transfer(comm, work, work->execution.waiting, status);
}

void comm_report_mismatch(struct comm *comm, struct work *work)
{
    struct fault_record record;
    write_record(&record, comm, work, PLAIT_FAULT_MISMATCH, PLAIT_MISMATCH,
                 comm->world_ranks[work->execution.waiting], failure_text());
    snprintf(record.sentence, sizeof record.sentence, "%s", failure_text());
    remember(comm, &record);
    tell_handler(comm, &record);
    work_finish(work, PLAIT_MISMATCH, &record);
}

void work_fail_by_sentence(struct work *work, plait_status status)
{
    struct fault_record record;
    write_record(&record, work->comm, work, PLAIT_FAULT_NONE, status, -1, failure_text());
    snprintf(record.sentence, sizeof record.sentence, "%s", failure_text());
    work_finish(work, status, &record);
}

static int rank_in(const struct comm *comm, int world_rank)
{
    for (int rank = 0; rank < comm->group.ranks; rank++)
        if (comm->world_ranks[rank] == world_rank)
            return rank;
    return -1;
}

bool message_settle(struct work *work)
{
    plait_status status = work->transfer.status;
    if (status == PLAIT_OK) {
        work->source = rank_in(work->comm, work->transfer.source);
        work_finish(work, PLAIT_OK, NULL);
        return false;
    }
    if (status == PLAIT_TRUNCATED) {
        failure(
            PLAIT_TRUNCATED,
            "rank %d sent %zu bytes with tag %llu and the receive has room for %zu; the message is dropped, "
            "the buffer untouched",
            work->transfer.source, work->transfer.moved, (unsigned long long)work->transfer.key.operation,
            work->transfer.size);
        work_fail_by_sentence(work, status);
        return false;
    }
    end_by_transfer(work->comm, work, rank_in(work->comm, work->transfer.peer), status);
    return true;
}

/* ---------------------------------------------------------------- looking out */

static void end_by_abort(struct comm *comm)
{
    struct fault_record record;
    char evidence[160], reason[sizeof comm->abort_reason];
    pthread_mutex_lock(&comm->fault_lock);
    memcpy(reason, comm->abort_reason, sizeof reason);
    pthread_mutex_unlock(&comm->fault_lock);
    snprintf(evidence, sizeof evidence, "%s", reason[0] != '\0' ? reason : "it gave no reason");
    write_record(&record, comm, current_work(comm), PLAIT_FAULT_ABORTED, PLAIT_ABORTED, comm->world->rank,
                 evidence);
    end(comm, &record);
}

/* Has `rank` done all it has to do for the collective under way here? */
static bool has_finished(const struct comm *comm, int rank, uint64_t number)
{
    const struct seat *seat = seat_of(comm, rank);
    return seat != NULL && atomic_load_explicit(&seat->finished, memory_order_acquire) >= number;
}

static void end_as_peer_did(struct comm *comm, int rank)
{
    struct fault_record record;
    write_verdict(&record, comm, current_work(comm), rank);
    end(comm, &record);
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
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (end_matters(comm, rank)) {
            end_as_peer_did(comm, rank);
            return true;
        }
    }
    return false;
}

/* For messages: a failure anywhere in the communicator is everybody's; that a
 * rank left it in good order concerns those who wait for it (lost_peer()). */
static bool watch_failures(struct comm *comm)
{
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (rank != comm->group.rank && comm_has_ended(comm, rank) && !has_left(comm, rank)) {
            end_as_peer_did(comm, rank);
            return true;
        }
    }
    return false;
}

static void end_by_loss(struct comm *comm, const struct work *work, int rank, enum life life)
{
    if (comm_has_ended(comm, rank)) {
        end_as_peer_did(comm, rank);
        return;
    }
    struct fault_record record;
    write_record(&record, comm, work, life == LIFE_DEAD ? PLAIT_FAULT_DIED : PLAIT_FAULT_LEFT,
                 PLAIT_PEER_LOST, comm->world_ranks[rank],
                 life == LIFE_DEAD ? "its process is gone" : "it destroyed its world while others needed it");
    end(comm, &record);
}

static enum life life_of(const struct comm *comm, int rank)
{
    if (rank == comm->group.rank)
        return LIFE_HERE;
    if (has_left(comm, rank))
        return LIFE_LEFT;
    return comm->group.transport->life(comm->group.endpoint, comm->world_ranks[rank]);
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
        /* It may have finished between the two looks. */
        if (life == LIFE_HERE || has_finished(comm, rank, work->number))
            continue;
        /* Who left may have done so because of the one who died. */
        if (lost < 0 || life == LIFE_DEAD) {
            lost = rank;
            how = life;
        }
    }
    if (lost >= 0)
        end_by_loss(comm, work, lost, how);
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
        end_by_loss(work->comm, work, lost, life);
        return true; /* the list has changed */
    }
    return false;
}

static void end_by_deadline(struct comm *comm, const struct work *work, int64_t timeout_ms)
{
    bool entered = work->kind == WORK_COLLECTIVE;
    int rank = -1;
    if (work->kind == WORK_COLLECTIVE && work->begun)
        rank = execution_awaited(&work->execution, &entered);
    int culprit = rank >= 0                       ? comm->world_ranks[rank]
                  : work->kind == WORK_COLLECTIVE ? -1
                                                  : work->transfer.peer;
    char evidence[160];
    snprintf(evidence, sizeof evidence, "timed out after %.3f s%s%s", (double)timeout_ms / 1e3,
             culprit < 0 ? "" : "; its process is alive",
             culprit < 0 || entered ? "" : "; it may be busy elsewhere, stopped, or have skipped this call");
    struct fault_record record;
    write_record(&record, comm, work, entered ? PLAIT_FAULT_STUCK : PLAIT_FAULT_NOT_ENTERED, PLAIT_TIMED_OUT,
                 culprit, evidence);
    end(comm, &record);
}

/* True if the work's deadline passed, which has ended its communicator. */
static bool watch_deadline(struct work *work)
{
    int64_t timeout_ms = atomic_load(&work->comm->timeout_ms);
    if (work->deadline == 0)
        work->deadline = deadline_after_ms(timeout_ms);
    if (!deadline_passed(work->deadline))
        return false;
    end_by_deadline(work->comm, work, timeout_ms);
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
        show_left(comm);
    engine_forget(engine, comm);
    atomic_store(&comm->left, true);
}

/* Does what other threads have asked for. */
static void watch_requests(struct engine *engine)
{
    atomic_store(&engine->alarm, false);
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
            end_by_abort(comm);
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

void comm_ask_abort(struct comm *comm, const char *reason)
{
    pthread_mutex_lock(&comm->fault_lock);
    if (!atomic_load(&comm->abort_asked))
        snprintf(comm->abort_reason, sizeof comm->abort_reason, "%s", reason != NULL ? reason : "");
    pthread_mutex_unlock(&comm->fault_lock);
    atomic_store(&comm->abort_asked, true);
    atomic_store(&comm->world->engine.alarm, true);
}
