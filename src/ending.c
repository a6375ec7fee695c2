#include "ending.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "tidings.h"

/* --------------------------------------------------------------- who and what */

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
        const struct call *made = work->begun ? execution_call(&work->execution) : &work->execution.call;
        *operation = call_operation(made);
        call_describe(made, call);
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

/* ------------------------------------------------------------- what peers see */

/* Tells the peers, through this rank's seat. */
static void show_end(struct comm *comm, const plait_fault *fault)
{
    struct seat *seat = comm_seat(comm, comm->group.rank);
    seat->end_status = fault->status;
    seat->end_kind = (int32_t)fault->kind;
    seat->end_culprit = fault->culprit;
    snprintf(seat->end_reason, sizeof seat->end_reason, "%.239s", fault->evidence);
    atomic_store_explicit(&seat->ended, (uint32_t)comm->first_number, memory_order_release);
    if (comm->group.board == NULL) {
        tidings_tell(comm);
        return;
    }
    for (int rank = 0; rank < comm->group.ranks; rank++)
        if (rank != comm->group.rank)
            bell_ring(comm->group.board->bells[rank]);
}

/* Is the communicator over on `rank`, as far as its seat says? A mark that an
 * earlier user of the channel left does not count. */
bool comm_has_ended(const struct comm *comm, int rank)
{
    const struct seat *seat = comm_seat(comm, rank);
    return atomic_load_explicit(&seat->ended, memory_order_acquire) == (uint32_t)comm->first_number;
}

/* In good order, by destroying it? */
bool comm_has_left(const struct comm *comm, int rank)
{
    return comm_has_ended(comm, rank) && comm_seat(comm, rank)->end_kind == PLAIT_FAULT_LEFT;
}

/* Tells the peers that this rank has destroyed the communicator. */
void comm_show_left(struct comm *comm)
{
    struct fault_record record;
    write_record(&record, comm, NULL, PLAIT_FAULT_LEFT, PLAIT_PEER_LOST, comm->world->rank,
                 "it destroyed the communicator while others needed it");
    show_end(comm, &record.fault);
}

/* -------------------------------------------------------------------- the end */

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

/* ------------------------------------------------------------- reasons for it */

/* Takes over the verdict of a peer whose communicator is over. */
static void write_verdict(struct fault_record *record, const struct comm *comm, const struct work *work,
                          int rank)
{
    const struct seat *seat = comm_seat(comm, rank);
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

void comm_end_as_peer_did(struct comm *comm, int rank)
{
    struct fault_record record;
    write_verdict(&record, comm, current_work(comm), rank);
    end(comm, &record);
}

void comm_end_by_loss(struct comm *comm, const struct work *work, int rank, enum life life)
{
    if (comm_has_ended(comm, rank)) {
        comm_end_as_peer_did(comm, rank);
        return;
    }
    struct fault_record record;
    write_record(&record, comm, work, life == LIFE_DEAD ? PLAIT_FAULT_DIED : PLAIT_FAULT_LEFT,
                 PLAIT_PEER_LOST, comm->world_ranks[rank],
                 life == LIFE_DEAD ? "its process is gone" : "it destroyed its world while others needed it");
    end(comm, &record);
}

void comm_end_by_deadline(struct comm *comm, const struct work *work, int64_t timeout_ms)
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

void comm_end_by_abort(struct comm *comm)
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

void comm_ask_abort(struct comm *comm, const char *reason)
{
    pthread_mutex_lock(&comm->fault_lock);
    if (!atomic_load(&comm->abort_asked))
        snprintf(comm->abort_reason, sizeof comm->abort_reason, "%s", reason != NULL ? reason : "");
    pthread_mutex_unlock(&comm->fault_lock);
    atomic_store(&comm->abort_asked, true);
    atomic_store(&comm->world->engine.alarm, true);
}

/* Ends a communicator by a transfer of `work` that failed. A peer whose communicator is over gives up its
 * messages after it has said why; then that is why. `rank` is the peer, -1 for any. */
static void end_by_transfer(struct comm *comm, struct work *work, int rank, plait_status status)
{
    struct fault_record record;
    tidings_hear(comm);
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

/* ------------------------------------------------------------ what ends alone */

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

static plait_fault_kind kind_of_failure(plait_status status)
{
    switch (status) {
    case PLAIT_MISMATCH: return PLAIT_FAULT_MISMATCH;
    case PLAIT_OUT_OF_MEMORY: return PLAIT_FAULT_NO_MEMORY;
    default: return PLAIT_FAULT_FUNCTION;
    }
}

void comm_report_failure(struct comm *comm, struct work *work, plait_status status)
{
    struct fault_record record;
    write_record(&record, comm, work, kind_of_failure(status), status,
                 comm->world_ranks[work->execution.waiting], failure_text());
    snprintf(record.sentence, sizeof record.sentence, "%s", failure_text());
    remember(comm, &record);
    tell_handler(comm, &record);
    work_finish(work, status, &record);
}

void work_fail_by_sentence(struct work *work, plait_status status)
{
    struct fault_record record;
    write_record(&record, work->comm, work, PLAIT_FAULT_NONE, status, -1, failure_text());
    snprintf(record.sentence, sizeof record.sentence, "%s", failure_text());
    work_finish(work, status, &record);
}
