#include "collectives/notice.h"

#include <sched.h>
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

bool notice_carries(const struct group *group, const struct call *call, size_t *contribution)
{
    size_t blocks = contributed_blocks(call->kind, group->ranks);
    if (call->count > NOTICE_BYTES)
        return blocks == 0;
    size_t size = blocks * call->count * plait_type_size(call->type);
    if (size > NOTICE_BYTES)
        return false;
    *contribution = size;
    return true;
}

/* Lines that a contribution needs beside the notice's own. */
static size_t line_count(size_t size)
{
    return size <= NOTICE_INLINE_BYTES ? 0
                                       : (size - NOTICE_INLINE_BYTES + NOTICE_LINE_BYTES - 1) / NOTICE_LINE_BYTES;
}

static void put_contribution(const struct execution *x, struct notice *notice)
{
    const unsigned char *from = x->call.input;
    size_t size = x->contribution;
    if (size == 8) {
        memcpy(notice->data, from, 8);
        return;
    }
    if (size <= NOTICE_INLINE_BYTES) {
        memcpy(notice->data, from, size);
        return;
    }
    memcpy(notice->data, from, NOTICE_INLINE_BYTES);
    size_t done = NOTICE_INLINE_BYTES;
    for (struct notice_line *line = notice->lines; done < size; line++, done += NOTICE_LINE_BYTES) {
        if (size - done >= NOTICE_LINE_BYTES) /* a length that the compiler knows: no call */
            memcpy(line->data, from + done, NOTICE_LINE_BYTES);
        else
            memcpy(line->data, from + done, size - done);
        atomic_store_explicit(&line->number, x->number, memory_order_release);
    }
}

/* Does `rank` give something that this rank is to see in its notice's lines? */
static bool takes_lines_of(const struct execution *x, int rank)
{
    enum collective kind = x->call.kind;
    if (x->contribution <= NOTICE_INLINE_BYTES || collective_input_blocks(kind, x->group->ranks, x->call.root, rank) == 0)
        return false;
    return collective_output_blocks(kind, x->group->ranks, x->call.root, x->group->rank) > 0;
}

/* Puts together what came in several lines; whole lines, for there is room. */
static void gather_lines(const struct execution *x, int rank, size_t lines)
{
    const struct notice *notice = notice_of(x, rank);
    unsigned char *to = x->group->gathered + (size_t)rank * NOTICE_BYTES;
    memcpy(to, notice->data, NOTICE_INLINE_BYTES);
    to += NOTICE_INLINE_BYTES;
    for (size_t line = 0; line < lines; line++, to += NOTICE_LINE_BYTES)
        memcpy(to, notice->lines[line].data, NOTICE_LINE_BYTES);
}

/* Tells the peers which core this rank keeps from others. */
static void show_core(const struct execution *x)
{
    _Atomic int32_t *shown = &x->group->board->seats[x->group->rank]->core;
    int32_t core = sched_getcpu();
    if (atomic_load_explicit(shown, memory_order_relaxed) != core)
        atomic_store_explicit(shown, core, memory_order_relaxed);
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
    if (x->group->crowded)
        show_core(x);
    if (notice->print != x->print) { /* else the call stands there from the operation before last */
        notice->print = x->print;
        call_pack(&x->call, notice->call);
    }
    if (x->program == NULL && x->call.input != NULL)
        put_contribution(x, notice);
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

/* Is the rank's notice up, with all lines that this rank takes? The lines are
 * asked for together, so that their ways overlap. They don't matter, and may never come, when
 * the rank makes another call. */
static bool is_up(const struct execution *x, const struct notice *notice, size_t lines)
{
    uint64_t missing = atomic_load_explicit(&notice->number, memory_order_acquire) ^ x->number;
    uint64_t missing_lines = 0;
    for (size_t line = 0; line < lines; line++)
        missing_lines |= atomic_load_explicit(&notice->lines[line].number, memory_order_acquire) ^ x->number;
    return missing == 0 && (missing_lines == 0 || notice->print != x->print);
}

/* A few looks in a row save the way out of the executor and back while a
 * peer's line is on its way. */
static bool see(const struct execution *x, int rank)
{
    const struct notice *notice = notice_of(x, rank);
    size_t lines = takes_lines_of(x, rank) ? line_count(x->contribution) : 0;
    for (int looks = x->group->looks; looks > 0; looks--) {
        if (is_up(x, notice, lines)) {
            if (lines > 0)
                gather_lines(x, rank, lines);
            return true;
        }
        pause_briefly();
    }
    return false;
}

bool notice_meet(struct execution *x)
{
    int ranks = x->group->ranks;
    for (; x->seen < ranks; x->seen++) {
        if (x->seen == x->group->rank)
            continue;
        if (!see(x, x->seen))
            return false;
        x->differs |= notice_of(x, x->seen)->print ^ x->print;
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
    if (rank == x->group->rank)
        return x->call.input;
    return x->contribution > NOTICE_INLINE_BYTES ? x->group->gathered + (size_t)rank * NOTICE_BYTES
                                                 : notice_of(x, rank)->data;
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
