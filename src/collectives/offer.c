#include "collectives/offer.h"

#include <string.h>

#include "base/status.h"
#include "collectives/notice.h"

enum { READY = 1 }; /* in the first word, beneath the input's ticket; the second is the output's */

static size_t shown_size(const struct execution *x, int rank, enum buffer buffer)
{
    const struct call *call = &x->call;
    int ranks = x->group->ranks;
    int blocks = buffer == BUFFER_INPUT ? collective_input_blocks(call->kind, ranks, call->root, rank)
                                        : collective_output_blocks(call->kind, ranks, call->root, rank);
    return (size_t)blocks * call->count * x->element_size;
}

static bool shows(const struct execution *x, int rank, enum buffer buffer)
{
    const struct plan *plan = &x->program->in_place->plan;
    return plan->planner->shows(plan, rank, buffer);
}

/* The ticket of an own buffer that is shown; 0 and not *ready if peers can't read it. */
static uint64_t ticket_of(const struct execution *x, enum buffer buffer, const void *memory, bool *ready)
{
    int rank = x->group->rank;
    if (!shows(x, rank, buffer))
        return 0;
    uint64_t ticket = heap_ticket(x->group->heap, memory, shown_size(x, rank, buffer));
    *ready = *ready && ticket != 0;
    return ticket;
}

void offer_make(struct execution *x)
{
    bool apart = x->call.input != x->call.output || !plan_wants_apart(&x->program->in_place->plan);
    bool ready = apart && x->call.layout == NULL; /* where a peer's blocks lie, its notice does not tell */
    uint64_t input = ticket_of(x, BUFFER_INPUT, x->call.input, &ready);
    uint64_t output = ticket_of(x, BUFFER_OUTPUT, x->call.output, &ready);
    x->ready = ready;
    x->offer[0] = ready ? input << 1 | READY : 0;
    x->offer[1] = ready ? output : 0;
}

/* Where `rank` shows a buffer; NULL where that is no place in its heap. */
static unsigned char *find_shown(const struct execution *x, int rank, enum buffer buffer, uint64_t ticket)
{
    const struct board *board = x->group->board;
    size_t size = shown_size(x, rank, buffer), room = board->heap_sizes[rank];
    if (ticket == 0 || size > room || ticket - 1 > room - size)
        return NULL;
    return board->heaps[rank] + (ticket - 1);
}

static bool take_offer(struct execution *x, int rank, const uint64_t offer[2])
{
    struct shown *shown = &x->group->shown[rank];
    *shown = (struct shown){ find_shown(x, rank, BUFFER_INPUT, offer[0] >> 1),
                             find_shown(x, rank, BUFFER_OUTPUT, offer[1]) };
    if ((shown->input != NULL || !shows(x, rank, BUFFER_INPUT)) &&
        (shown->output != NULL || !shows(x, rank, BUFFER_OUTPUT)))
        return true;
    x->waiting = rank; /* the culprit */
    x->phase = PHASE_DONE;
    x->status =
        failure(PLAIT_PEER_LOST, "rank %d names a buffer outside of its memory; its notice is damaged", rank);
    return false;
}

bool offer_accepted(struct execution *x)
{
    const struct group *group = x->group;
    for (int pass = 0; pass < 2; pass++)
        for (int rank = 0; rank < group->ranks; rank++) {
            uint64_t offer[2];
            if (rank == group->rank)
                continue;
            memcpy(offer, notice_of(x, rank)->data, sizeof offer);
            if (pass == 0 ? (offer[0] & READY) == 0 : !take_offer(x, rank, offer))
                return false;
        }
    return true;
}
