#include "tidings.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "ending.h"
#include "messages.h"
#include "world.h"

/* What a seat shows of an end. */
struct tiding {
    uint64_t finished;
    uint32_t ended;
    int32_t rank; /* in the communicator */
    int32_t status, kind, culprit;
    char reason[240];
};

_Static_assert(sizeof((struct tiding *)NULL)->reason == sizeof((struct seat *)NULL)->end_reason,
               "a reason fits");

struct tidings {
    struct seat *seats;
    struct transfer ear, *sends;
    struct tiding heard, told;
    bool listens, has_told;
};

static struct transfer transfer_of(const struct comm *comm, int peer, struct tiding *tiding)
{
    return (struct transfer){ .peer = peer,
                              .key = { .context = comm->group.context | CONTEXT_TIDINGS },
                              .data = tiding,
                              .size = sizeof *tiding,
                              .status = PLAIT_IN_PROGRESS };
}

static void listen_on(struct comm *comm)
{
    struct tidings *tidings = comm->tidings;
    tidings->ear = transfer_of(comm, PLAIT_ANY_SOURCE, &tidings->heard);
    comm->group.transport->recv(comm->group.endpoint, &tidings->ear);
}

static void become_driver(struct engine *engine)
{
    while (!engine_enter(engine))
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

plait_status tidings_open(struct comm *comm)
{
    size_t ranks = (size_t)comm->group.ranks;
    struct engine *engine = &comm->world->engine;
    struct tidings *tidings = calloc(1, sizeof *tidings);
    comm->tidings = tidings;
    if (tidings != NULL) {
        tidings->sends = calloc(ranks, sizeof *tidings->sends);
        tidings->seats = aligned_alloc(_Alignof(struct seat), ranks * sizeof *tidings->seats);
    }
    if (tidings == NULL || tidings->sends == NULL || tidings->seats == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator of %zu ranks", ranks);
    memset(tidings->seats, 0, ranks * sizeof *tidings->seats);
    comm->seats = tidings->seats;
    become_driver(engine);
    listen_on(comm);
    tidings->listens = true;
    engine_leave(engine);
    return PLAIT_OK;
}

static void take(struct comm *comm, const struct tiding *tiding)
{
    if (tiding->rank < 0 || tiding->rank >= comm->group.ranks || tiding->rank == comm->group.rank)
        return;
    struct seat *seat = &comm->seats[tiding->rank];
    seat->end_status = tiding->status;
    seat->end_kind = tiding->kind;
    seat->end_culprit = tiding->culprit;
    memcpy(seat->end_reason, tiding->reason, sizeof seat->end_reason);
    atomic_store(&seat->finished, tiding->finished);
    atomic_store(&seat->ended, tiding->ended);
}

bool tidings_hear(struct comm *comm)
{
    struct tidings *tidings = comm->tidings;
    bool heard = false;
    while (tidings != NULL && tidings->listens && tidings->ear.status == PLAIT_OK) {
        take(comm, &tidings->heard);
        listen_on(comm);
        heard = true;
    }
    return heard;
}

void tidings_tell(struct comm *comm)
{
    struct tidings *tidings = comm->tidings;
    if (tidings->has_told)
        return;
    const struct seat *seat = &comm->seats[comm->group.rank];
    tidings->told = (struct tiding){ .finished = atomic_load(&seat->finished),
                                     .ended = atomic_load(&seat->ended),
                                     .rank = comm->group.rank,
                                     .status = seat->end_status,
                                     .kind = seat->end_kind,
                                     .culprit = seat->end_culprit };
    memcpy(tidings->told.reason, seat->end_reason, sizeof seat->end_reason);
    for (int rank = 0; rank < comm->group.ranks; rank++) {
        if (rank == comm->group.rank)
            continue;
        tidings->sends[rank] = transfer_of(comm, comm->world_ranks[rank], &tidings->told);
        comm->group.transport->send(comm->group.endpoint, &tidings->sends[rank]);
    }
    tidings->has_told = true;
}

static bool is_telling(const struct comm *comm)
{
    for (int rank = 0; rank < comm->group.ranks; rank++)
        if (rank != comm->group.rank && comm->tidings->sends[rank].status == PLAIT_IN_PROGRESS)
            return true;
    return false;
}

void tidings_end(struct comm *comm)
{
    enum { PATIENCE_MS = 500 }; /* for a peer that is slow to take its messages */
    struct tidings *tidings = comm->tidings;
    const struct group *group = &comm->group;
    if (tidings == NULL || !tidings->listens)
        return;
    tidings->listens = false;
    group->transport->cancel(group->endpoint, &tidings->ear);
    int64_t until = deadline_after_ms(PATIENCE_MS);
    while (tidings->has_told && is_telling(comm) && !deadline_passed(until))
        group->transport->progress(group->endpoint);
    for (int rank = 0; tidings->has_told && rank < group->ranks; rank++)
        if (rank != group->rank)
            group->transport->cancel(group->endpoint, &tidings->sends[rank]);
}

void tidings_free(struct comm *comm)
{
    if (comm->tidings == NULL)
        return;
    if (comm->tidings->listens) { /* it was never handed out */
        become_driver(&comm->world->engine);
        tidings_end(comm);
        engine_leave(&comm->world->engine);
    }
    free(comm->tidings->sends);
    free(comm->tidings->seats);
    free(comm->tidings);
    comm->tidings = NULL;
}
