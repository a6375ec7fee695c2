#include "collectives/offer.h"

#include <string.h>

#include "base/status.h"
#include "collectives/notice.h"
#include "collectives/stores.h"

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

/* Is the input, in private memory, pulled out of it? A broadcast's is staged: its root takes a part of the work off the
 * others, while these read. */
static bool is_pulled(const struct execution *x)
{
    size_t from = x->group->far || x->group->pull_near ? x->group->pull_from : 0;
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

/* Were some of the `size` bytes at `memory` lent lately? */
static bool was_lent(const struct group *group, const void *memory, size_t size)
{
    const unsigned char *first = memory, *end = first + size;
    if (group->lent_count == 0)
        return false;
    for (unsigned i = 0; i < LENT_KEPT; i++)
        if (first < group->lent[i].end && group->lent[i].first < end)
            return true;
    return false;
}

/* Bytes of a buffer that peers read in place and its owner writes again, from which on that is faster than staging,
 * which leaves the caller's lines alone. Measured with two ranks on Zen 4: near, ordinary stores to what the other core
 * has read go at 9 GB/s while its caches hold it, and 24 when they can't; far, stores past the caches go at 27, and
 * what they wrote is read from memory. */
enum { NEAR_RESULT_FROM = 1 << 20, NEAR_LENT_FROM = 4 << 20, FAR_LENT_FROM = 16 << 20 };

/* Is it worth it to read in place, as far as this rank sees? */
static bool pays(const struct execution *x)
{
    const struct group *group = x->group;
    size_t size = shown_size(x, group->rank, BUFFER_OUTPUT);
    if (group->forced_plan != NULL && plan_means_in_place(group->forced_plan))
        return true;
    if (x->call.kind == COLLECTIVE_ALLREDUCE && x->call.input == x->call.output)
        return size >= (group->streamed ? FAR_LENT_FROM : NEAR_LENT_FROM);
    if (x->call.kind == COLLECTIVE_ALLREDUCE) /* whose results peers read */
        return group->streamed || size >= NEAR_RESULT_FROM;
    return x->call.kind != COLLECTIVE_BROADCAST || group->streamed || size >= NEAR_LENT_FROM ||
           !was_lent(group, x->call.output, size);
}

void offer_make(struct execution *x)
{
    bool apart = x->call.input != x->call.output || !plan_wants_apart(&x->program->in_place->plan);
    bool ready =
        apart && pays(x) && x->call.layout == NULL; /* where a peer's blocks lie, its notice does not tell */
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

static void lend(struct group *group, const unsigned char *first, const unsigned char *end)
{
    if (first == end)
        return;
    for (unsigned i = 0; i < LENT_KEPT; i++)
        if (group->lent[i].first == first && group->lent[i].end == end)
            return;
    group->lent[group->lent_count++ % LENT_KEPT] = (struct lent){ first, end };
}

/* Peers are about to read this rank's input; of several blocks all but its own. */
static void note_lent(struct execution *x)
{
    struct group *group = x->group;
    if (!shows(x, group->rank, BUFFER_INPUT) || (x->offer[0] & PRIVATE) != 0)
        return;
    const size_t size = shown_size(x, group->rank, BUFFER_INPUT), block = x->call.count * x->element_size;
    const unsigned char *first = x->call.input, *own = first + (size_t)group->rank * block;
    if (size > block) {
        lend(group, first, own);
        lend(group, own + block, first + size);
    } else {
        lend(group, first, first + size);
    }
}

bool offer_streams(const struct execution *x, const void *to, size_t size)
{
    return x->group->streamed && size >= STREAM_FROM_BYTES && was_lent(x->group, to, size);
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
    note_lent(x);
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
