#include "collectives/steps.h"

#include <errno.h>
#include <string.h>

#include "base/element.h"
#include "base/pause.h"
#include "base/span.h"
#include "base/status.h"
#include "collectives/fold.h"
#include "collectives/letters.h"
#include "collectives/notice.h"
#include "collectives/offer.h"
#include "collectives/profile.h"
#include "collectives/stores.h"
#include "device/copy.h"
#include "device/pull.h"
#include "device/reduce.h"

/* Elements of a place in a chunk, and where they lie. */
struct range {
    unsigned char *bytes;
    size_t count;
};

/* Where a block lies in its buffer, and how long it is. Windows have the longest's room for every block, and so
 * has WORK, whose elements are those of the block that the place names. */
static struct span block_span(const struct execution *x, struct place place)
{
    const struct layout *layout = x->call.layout;
    if (layout == NULL || place.buffer == BUFFER_WINDOW)
        return (struct span){ (size_t)place.block * x->call.count, x->call.count };
    if (place.buffer == BUFFER_WORK)
        return layout_block(layout, LAYOUT_INPUT, place.of);
    return layout_block(layout, place.buffer == BUFFER_INPUT ? LAYOUT_INPUT : LAYOUT_OUTPUT, place.block);
}

/* What a chunk has of a block: nothing where the block is shorter than others. */
static struct span chunk_span(const struct execution *x, struct span block, size_t chunk)
{
    size_t first = chunk * x->chunk_count, left = block.count > first ? block.count - first : 0;
    return (struct span){ block.first + first, left < x->chunk_count ? left : x->chunk_count };
}

/* Where chunk `chunk` is staged: slots follow each other to the ring's end,
 * then from its start. */
static size_t slot_offset(const struct execution *x, size_t chunk)
{
    if (chunk < x->first_lap_slots)
        return x->slot_first + chunk * x->slot_size;
    return (chunk - x->first_lap_slots) % x->lap_slots * x->slot_size;
}

/* What a place has of the elements that a chunk has of a block. */
static struct span parts_span(const struct execution *x, struct place place, size_t count)
{
    struct span span = span_part(count, x->program->plan.parts, place.part);
    if (place.more > 0) {
        struct span last = span_part(count, x->program->plan.parts, place.part + place.more);
        span.count = last.first + last.count - span.first;
    }
    return span;
}

/* The memory of `place` of `rank` for chunk `chunk`. */
static struct range find_range(const struct execution *x, struct place place, int rank, size_t chunk)
{
    if (place.buffer == BUFFER_NONE)
        return (struct range){ NULL, 0 };

    size_t block = (size_t)place.block;
    struct span span = chunk_span(x, block_span(x, place), chunk), part = { 0, span.count };
    if (span.count == 0)
        return (struct range){ NULL, 0 };
    if (place.part != ALL_PARTS)
        part = parts_span(x, place, span.count);

    size_t element = span.first + part.first;
    unsigned char *bytes = NULL;
    switch (place.buffer) {
    case BUFFER_INPUT:
        bytes =
            rank == x->group->rank ? (unsigned char *)(uintptr_t)x->call.input : x->group->shown[rank].input;
        bytes += element * x->element_size;
        break;
    case BUFFER_OUTPUT:
        bytes = rank == x->group->rank ? x->call.output : x->group->shown[rank].output;
        bytes += element * x->element_size;
        break;
    case BUFFER_WORK: {
        size_t stride = (x->chunk_count * x->work_element_size + 63) / 64 * 64;
        size_t slot = chunk % x->work_slots * (size_t)x->program->plan.work_blocks + block;
        bytes = x->group->work + slot * stride + part.first * x->work_element_size;
        break;
    }
    case BUFFER_WINDOW:
        bytes = x->group->staging.base[rank] + slot_offset(x, chunk) + block * x->stride +
                part.first * x->element_size;
        break;
    case BUFFER_NONE: break;
    }
    return (struct range){ bytes, part.count };
}

static size_t place_element_size(const struct execution *x, struct place place)
{
    return place.buffer == BUFFER_WORK ? x->work_element_size : x->element_size;
}

/* ------------------------------------------------------------- local steps */

static void end_copy(const struct execution *x, size_t size)
{
    if (x->profile == NULL)
        return;
    profile_count(&x->profile->copied_bytes, size);
    profile_charge(x->profile, ACTIVITY_OTHER);
}

static void end_reduction(const struct execution *x, size_t size, enum activity next)
{
    if (x->profile == NULL)
        return;
    profile_count(&x->profile->reduced_bytes, size);
    profile_charge(x->profile, next);
}

/* Widening and narrowing where partial results are of the elements' own type is no more than a copy. */
static void begin_conversion(const struct execution *x)
{
    bool copies = fold_accumulator(&x->call) == x->call.type;
    profile_turn(x->profile, copies ? ACTIVITY_COPY : ACTIVITY_REDUCE);
}

static void end_conversion(const struct execution *x, size_t size)
{
    if (x->profile != NULL && x->profile->activity == ACTIVITY_COPY)
        end_copy(x, size);
    else
        end_reduction(x, size, ACTIVITY_OTHER);
}

/* A rank alone: its contribution is the result, but for truths, which become 0 or 1, and a caller's operation. */
static bool changes_alone(const struct execution *x)
{
    return x->call.made != NULL || (x->group->ranks == 1 && element_changes_alone(x->call.type, x->call.op));
}

static void reduce_alone(struct execution *x, struct range to, const void *from)
{
    struct reduction reduction = {
        .result = to.bytes, .sources = &from, .source_count = 1, .count = to.count
    };
    profile_turn(x->profile, ACTIVITY_REDUCE);
    fold_sources(x, &reduction);
    end_reduction(x, to.count * x->element_size, ACTIVITY_OTHER);
}

static bool is_pulled(const struct execution *x, const struct step *step)
{
    return step->peer != x->group->rank && step->from.buffer == BUFFER_INPUT &&
           x->group->shown[step->peer].is_private;
}

/* False while the peer is gone, which who watches over lives will find; and when its memory can't be read, which
 * ends the execution. */
static bool pull_step(struct execution *x, const struct step *step, struct range to, struct range from)
{
    size_t size = to.count * x->element_size;
    profile_turn(x->profile, ACTIVITY_COPY);
    int error = pull(x->group->shown[step->peer].pid, to.bytes, (uintptr_t)from.bytes, size);
    end_copy(x, size);
    if (error == 0)
        return true;
    x->waiting = step->peer;
    if (error == ESRCH)
        return false;
    x->phase = PHASE_DONE;
    x->status = failure_errno(
        PLAIT_SYSTEM_ERROR, error,
        "can't copy %zu bytes at %p out of rank %d's memory (PLAIT_PULLS=never has them staged)", size,
        (void *)from.bytes, step->peer);
    return false;
}

static void copy_step(struct execution *x, const struct step *step, struct range to, struct range from)
{
    size_t size = to.count * place_element_size(x, step->to);
    if (step->from.buffer == BUFFER_INPUT && changes_alone(x)) {
        reduce_alone(x, to, from.bytes);
        return;
    }
    if (from.bytes == to.bytes)
        return;
    profile_turn(x->profile, ACTIVITY_COPY);
    if (step->to.buffer == BUFFER_OUTPUT && (x->stream_output || offer_streams(x, to.bytes, size)))
        copy_streamed(to.bytes, from.bytes, size);
    else
        copy_cached(to.bytes, from.bytes, size);
    end_copy(x, size);
}

static bool take_copy(struct execution *x, const struct step *step, size_t chunk)
{
    struct range from = find_range(x, step->from, step->peer, chunk);
    struct range to = find_range(x, step->to, x->group->rank, chunk);
    if (to.count == 0)
        return true;
    if (is_pulled(x, step))
        return pull_step(x, step, to, from);
    copy_step(x, step, to, from);
    return true;
}

static void put_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct range from = find_range(x, step->from, x->group->rank, chunk);
    struct range to = find_range(x, step->to, x->group->rank, chunk);
    size_t size = from.count * x->element_size;
    profile_turn(x->profile, ACTIVITY_COPY);
    if (x->group->streamed && size >= STREAM_FROM_BYTES)
        copy_streamed(to.bytes, from.bytes, size);
    else
        copy_cached(to.bytes, from.bytes, size);
    end_copy(x, size);
}

/* What the first `ranks` ranks give. */
static void find_sources(const struct execution *x, const struct step *step, int ranks, size_t chunk)
{
    int me = x->group->rank;
    for (int rank = 0; rank < ranks; rank++)
        x->group->sources[rank] = find_range(x, rank == me ? step->own : step->from, rank, chunk).bytes;
}

/* Is a result that far peers read, in this operation or the last ones, written there? */
static bool streams_result(const struct execution *x, struct place place, struct range range)
{
    const struct plan *plan = &x->program->plan;
    size_t size = range.count * x->element_size;
    if (place.buffer != BUFFER_OUTPUT || !x->group->streamed || size < STREAM_FROM_BYTES)
        return false;
    return (plan->planner->shows != NULL && plan->planner->shows(plan, x->group->rank, BUFFER_OUTPUT)) ||
           offer_streams(x, range.bytes, size);
}

static void reduce_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct group *group = x->group;
    struct range to = find_range(x, step->to, group->rank, chunk);
    if (to.count == 0)
        return;
    int ranks = step->ranks > 0 ? step->ranks : group->ranks;
    find_sources(x, step, ranks, chunk);
    struct reduction reduction = { .result = to.bytes,
                                   .copy = find_range(x, step->also, group->rank, chunk).bytes,
                                   .sources = group->sources,
                                   .source_count = ranks,
                                   .count = to.count,
                                   .divide = x->call.op == PLAIT_AVERAGE ? (unsigned)group->ranks : 0,
                                   .stream_result = streams_result(x, step->to, to),
                                   .stream_copy =
                                       group->streamed && to.count * x->element_size >= STREAM_FROM_BYTES };
    profile_turn(x->profile, ACTIVITY_REDUCE);
    fold_sources(x, &reduction);
    end_reduction(x, to.count * x->element_size * (size_t)ranks, ACTIVITY_OTHER);
}

static void running_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct range to = find_range(x, step->to, x->group->rank, chunk);
    if (to.count == 0)
        return;
    find_sources(x, step, step->ranks, chunk);
    profile_turn(x->profile, ACTIVITY_REDUCE);
    fold_running(x, to.bytes, x->stride, step->ranks, to.count);
    end_reduction(x, to.count * x->element_size * (size_t)step->ranks, ACTIVITY_OTHER);
}

static void widen_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct range from = find_range(x, step->from, x->group->rank, chunk);
    struct range to = find_range(x, step->to, x->group->rank, chunk);
    begin_conversion(x);
    fold_begin(x, to.bytes, from.bytes, from.count);
    end_conversion(x, from.count * x->element_size);
}

static void narrow_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct range from = find_range(x, step->from, x->group->rank, chunk);
    struct range to = find_range(x, step->to, x->group->rank, chunk);
    begin_conversion(x);
    fold_end(x, to.bytes, from.bytes, to.count);
    end_conversion(x, to.count * x->work_element_size);
}

/* ---------------------------------------------------------------- messages */

static int world_rank(const struct execution *x, int rank)
{
    return x->group->world_ranks[rank];
}

/* Folds a piece of a message into WORK. */
static void fold_piece(struct transfer *transfer, size_t offset, const void *bytes, size_t size)
{
    struct execution *x = transfer->context;
    enum activity before = profile_turn(x->profile, ACTIVITY_REDUCE);
    fold_message(x, (unsigned char *)transfer->data + offset, bytes, size / x->work_element_size,
                 transfer->detail != 0);
    end_reduction(x, 2 * size, before);
}

/* Where there is no board, messages of calls that differ may cross; so the print tells them apart. */
static uint64_t message_operation(const struct execution *x)
{
    return x->group->board != NULL ? x->number : x->number ^ x->print << 32;
}

static void message_step(struct execution *x, const struct step *step, size_t chunk)
{
    struct group *group = x->group;
    bool sends = step->kind == STEP_SEND;
    struct place place = sends ? step->from : step->to;
    struct range range = find_range(x, place, group->rank, chunk);
    struct transfer *transfer = &group->transfers[x->open++];
    *transfer = (struct transfer){
        .peer = world_rank(x, step->peer),
        .key = { .context = group->context,
                 .operation = message_operation(x),
                 .place = (uint64_t)chunk << 16 | (uint64_t)step->stage },
        .data = range.bytes,
        .size = range.count * place_element_size(x, place),
        .status = PLAIT_IN_PROGRESS,
    };
    if (step->kind == STEP_RECV_REDUCE) {
        transfer->sink = fold_piece;
        transfer->context = x;
        transfer->detail = step->peer_left;
    }
    if (sends)
        group->transport->send(group->endpoint, transfer);
    else
        group->transport->recv(group->endpoint, transfer);
}

/* ------------------------------------------------------ signals and waiting
 *
 * A rank's signals are one growing number: at the end of stage s of tick t it
 * is t * stages + s + 1. Ranks take stages in the same order, so one number
 * tells how far a rank is in all chunks. */

static uint64_t signal_value(const struct execution *x, size_t chunk, int stage)
{
    size_t tick = chunk + (size_t)stage;
    return (uint64_t)tick * (uint64_t)x->program->plan.stages + (uint64_t)stage + 1;
}

static bool has_signalled(struct execution *x, int rank, uint64_t value)
{
    if (rank == x->group->rank)
        return true;
    profile_await(x->profile, rank);
    const struct notice *notice = notice_of(x, rank);
    int looks = x->group->looks;
    do {
        if (atomic_load_explicit(&notice->signals, memory_order_acquire) >= value) {
            profile_turn(x->profile, ACTIVITY_OTHER);
            return true;
        }
        pause_briefly();
    } while (--looks > 0);
    return false;
}

static bool all_have_signalled(struct execution *x, uint64_t value)
{
    for (; x->waiting < x->group->ranks; x->waiting++)
        if (!has_signalled(x, x->waiting, value))
            return false;
    x->waiting = 0;
    return true;
}

/* Has everybody read what was in the slot of this chunk before? `depth` slots
 * after a chunk its slot comes round again; one less than fit, since the first lap may
 * start in the middle of a slot of the second. */
static bool slot_free(struct execution *x, size_t chunk)
{
    size_t depth = x->lap_slots - 1;
    if (x->slots_free && chunk < depth)
        return true;
    /* All have entered this operation, so all have finished the one before; and
     * all make this very call, so all will signal. */
    if (!x->published)
        notice_publish(x, 0);
    if (!x->met && !notice_meet(x))
        return false;
    x->slots_free = true;
    if (chunk < depth)
        return true;
    return all_have_signalled(x, signal_value(x, chunk - depth, x->program->plan.stages - 1));
}

static bool wait_step(struct execution *x, const struct step *step, size_t chunk)
{
    if (!x->met) {
        if (!x->published)
            notice_publish(x, 0);
        if (!notice_meet(x))
            return false;
    }
    uint64_t value = signal_value(x, chunk, step->wait_stage);
    if (step->peer == ALL_RANKS)
        return all_have_signalled(x, value);
    x->waiting = step->peer;
    if (!has_signalled(x, step->peer, value))
        return false;
    x->waiting = 0;
    return true;
}

/* The last stage's signal only tells that a slot is free again: nobody looks
 * for it when no later chunk needs the slot. */
static void signal_step(struct execution *x, const struct step *step, size_t chunk)
{
    const struct plan *plan = &x->program->plan;
    bool only_frees = plan->window_blocks > 0 && plan->stages > 1 && step->stage == plan->stages - 1;
    if (only_frees && x->published && chunk + x->lap_slots - 1 >= x->chunks)
        return;
    notice_signal(x, signal_value(x, chunk, step->stage));
}

bool step_take(struct execution *x, const struct step *step, size_t chunk)
{
    if (step->to.buffer == BUFFER_OUTPUT && !x->met) {
        /* Nothing touches an output before all calls are known to be alike. */
        if (!x->published)
            notice_publish(x, 0);
        if (x->group->board != NULL ? !notice_meet(x) : !letters_meet(x))
            return false;
    }
    switch (step->kind) {
    case STEP_COPY: return take_copy(x, step, chunk);
    case STEP_PUT:
        if (!slot_free(x, chunk))
            return false;
        put_step(x, step, chunk);
        return true;
    case STEP_SIGNAL: signal_step(x, step, chunk); return true;
    case STEP_WAIT: return wait_step(x, step, chunk);
    case STEP_REDUCE: reduce_step(x, step, chunk); return true;
    case STEP_RUNNING: running_step(x, step, chunk); return true;
    case STEP_WIDEN: widen_step(x, step, chunk); return true;
    case STEP_NARROW: narrow_step(x, step, chunk); return true;
    case STEP_SEND:
    case STEP_RECV:
    case STEP_RECV_REDUCE: message_step(x, step, chunk); return true;
    }
    return true;
}
