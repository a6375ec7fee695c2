#include "collectives/notice.h"

#include <stdio.h>
#include <string.h>

#include "base/pause.h"
#include "base/status.h"
#include "device/reduce.h"

/* Blocks that a rank contributes at most. */
static size_t contributed_blocks(enum collective kind, int ranks)
{
    switch (kind) {
    case COLLECTIVE_BARRIER:
        return 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLTOALL:
        return (size_t)ranks;
    default:
        return 1;
    }
}

static size_t contribution_size(const struct execution *x)
{
    return contributed_blocks(x->call.kind, x->group->ranks) * x->call.count * x->element_size;
}

bool notice_carries(const struct group *group, const struct call *call)
{
    size_t blocks = contributed_blocks(call->kind, group->ranks);
    if (blocks == 0 || call->count == 0)
        return true;
    return call->count <= NOTICE_INLINE_BYTES
           && blocks * call->count * plait_type_size(call->type) <= NOTICE_INLINE_BYTES;
}

static void ring_all(const struct group *group)
{
    for (int rank = 0; rank < group->ranks; rank++)
        if (rank != group->rank)
            bell_ring(group->board->bells[rank]);
}

void notice_publish(struct execution *x, uint64_t signals)
{
    struct notice *notice = notice_of(x, x->group->rank);
    if (notice->print != x->print) { /* else the call stands there from the operation before last */
        notice->print = x->print;
        call_pack(&x->call, notice->call);
    }
    if (x->program == NULL && x->call.input != NULL) {
        size_t size = contribution_size(x);
        if (size == 8)
            memcpy(notice->data, x->call.input, 8);
        else
            memcpy(notice->data, x->call.input, size);
    }
    atomic_store_explicit(&notice->signals, signals, memory_order_relaxed);
    atomic_store_explicit(&notice->number, x->number, memory_order_release);
    x->published = true;
    ring_all(x->group);
}

void notice_signal(struct execution *x, uint64_t value)
{
    if (!x->published) {
        notice_publish(x, value);
        return;
    }
    atomic_store_explicit(&notice_of(x, x->group->rank)->signals, value, memory_order_release);
    ring_all(x->group);
}

/* The rank whose call differs: the lowest of those that don't make the call most ranks make,
 * where a tie goes to the call of the lower rank. The same on every rank. */
static int odd_rank(const struct execution *x, int *usual)
{
    int ranks = x->group->ranks, best = 0, best_count = 0;
    for (int i = 0; i < ranks && best_count * 2 <= ranks; i++) {
        int count = 0;
        for (int j = 0; j < ranks; j++)
            count += notice_of(x, j)->print == notice_of(x, i)->print;
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    *usual = best;
    for (int i = 0; i < ranks; i++)
        if (notice_of(x, i)->print != notice_of(x, best)->print)
            return i;
    return best;
}

static void end_by_mismatch(struct execution *x)
{
    int usual;
    int odd = odd_rank(x, &usual);
    char odd_text[CALL_TEXT_BYTES], usual_text[CALL_TEXT_BYTES];
    struct call odd_call = call_unpack(notice_of(x, odd)->call);
    struct call usual_call = call_unpack(notice_of(x, usual)->call);
    call_describe(&odd_call, odd_text);
    call_describe(&usual_call, usual_text);

    x->waiting = odd; /* the culprit */
    x->phase = PHASE_DONE;
    x->status = failure(PLAIT_MISMATCH,
                        "operation %llu differs between ranks: rank %d calls %s, rank %d calls %s; it fails on "
                        "all ranks and no output was touched",
                        (unsigned long long)(x->number - x->group->uncounted), odd, odd_text, usual, usual_text);
}

/* A few looks in a row save the way out of the executor and back while a
 * peer's line is on its way. */
static bool is_up(const struct notice *notice, uint64_t number, int looks)
{
    do {
        if (atomic_load_explicit(&notice->number, memory_order_acquire) == number)
            return true;
        pause_briefly();
    } while (--looks > 0);
    return false;
}

bool notice_meet(struct execution *x)
{
    int ranks = x->group->ranks;
    for (; x->seen < ranks; x->seen++) {
        const struct notice *notice = notice_of(x, x->seen);
        if (x->seen == x->group->rank)
            continue;
        if (!is_up(notice, x->number, x->group->looks))
            return false;
        x->differs |= notice->print ^ x->print;
        x->moved = true;
    }
    if (x->differs != 0) {
        end_by_mismatch(x);
        return false;
    }
    x->met = true;
    return true;
}

/* What `rank` contributes. This rank's own is read from the call: its notice's
 * line is on its way to the peers, and reading it back would wait for it. */
static const unsigned char *contribution_of(const struct execution *x, int rank)
{
    return rank == x->group->rank ? x->call.input : notice_of(x, rank)->data;
}

static void fold(struct execution *x, size_t offset)
{
    struct group *group = x->group;
    for (int rank = 0; rank < group->ranks; rank++)
        group->sources[rank] = contribution_of(x, rank) + offset;
    struct reduction reduction = { .result = x->call.output,
                                   .sources = group->sources,
                                   .source_count = group->ranks,
                                   .count = x->call.count,
                                   .divide = x->call.op == PLAIT_AVERAGE ? (unsigned)group->ranks : 0 };
    reduce_find(x->call.type, x->call.op)(&reduction);
}

/* `size` bytes from place `offset` of what `rank` contributes. */
static void take(struct execution *x, void *to, int rank, size_t offset, size_t size)
{
    const unsigned char *from = contribution_of(x, rank) + offset;
    if (from != to)
        memcpy(to, from, size);
}

void notice_finish(struct execution *x)
{
    const struct group *group = x->group;
    unsigned char *output = x->call.output;
    size_t size = x->call.count * x->element_size, mine = (size_t)group->rank * size;
    bool root = group->rank == x->call.root;
    if (size == 0)
        return;

    switch (x->call.kind) {
    case COLLECTIVE_ALLREDUCE:
        fold(x, 0);
        break;
    case COLLECTIVE_REDUCE:
        if (root)
            fold(x, 0);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        fold(x, mine);
        break;
    case COLLECTIVE_BROADCAST:
        take(x, output, x->call.root, 0, size);
        break;
    case COLLECTIVE_SCATTER:
        take(x, output, x->call.root, mine, size);
        break;
    case COLLECTIVE_GATHER:
        if (!root)
            break;
        /* fall through */
    case COLLECTIVE_ALLGATHER:
        for (int rank = 0; rank < group->ranks; rank++)
            take(x, output + (size_t)rank * size, rank, 0, size);
        break;
    case COLLECTIVE_ALLTOALL:
        for (int rank = 0; rank < group->ranks; rank++)
            take(x, output + (size_t)rank * size, rank, mine, size);
        break;
    case COLLECTIVE_BARRIER:
    case COLLECTIVES:
        break;
    }
}
