#include "collectives/offer.h"

#include <string.h>

#include "base/status.h"
#include "collectives/notice.h"

/* In the first word, beneath the input's ticket, or its address where it is private memory. The second word is
 * the output's ticket. */
enum { READY = 1, PRIVATE = 2, NO_LANE = 4, FLAG_BITS = 3 };

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

/* Is the input, in private memory, pulled out of it? All ranks' answers are the same. A broadcast's is staged: its root
 * takes a part of the work off the others, while these read. */
static bool is_pulled(const struct execution *x)
{
    size_t from = x->group->pull_from;
    return from > 0 && x->call.count * x->element_size >= from && !collective_reduces(x->call.kind) &&
           x->call.kind != COLLECTIVE_BROADCAST;
}

/* The ticket of an own buffer that is shown; 0 and not *ready if peers can't read it. */
static uint64_t ticket_of(const struct execution *x, enum buffer buffer, const void *memory, bool *ready)
{
    int rank = x->group->rank;
    if (!shows(x, rank, buffer))
        return 0;
    struct heap *heap = x->group->heap;
    uint64_t ticket = heap != NULL ? heap_ticket(heap, memory, shown_size(x, rank, buffer)) : 0;
    *ready = *ready && ticket != 0;
    return ticket;
}

void offer_make(struct execution *x)
{
    bool apart = x->call.input != x->call.output || !plan_wants_apart(&x->program->in_place->plan);
    bool ready = apart && x->call.layout == NULL; /* where a peer's blocks lie, its notice does not tell */
    bool has_ticket = true;
    uint64_t flags = READY, input = ticket_of(x, BUFFER_INPUT, x->call.input, &has_ticket);
    if (!has_ticket && is_pulled(x)) {
        flags |= PRIVATE;
        input = (uint64_t)(uintptr_t)x->call.input;
    } else {
        ready = ready && has_ticket;
    }
    uint64_t output = ticket_of(x, BUFFER_OUTPUT, x->call.output, &ready);
    x->ready = ready;
    x->offer[0] = ready ? input << FLAG_BITS | flags : 0;
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
    uint64_t input = offer[0] >> FLAG_BITS;
    shown->is_private = (offer[0] & PRIVATE) != 0;
    shown->input =
        shown->is_private ? (unsigned char *)(uintptr_t)input : find_shown(x, rank, BUFFER_INPUT, input);
    shown->output = find_shown(x, rank, BUFFER_OUTPUT, offer[1]);
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

void offer_refuse_lane(struct execution *x)
{
    x->offer[0] |= NO_LANE;
}

int offer_lane_refused_by(const struct execution *x)
{
    for (int rank = 0; rank < x->group->ranks; rank++) {
        uint64_t word = x->offer[0];
        if (rank != x->group->rank)
            memcpy(&word, notice_of(x, rank)->data, sizeof word);
        if ((word & NO_LANE) != 0)
            return rank;
    }
    return -1;
}
