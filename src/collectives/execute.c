#include "collectives/execute.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/element.h"
#include "base/span.h"
#include "base/status.h"
#include "collectives/exchange.h"
#include "collectives/fold.h"
#include "collectives/letters.h"
#include "collectives/notice.h"
#include "collectives/offer.h"
#include "collectives/profile.h"
#include "collectives/recheck.h"
#include "collectives/staging.h"
#include "collectives/steps.h"
#include "collectives/verdict.h"

enum { LINE_BYTES = 64, WORK_LIMIT = 64 << 20 };

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

/* ------------------------------------------------------------------ set-up */

/* Deals the blocks' elements to chunks: no more than the plan's target, and
 * small enough that the staging holds a slot for each stage and one more. */
static void deal_chunks(struct execution *x, const struct staging *ring)
{
    const struct plan *plan = &x->program->plan;
    if (x->call.count == 0) { /* messages without bytes still order the ranks */
        x->chunks = x->chunk_count = 1;
        return;
    }
    size_t most = x->program->target / x->element_size;
    if (plan->window_blocks > 0) {
        size_t slot_room = ring->size / (size_t)(plan->stages + 1) / (size_t)plan->window_blocks;
        slot_room = slot_room / LINE_BYTES * LINE_BYTES;
        if (most > slot_room / x->element_size)
            most = slot_room / x->element_size;
    }
    if (plan->work_blocks > 0) {
        size_t room = WORK_LIMIT / (size_t)plan->stages / (size_t)plan->work_blocks / x->work_element_size;
        if (most > room)
            most = room;
    }
    if (most < 1)
        most = 1;

    size_t count = x->call.count;
    x->chunks = (count + most - 1) / most;
    /* Chunks of one size, in whole grains, so that the last is not a crumb. */
    size_t even = (count + x->chunks - 1) / x->chunks;
    x->chunk_count = even >= 64 && round_up(even, 64) <= most ? round_up(even, 64) : even;
    x->chunks = (count + x->chunk_count - 1) / x->chunk_count;
}

/* Takes the next slots of the ring. All ranks take the same. */
static void take_slots(struct execution *x, const struct staging *ring)
{
    const struct plan *plan = &x->program->plan;
    x->stride = round_up(x->chunk_count * x->element_size, LINE_BYTES);
    x->slot_size = x->stride * (size_t)plan->window_blocks;
    x->slot_first = ring->position + x->slot_size <= ring->size ? ring->position : 0;
    x->lap_slots = ring->size / x->slot_size;
    x->first_lap_slots = (ring->size - x->slot_first) / x->slot_size;

    /* A small operation that does not come round to what its predecessor used may be staged
     * before the others are known to have finished that. */
    size_t end = x->slot_first + x->chunks * x->slot_size;
    size_t last_end = ring->last_first + ring->last_size;
    bool apart = x->slot_first >= last_end || end <= ring->last_first;
    x->slots_free = x->chunks <= x->first_lap_slots && (ring->last_number + 1 < x->number || apart);
}

/* The ring's bytes that an operation used, for its successor. Only successes
 * move the ring on: ranks that mismatch would move it by different steps. */
static void leave_slots(struct execution *x)
{
    struct staging *ring = &x->group->staging;
    if (x->chunks <= x->first_lap_slots) {
        ring->last_first = x->slot_first;
        ring->last_size = x->chunks * x->slot_size;
    } else {
        ring->last_first = 0;
        ring->last_size = ring->size;
    }
    ring->last_number = x->number;
    size_t used = x->chunks <= x->first_lap_slots
                      ? x->slot_first + x->chunks * x->slot_size
                      : (x->chunks - x->first_lap_slots) % x->lap_slots * x->slot_size;
    ring->position = used;
}

static plait_status make_room(struct execution *x)
{
    const struct plan *plan = &x->program->plan;
    struct group *group = x->group;
    size_t stages = (size_t)plan->stages;
    x->work_slots = x->chunks < stages ? x->chunks : stages;
    size_t work = x->work_slots * (size_t)plan->work_blocks *
                  round_up(x->chunk_count * x->work_element_size, LINE_BYTES);
    if (work > group->work_size) {
        free(group->work);
        group->work_size = 0;
        group->work = aligned_alloc(LINE_BYTES, round_up(work, LINE_BYTES));
        if (group->work == NULL)
            return failure(PLAIT_OUT_OF_MEMORY, "no memory for %zu bytes of scratch", work);
        group->work_size = work;
    }
    if (x->program->messages > group->transfer_room) {
        struct transfer *transfers =
            realloc(group->transfers, (size_t)x->program->messages * sizeof *transfers);
        if (transfers == NULL)
            return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d messages", x->program->messages);
        group->transfers = transfers;
        group->transfer_room = x->program->messages;
    }
    return PLAIT_OK;
}

static size_t output_elements(const struct execution *x)
{
    if (x->call.layout != NULL)
        return x->call.layout->total;
    int blocks = collective_output_blocks(x->call.kind, x->group->ranks, x->call.root, x->group->rank);
    return (size_t)blocks * x->call.count;
}

static plait_status prepare_steps(struct execution *x)
{
    plait_status status = PLAIT_OK;
    x->program = program_for(x->group, &x->call, &status);
    if (x->program == NULL)
        return status;
    x->ready = false;
    x->offer[0] = x->offer[1] = 0;
    if (x->program->in_place != NULL)
        offer_make(x);
    const struct plan *plan = &x->program->plan;
    x->work_element_size =
        collective_reduces(x->call.kind) ? plait_type_size(fold_accumulator(&x->call)) : x->element_size;
    x->changes = staging_wants_lane(&x->group->staging, plan, x->call.count * x->element_size);
    if (x->changes && !staging_reserve(x->group))
        offer_refuse_lane(x);
    struct staging ring = x->changes ? staging_in_lane(x->group) : x->group->staging;
    deal_chunks(x, &ring);
    if (plan->window_blocks > 0)
        take_slots(x, &ring);
    x->stream_output = output_elements(x) * x->element_size > x->group->stream_above;
    return make_room(x);
}

/* `call` is x->whole's first part where that is not NULL. */
static plait_status begin(struct execution *x, struct group *group, const struct call *call)
{
    x->group = group;
    x->profile = atomic_load_explicit(&group->profiling, memory_order_acquire);
    if (x->profile != NULL)
        profile_begin(x->profile);
    x->call = *call;
    x->number = group->number + 1;
    x->print = call_print(execution_call(x));
    x->phase = PHASE_MEET;
    x->status = PLAIT_IN_PROGRESS;
    x->published = false;
    x->met = false;
    x->seen = 0;
    x->differs = 0;
    x->program = NULL;
    x->element_size = plait_type_size(call->type);
    x->tick = 0;
    x->stage = x->index = x->waiting = x->open = 0;
    x->asked = x->moved = x->refused = false;
    x->contribution = 0;
    x->given = call->input;
    x->verdict = 0;
    if (group->board == NULL && verdict_due(x))
        return failure(PLAIT_UNSUPPORTED, "a caller's function needs a transport whose ranks share memory");
    if (group->board == NULL || !notice_carries(group, call, &x->contribution)) {
        plait_status status = prepare_steps(x);
        if (status != PLAIT_OK)
            return status;
    } else if (call->layout != NULL) {
        notice_pack(x);
    }
    if (group->board == NULL) { /* no place to meet: letters go out while the steps run */
        plait_status status = letters_begin(x);
        if (status != PLAIT_OK)
            return status;
        x->published = true;
        x->phase = PHASE_STEPS;
    }
    group->number = x->number;
    return PLAIT_OK;
}

plait_status execution_begin(struct execution *x, struct group *group, const struct call *call)
{
    x->whole = NULL;
    if (!call_counts_differ(call))
        return begin(x, group, call);
    struct call first;
    plait_status status = exchange_prepare(group, call, &first);
    if (status != PLAIT_OK)
        return status;
    x->whole = &group->exchange->whole;
    return begin(x, group, &first);
}

/* All ranks' counts are known. The v-form itself is the next operation, though people count both as one. */
static void go_on_counted(struct execution *x)
{
    struct group *group = x->group;
    plait_status status = exchange_conclude(group, x->number - group->uncounted, &x->waiting);
    if (status == PLAIT_OK) {
        x->whole = NULL;
        status = begin(x, group, &group->exchange->whole);
    }
    if (status == PLAIT_OK)
        return;
    x->phase = PHASE_DONE;
    x->status = status;
}

/* --------------------------------------------------------------------- run */

static void finish(struct execution *x)
{
    struct group *group = x->group;
    if (verdict_due(x)) {
        verdict_say(x);
        return;
    }
    if (x->program != NULL && x->program->plan.window_blocks > 0)
        leave_slots(x);
    if (x->whole != NULL) {
        x->phase = PHASE_COUNTED;
        return;
    }
    x->phase = PHASE_DONE;
    x->status = PLAIT_OK;
    group->last_plan = x->program == NULL ? "direct-inline" : x->program->plan.planner->name;
    group->uncounted += call_counts_differ(&x->call);
    if (x->profile != NULL)
        profile_end(x->profile, x->program == NULL ? 0 : x->chunks);
}

static int rank_of(const struct group *group, int world_rank)
{
    int rank = 0;
    while (rank < group->ranks && group->world_ranks[rank] != world_rank)
        rank++;
    return rank;
}

/* True when every transfer of the tick is done. A failed one ends the execution. */
static bool transfers_settled(struct execution *x)
{
    for (int i = 0; i < x->open; i++) {
        plait_status status = x->group->transfers[i].status;
        if (status == PLAIT_IN_PROGRESS) {
            if (x->profile != NULL)
                profile_await(x->profile, rank_of(x->group, x->group->transfers[i].peer));
            return false;
        }
        if (status != PLAIT_OK) {
            x->waiting = rank_of(x->group, x->group->transfers[i].peer); /* the culprit */
            x->phase = PHASE_DONE;
            x->status = status;
            return false;
        }
    }
    x->open = 0;
    profile_turn(x->profile, ACTIVITY_OTHER);
    return true;
}

/* The steps of one stage of the present tick. False when held up or failed. */
static bool run_stage(struct execution *x)
{
    const struct program *program = x->program;
    size_t stage = (size_t)x->stage;
    if (x->tick < stage || x->tick - stage >= x->chunks) {
        x->index = program->stage_first[stage + 1];
        return true;
    }
    for (; x->index < program->stage_first[stage + 1]; x->index++) {
        if (!step_take(x, &program->steps[x->index], x->tick - stage))
            return false;
        x->moved = true;
    }
    return true;
}

static void run_steps(struct execution *x)
{
    int stages = x->program->plan.stages;
    size_t ticks = x->chunks + (size_t)stages - 1;
    while (x->tick < ticks) {
        for (; x->stage < stages; x->stage++)
            if (!run_stage(x))
                return;
        if (!transfers_settled(x))
            return;
        x->tick++;
        x->stage = x->index = 0;
    }
    /* A rank that waited for nobody still learns whether all made its call. */
    if (!x->met && (x->group->board == NULL || !notice_meet(x)))
        return;
    const struct plan *plan = &x->program->plan;
    if ((plan->window_blocks > 0 || plan->planner->shows != NULL) && recheck_due(x))
        x->phase = PHASE_CHECK;
    else
        finish(x);
}

/* All have met: they stage in the lane from now on, if all have one. */
static void change_staging(struct execution *x)
{
    int rank = offer_lane_refused_by(x);
    if (rank < 0) {
        staging_change(x->group);
        return;
    }
    staging_give_up(x->group);
    x->waiting = rank; /* the culprit */
    x->refused = true;
    x->phase = PHASE_DONE;
    x->status =
        failure(PLAIT_OUT_OF_MEMORY,
                "operation %llu: rank %d has no memory for the %zu bytes of staging that a call of this "
                "size needs; it fails on all ranks and no output was touched; give the host or container "
                "more memory and try again, or make smaller calls",
                (unsigned long long)(x->number - x->group->uncounted), rank, x->group->staging.lane_size);
}

/* All have met: what needs no steps is done, the rest begins. */
static void proceed(struct execution *x)
{
    if (x->program == NULL) {
        notice_finish(x);
        finish(x);
        return;
    }
    if (x->ready && offer_accepted(x)) {
        x->program = x->program->in_place;
        deal_chunks(x, &x->group->staging);
    } else if (x->changes && x->phase == PHASE_MEET) {
        change_staging(x);
    }
    if (x->phase == PHASE_MEET)
        x->phase = PHASE_STEPS;
}

plait_status execution_advance(struct execution *x)
{
    if (x->phase == PHASE_MEET && x->program != NULL && x->program->plan.window_blocks > 0 && !x->ready &&
        !x->changes)
        x->phase = PHASE_STEPS; /* the steps put the notice up, with the first slot */
    if (x->phase == PHASE_MEET) {
        if (!x->published)
            notice_publish(x, 0);
        if (notice_meet(x))
            proceed(x);
    }
    /* Steps of calls that differ may wait for each other for ever: letters first. */
    if (x->phase == PHASE_STEPS &&
        (x->met || x->group->board != NULL || letters_meet(x) || x->phase == PHASE_STEPS))
        run_steps(x);
    if (x->phase == PHASE_CHECK && recheck_advance(x))
        finish(x);
    plait_status verdict;
    if (x->phase == PHASE_VERDICT && verdict_hear(x, &verdict)) {
        finish(x);
        x->status = verdict;
    }
    if (x->phase != PHASE_COUNTED)
        return x->status;
    go_on_counted(x);
    return x->phase == PHASE_DONE ? x->status : execution_advance(x);
}

void execution_cancel(struct execution *x)
{
    for (int i = 0; i < x->open; i++)
        x->group->transport->cancel(x->group->endpoint, &x->group->transfers[i]);
    x->open = 0;
    if (x->group->board == NULL)
        letters_cancel(x);
}

int execution_awaited(const struct execution *x, bool *entered)
{
    *entered = false;
    if (x->phase == PHASE_DONE)
        return -1;
    if (!x->met) {
        int missing = x->group->board != NULL ? x->seen : letters_missing(x);
        if (missing >= 0)
            return missing < x->group->ranks ? missing : -1;
    }
    *entered = true;
    for (int i = 0; i < x->open; i++)
        if (x->group->transfers[i].status == PLAIT_IN_PROGRESS)
            return rank_of(x->group, x->group->transfers[i].peer);
    return x->waiting < x->group->ranks ? x->waiting : -1;
}

bool execution_blocks_peer(const struct execution *x)
{
    const struct group *group = x->group;
    int32_t core = sched_getcpu();
    int last = x->met ? x->waiting + 1 : group->ranks;
    for (int rank = x->met ? x->waiting : x->seen; rank < last && rank < group->ranks; rank++) {
        bool missing =
            x->met || atomic_load_explicit(&notice_of(x, rank)->number, memory_order_relaxed) != x->number;
        if (missing && rank != group->rank &&
            atomic_load_explicit(&group->board->seats[rank]->core, memory_order_relaxed) == core)
            return true;
    }
    return false;
}
