#include "collectives/notice.h"

#include <sched.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/pause.h"
#include "base/status.h"
#include "collectives/exchange.h"
#include "collectives/fold.h"
#include "collectives/letters.h"
#include "collectives/profile.h"
#include "device/reduce.h"

/* Blocks that a rank contributes at most. */
static size_t contributed_blocks(enum collective kind, int ranks)
{
    switch (kind) {
    case COLLECTIVE_BARRIER: return 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)ranks;
    default: return 1;
    }
}

/* Elements that the rank with the most of them contributes to an uneven call. */
static size_t most_contributed(const struct group *group, const struct call *call)
{
    switch (call->kind) {
    case COLLECTIVE_REDUCE_SCATTER: return call->layout->total;
    case COLLECTIVE_SCATTER: return exchange_moved_before(group, call->root, group->ranks);
    case COLLECTIVE_ALLTOALL: {
        size_t most = 0;
        for (int rank = 0; rank < group->ranks; rank++) {
            size_t sent = exchange_moved_before(group, rank, group->ranks);
            most = sent > most ? sent : most;
        }
        return most;
    }
    default: return call->count;
    }
}

bool notice_carries(const struct group *group, const struct call *call, size_t *contribution)
{
    if (call->layout != NULL) {
        size_t most = call->count > NOTICE_BYTES ? call->count : most_contributed(group, call);
        if (most > NOTICE_BYTES / plait_type_size(call->type))
            return false;
        *contribution = most * plait_type_size(call->type);
        return true;
    }
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
    return size <= NOTICE_INLINE_BYTES
               ? 0
               : (size - NOTICE_INLINE_BYTES + NOTICE_LINE_BYTES - 1) / NOTICE_LINE_BYTES;
}

/* All of the contribution but its first word. */
static void put_rest(const struct execution *x, struct notice *notice)
{
    const unsigned char *from = x->given;
    size_t size = x->contribution;
    if (size <= NOTICE_INLINE_BYTES) {
        memcpy(notice->data + 8, from + 8, size - 8);
        return;
    }
    memcpy(notice->data + 8, from + 8, NOTICE_INLINE_BYTES - 8);
    size_t done = NOTICE_INLINE_BYTES;
    for (struct notice_line *line = notice_lines_of(x, x->group->rank); done < size;
         line++, done += NOTICE_LINE_BYTES) {
        if (size - done >= NOTICE_LINE_BYTES) /* a length that the compiler knows: no call */
            memcpy(line->data, from + done, NOTICE_LINE_BYTES);
        else
            memcpy(line->data, from + done, size - done);
        atomic_store_explicit(&line->number, x->number, memory_order_release);
    }
}

static uint64_t first_word(const struct execution *x)
{
    uint64_t word = 0;
    if (x->contribution >= 8)
        memcpy(&word, x->given, 8);
    else
        memcpy(&word, x->given, x->contribution);
    return word;
}

/* The number, which tells that the notice is up, and the word behind it, in one store where the
 * processor can: between two stores a far core may fetch the line, and the second then waits to get it back.
 * The thread sanitizer sees no order in that store, so it gets two. */
static void put_up(const struct execution *x, struct notice *notice, uint64_t word)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
    if (x->group->wide_stores) {
        atomic_signal_fence(memory_order_release);
        _mm_store_si128((__m128i *)(void *)notice, _mm_set_epi64x((long long)word, (long long)x->number));
        atomic_signal_fence(memory_order_seq_cst);
        return;
    }
#endif
    memcpy(notice->data, &word, sizeof word);
    atomic_store_explicit(&notice->number, x->number, memory_order_release);
}

/* Does `rank` give something that this rank is to see in its notice's lines? */
static bool takes_lines_of(const struct execution *x, int rank)
{
    enum collective kind = x->call.kind;
    if (x->contribution <= NOTICE_INLINE_BYTES ||
        collective_input_blocks(kind, x->group->ranks, x->call.root, rank) == 0)
        return false;
    return collective_output_blocks(kind, x->group->ranks, x->call.root, x->group->rank) > 0;
}

/* Puts together what came in several lines; whole lines, for there is room. */
static void gather_lines(const struct execution *x, int rank, size_t lines)
{
    const struct notice *notice = notice_of(x, rank);
    const struct notice_line *further = notice_lines_of(x, rank);
    unsigned char *to = x->group->gathered + (size_t)rank * NOTICE_BYTES;
    memcpy(to, notice->data, NOTICE_INLINE_BYTES);
    to += NOTICE_INLINE_BYTES;
    for (size_t line = 0; line < lines; line++, to += NOTICE_LINE_BYTES)
        memcpy(to, further[line].data, NOTICE_LINE_BYTES);
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

/* The operation of a caller has this rank's own factor in its notice, so that is never taken for an equal call's;
 * and its verdict comes by the signals, whether the call runs steps or not. */
static void publish_made(struct notice *notice, uint64_t *print)
{
    *print = 0;
    atomic_store_explicit(&notice->signals, 0, memory_order_relaxed);
}

void notice_publish(struct execution *x, uint64_t signals)
{
    struct notice *notice = notice_of(x, x->group->rank);
    if (x->group->crowded)
        show_core(x);
    uint64_t *print = &x->group->prints[x->number & 1];
    if (*print != x->print) { /* else the call stands there from the operation before last */
        *print = notice->print = x->print;
        call_pack(execution_call(x), notice->call);
        if (x->call.made != NULL)
            publish_made(notice, print);
    }
    uint64_t word = 0;
    if (x->program != NULL) {
        atomic_store_explicit(&notice->signals, signals, memory_order_relaxed);
        memcpy(notice->data + 8, &x->offer[1], sizeof x->offer[1]);
        word = x->offer[0];
    } else if (x->given != NULL && x->contribution > 0) {
        if (x->contribution > 8)
            put_rest(x, notice);
        word = first_word(x);
    }
    put_up(x, notice, word);
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

/* A rank's call, as it told of it: in its notice, or by letter. */
static const unsigned char *call_of(const struct execution *x, int rank, uint64_t *print)
{
    if (x->group->board == NULL) {
        *print = x->group->letters->letters[rank].print;
        return x->group->letters->letters[rank].call;
    }
    *print = notice_of(x, rank)->print;
    return notice_of(x, rank)->call;
}

static bool make_same_call(const struct execution *x, int one, int other)
{
    uint64_t prints[2];
    call_of(x, one, &prints[0]);
    call_of(x, other, &prints[1]);
    return prints[0] == prints[1];
}

/* The rank whose call differs: the lowest of those that don't make the call most ranks make,
 * where a tie goes to the call of the lower rank. The same on every rank. */
static int odd_rank(const struct execution *x, int *usual)
{
    int ranks = x->group->ranks, best = 0, best_count = 0;
    for (int i = 0; i < ranks && best_count * 2 <= ranks; i++) {
        int count = 0;
        for (int j = 0; j < ranks; j++)
            count += make_same_call(x, i, j);
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    *usual = best;
    for (int i = 0; i < ranks; i++)
        if (!make_same_call(x, i, best))
            return i;
    return best;
}

void notice_end_by_mismatch(struct execution *x)
{
    int usual;
    int odd = odd_rank(x, &usual);
    char odd_text[CALL_TEXT_BYTES], usual_text[CALL_TEXT_BYTES], counts[CALL_TEXT_BYTES];
    uint64_t print;
    const unsigned char *odd_call = call_of(x, odd, &print), *usual_call = call_of(x, usual, &print);
    call_describe_packed(odd_call, odd_text);
    call_describe_packed(usual_call, usual_text);
    call_compare_counts(odd_call, usual_call, counts);

    x->waiting = odd; /* the culprit */
    x->phase = PHASE_DONE;
    x->status = failure(
        PLAIT_MISMATCH,
        "operation %llu differs between ranks: rank %d calls %s, rank %d calls %s%s; it fails on "
        "all ranks and no output was touched",
        (unsigned long long)(x->number - x->group->uncounted), odd, odd_text, usual, usual_text, counts);
}

/* A few looks in a row save the way out of the executor and back while a
 * peer's line is on its way. */
static bool see_notice(const struct execution *x, const struct notice *notice)
{
    int looks = x->group->looks;
    do {
        if (atomic_load_explicit(&notice->number, memory_order_acquire) == x->number)
            return true;
        pause_briefly();
    } while (--looks > 0);
    return false;
}

/* Are the notice and its further lines up? Between near cores they are asked for together, so that
 * their ways overlap; a far writer would be held up by that at every line, so there the lines are asked
 * for when the notice is up. They don't matter, and may never come, when the rank makes another call. */
static bool lines_are_up(const struct execution *x, const struct notice *notice,
                         const struct notice_line *further, size_t lines)
{
    uint64_t missing = atomic_load_explicit(&notice->number, memory_order_acquire) ^ x->number;
    if (missing != 0 && x->group->far)
        return false;
    uint64_t missing_lines = 0;
    for (size_t line = 0; line < lines; line++)
        missing_lines |= atomic_load_explicit(&further[line].number, memory_order_acquire) ^ x->number;
    return missing == 0 && (missing_lines == 0 || notice->print != x->print);
}

static bool see_lines(const struct execution *x, int rank)
{
    size_t lines = line_count(x->contribution);
    for (int looks = x->group->looks; looks > 0; looks--) {
        if (lines_are_up(x, notice_of(x, rank), notice_lines_of(x, rank), lines)) {
            gather_lines(x, rank, lines);
            return true;
        }
        pause_briefly();
    }
    return false;
}

static void fetch_for_writing(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Asks for the lines of this rank's next notice, which the peers hold since they
 * read them, as soon as they are known to be through with them. */
static void fetch_next_lines(const struct execution *x)
{
    struct seat *seat = x->group->board->seats[x->group->rank];
    fetch_for_writing(&seat->notices[(x->number + 1) & 1]);
    if (x->program == NULL)
        for (size_t line = 0; line < line_count(x->contribution); line++)
            fetch_for_writing(&seat->lines[(x->number + 1) & 1][line]);
}

bool notice_meet(struct execution *x)
{
    int ranks = x->group->ranks;
    for (; x->seen < ranks; x->seen++) {
        if (x->seen == x->group->rank)
            continue;
        profile_await(x->profile, x->seen);
        if (takes_lines_of(x, x->seen) ? !see_lines(x, x->seen) : !see_notice(x, notice_of(x, x->seen)))
            return false;
        x->differs |= notice_of(x, x->seen)->print ^ x->print;
        x->moved = true;
    }
    profile_turn(x->profile, ACTIVITY_OTHER);
    if (x->differs != 0) {
        notice_end_by_mismatch(x);
        return false;
    }
    x->met = true;
    fetch_next_lines(x);
    return true;
}

/* What `rank` contributes. This rank's own is read from the call: its notice's
 * line is on its way to the peers, and reading it back would wait for it. */
static const unsigned char *contribution_of(const struct execution *x, int rank)
{
    if (rank == x->group->rank)
        return x->given;
    return x->contribution > NOTICE_INLINE_BYTES ? x->group->gathered + (size_t)rank * NOTICE_BYTES
                                                 : notice_of(x, rank)->data;
}

/* Over the first `ranks` ranks: `count` elements from place `offset` of what they contribute. */
static void fold(struct execution *x, int ranks, size_t offset, size_t count)
{
    struct group *group = x->group;
    for (int rank = 0; rank < ranks; rank++)
        group->sources[rank] = contribution_of(x, rank) + offset;
    struct reduction reduction = { .result = x->call.output,
                                   .sources = group->sources,
                                   .source_count = ranks,
                                   .count = count,
                                   .divide = x->call.op == PLAIT_AVERAGE ? (unsigned)group->ranks : 0 };
    fold_sources(x, &reduction);
}

/* `size` bytes from place `offset` of what `rank` contributes. */
static void take(struct execution *x, void *to, int rank, size_t offset, size_t size)
{
    const unsigned char *from = contribution_of(x, rank) + offset;
    if (from != to)
        memcpy(to, from, size);
}

/* ------------------------------------------------------------------ v-forms */

void notice_pack(struct execution *x)
{
    const struct group *group = x->group;
    int blocks = collective_input_blocks(x->call.kind, group->ranks, x->call.root, group->rank);
    if (blocks == 0)
        return;
    unsigned char *packed = group->gathered + (size_t)group->rank * NOTICE_BYTES, *to = packed;
    for (int block = 0; block < blocks; block++) {
        struct span span = layout_block(x->call.layout, LAYOUT_INPUT, block);
        if (span.count == 0)
            continue;
        memcpy(to, (const unsigned char *)x->call.input + span.first * x->element_size,
               span.count * x->element_size);
        to += span.count * x->element_size;
    }
    memset(to, 0, x->contribution - (size_t)(to - packed));
    x->given = packed;
}

/* Where a contribution has the block for this rank, in elements. */
static size_t packed_first(const struct execution *x, int from)
{
    bool addressed = x->call.kind == COLLECTIVE_SCATTER || x->call.kind == COLLECTIVE_ALLTOALL;
    return addressed ? exchange_moved_before(x->group, from, x->group->rank) : 0;
}

static void finish_uneven(struct execution *x)
{
    const struct group *group = x->group;
    const struct layout *layout = x->call.layout;
    if (x->call.kind == COLLECTIVE_REDUCE_SCATTER) {
        struct span mine = layout_block(layout, LAYOUT_INPUT, group->rank);
        if (mine.count > 0)
            fold(x, group->ranks, mine.first * x->element_size, mine.count);
        return;
    }
    int blocks = collective_output_blocks(x->call.kind, group->ranks, x->call.root, group->rank);
    for (int block = 0; block < blocks; block++) {
        struct span span = layout_block(layout, LAYOUT_OUTPUT, block);
        int from = x->call.kind == COLLECTIVE_SCATTER ? x->call.root : block;
        if (span.count > 0)
            take(x, (unsigned char *)x->call.output + span.first * x->element_size, from,
                 packed_first(x, from) * x->element_size, span.count * x->element_size);
    }
}

void notice_finish(struct execution *x)
{
    if (x->call.layout != NULL) {
        finish_uneven(x);
        return;
    }
    const struct group *group = x->group;
    unsigned char *output = x->call.output;
    size_t size = x->call.count * x->element_size, mine = (size_t)group->rank * size;
    bool root = group->rank == x->call.root;
    if (size == 0)
        return;

    switch (x->call.kind) {
    case COLLECTIVE_ALLREDUCE: fold(x, group->ranks, 0, x->call.count); break;
    case COLLECTIVE_REDUCE:
        if (root)
            fold(x, group->ranks, 0, x->call.count);
        break;
    case COLLECTIVE_REDUCE_SCATTER: fold(x, group->ranks, mine, x->call.count); break;
    case COLLECTIVE_SCAN: fold(x, group->rank + 1, 0, x->call.count); break;
    case COLLECTIVE_EXSCAN:
        if (group->rank > 0)
            fold(x, group->rank, 0, x->call.count);
        break;
    case COLLECTIVE_BROADCAST: take(x, output, x->call.root, 0, size); break;
    case COLLECTIVE_SCATTER: take(x, output, x->call.root, mine, size); break;
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
    case COLLECTIVES: break;
    }
}
