/* What can be told from the steps alone: places inside their buffers, steps that
 * the executor knows how to take, stages in order, signals where they must be. */
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"
#include "collectives/verify.h"

plait_status verify_wrong(const struct plan *plan, int rank, int index, const struct step *step,
                          const char *format, ...)
{
    char plan_text[96], step_text[256], rule[256];
    plan_describe(plan, plan_text, sizeof plan_text);
    step_describe(step, rank, index, step_text, sizeof step_text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return failure(PLAIT_INTERNAL, "%s is wrong at %s: it %s", plan_text, step_text, rule);
}

/* Sets of buffers. */
enum {
    NONE = 1 << BUFFER_NONE,
    INPUT = 1 << BUFFER_INPUT,
    OUTPUT = 1 << BUFFER_OUTPUT,
    WORK = 1 << BUFFER_WORK,
    WINDOW = 1 << BUFFER_WINDOW
};

/* Which buffers a step may name. `input` is read only; a window is written by local steps, and copied to by
 * PUT alone, which is what waits for a free slot; WORK's elements are of another type than the rest's. */
static const struct step_rule {
    int to, from, own, also;
} step_rules[] = {
    [STEP_COPY] = { OUTPUT | WORK, INPUT | OUTPUT | WORK | WINDOW, NONE, NONE },
    [STEP_PUT] = { WINDOW, INPUT | OUTPUT, NONE, NONE },
    [STEP_SIGNAL] = { NONE, NONE, NONE, NONE },
    [STEP_WAIT] = { NONE, NONE, NONE, NONE },
    [STEP_REDUCE] = { OUTPUT | WINDOW, WINDOW | INPUT, INPUT | OUTPUT, WINDOW | NONE },
    [STEP_RUNNING] = { WINDOW, WINDOW, INPUT | OUTPUT, NONE },
    [STEP_WIDEN] = { WORK, INPUT | OUTPUT, NONE, NONE },
    [STEP_NARROW] = { OUTPUT, WORK, NONE, NONE },
    [STEP_SEND] = { NONE, INPUT | OUTPUT | WORK | NONE, NONE, NONE },
    [STEP_RECV] = { OUTPUT | WORK | NONE, NONE, NONE, NONE },
    [STEP_RECV_REDUCE] = { WORK, NONE, NONE, NONE },
};

static int buffer_blocks(const struct plan *plan, enum buffer buffer, int rank)
{
    switch (buffer) {
    case BUFFER_INPUT: return collective_input_blocks(plan->kind, plan->ranks, plan->root, rank);
    case BUFFER_OUTPUT: return collective_output_blocks(plan->kind, plan->ranks, plan->root, rank);
    case BUFFER_WORK: return plan->work_blocks;
    case BUFFER_WINDOW: return plan->window_blocks;
    case BUFFER_NONE: break;
    }
    return 0;
}

/* What is wrong with a place in its role ("to"), or NULL. */
static const char *place_trouble(const struct plan *plan, int owner, const struct place *place, int allowed)
{
    if ((unsigned)place->buffer > BUFFER_WINDOW || !(allowed >> place->buffer & 1))
        return "is in a buffer that such a step can't use";
    if (place->buffer == BUFFER_NONE)
        return NULL;
    if (place->block < 0 || place->block >= buffer_blocks(plan, place->buffer, owner))
        return "is in a block outside of the buffer";
    bool whole = place->part == ALL_PARTS && place->more == 0;
    if (!whole && (place->part < 0 || place->more < 0 || place->part >= plan->parts - place->more))
        return "is in a part that there is not";
    return NULL;
}

static bool parts_agree(const struct step *step)
{
    const struct place *places[] = { &step->to, &step->from, &step->own, &step->also };
    const struct place *first = NULL;
    for (int i = 0; i < 4; i++) {
        if (places[i]->buffer == BUFFER_NONE)
            continue;
        if (first && (places[i]->part != first->part || places[i]->more != first->more))
            return false;
        first = places[i];
    }
    return true;
}

static bool fetches(const struct step *step, int rank)
{
    return step->kind == STEP_COPY && (step->from.buffer == BUFFER_WINDOW || step->peer != rank);
}

/* Do those from whom `rank` takes something let it? */
static bool is_shown(const struct plan *plan, int rank, const struct step *step)
{
    if (step->from.buffer == BUFFER_WINDOW || !(step->kind == STEP_REDUCE || fetches(step, rank)))
        return true;
    bool shown = plan->planner->shows != NULL;
    for (int peer = 0; peer < plan->ranks && shown; peer++)
        if (peer != rank && (step->kind == STEP_REDUCE || peer == step->peer))
            shown = plan->planner->shows(plan, peer, step->from.buffer);
    return shown;
}

static bool transfers(const struct step *step)
{
    return step->kind == STEP_SEND || step->kind == STEP_RECV || step->kind == STEP_RECV_REDUCE;
}

static bool touches_windows(const struct step *step, int rank)
{
    return step->kind == STEP_PUT || step->kind == STEP_REDUCE || step->kind == STEP_RUNNING ||
           fetches(step, rank);
}

/* Is the peer one that such a step can have? */
static bool peer_fits(const struct plan *plan, int rank, const struct step *step)
{
    bool is_rank = step->peer >= 0 && step->peer < plan->ranks;
    switch (step->kind) {
    case STEP_SEND:
    case STEP_RECV:
    case STEP_RECV_REDUCE: return is_rank && step->peer != rank;
    case STEP_WAIT: return is_rank || step->peer == ALL_RANKS;
    case STEP_COPY: return is_rank && (fetches(step, rank) || step->peer == rank);
    default: return true;
    }
}

static plait_status check_step(const struct plan *plan, int rank, int index, const struct step *step)
{
    if ((unsigned)step->kind > STEP_RECV_REDUCE)
        return failure(PLAIT_INTERNAL, "step %d of rank %d is of no known kind (%d)", index, rank,
                       step->kind);
    if (!peer_fits(plan, rank, step))
        return verify_wrong(plan, rank, index, step, "names rank %d, which such a step can't", step->peer);
    if (step->kind == STEP_WAIT && (step->wait_stage < 0 || step->wait_stage >= plan->stages))
        return verify_wrong(plan, rank, index, step, "waits for stage %d of %d", step->wait_stage,
                            plan->stages);

    bool first_only = step->kind == STEP_REDUCE || step->kind == STEP_RUNNING;
    if (first_only && (step->ranks < (step->kind == STEP_RUNNING) || step->ranks > plan->ranks))
        return verify_wrong(plan, rank, index, step, "folds over %d ranks of %d", step->ranks, plan->ranks);
    if (step->kind == STEP_RUNNING && step->to.block + step->ranks > plan->window_blocks)
        return verify_wrong(plan, rank, index, step,
                            "is out of bounds: its last target is in a block outside of "
                            "the buffer");

    const struct step_rule *rule = &step_rules[step->kind];
    const struct {
        const char *role;
        const struct place *place;
        int owner, allowed;
    } roles[] = {
        { "its target", &step->to, rank, rule->to },
        { "its source", &step->from, fetches(step, rank) ? step->peer : rank, rule->from },
        { "its own contribution", &step->own, rank, rule->own },
        { "its second target", &step->also, rank, rule->also },
    };
    for (int i = 0; i < 4; i++) {
        const char *trouble = place_trouble(plan, roles[i].owner, roles[i].place, roles[i].allowed);
        if (trouble)
            return verify_wrong(plan, rank, index, step, "is out of bounds: %s %s", roles[i].role, trouble);
    }
    if (!is_shown(plan, rank, step))
        return verify_wrong(plan, rank, index, step,
                            "reads a peer's buffer, which its planner says it does not");
    if (!parts_agree(step))
        return verify_wrong(plan, rank, index, step, "mixes parts of the chunk");
    if (step->kind == STEP_COPY && collective_reduces(plan->kind) &&
        (step->to.buffer == BUFFER_WORK) != (step->from.buffer == BUFFER_WORK))
        return verify_wrong(plan, rank, index, step, "copies between accumulators and elements");
    if ((step->kind == STEP_SIGNAL || step->kind == STEP_WAIT || touches_windows(step, rank)) &&
        !plan->planner->needs_windows)
        return verify_wrong(plan, rank, index, step, "needs windows, which its planner says it does not");
    return PLAIT_OK;
}

/* Stages ascend, one signal a stage; fills stage_first and transfers. */
static plait_status check_order(const struct plan *plan, int rank, struct actor_steps *actor)
{
    int stage = 0;
    bool signalled = false, put = false;
    for (int i = 0; i < actor->count; i++) {
        const struct step *step = &actor->steps[i];
        if (step->stage < stage || step->stage >= plan->stages)
            return verify_wrong(plan, rank, i, step, "is out of order: stage %d comes after %d of %d",
                                step->stage, stage, plan->stages);
        signalled = signalled && step->stage == stage;
        while (stage < step->stage)
            actor->stage_first[++stage] = i;
        if (signalled && step->kind != STEP_WAIT)
            return verify_wrong(plan, rank, i, step, "comes after the signal of its stage");
        signalled = signalled || step->kind == STEP_SIGNAL;
        put = put || step->kind == STEP_PUT;
        bool overwrites = (step->kind == STEP_REDUCE || step->kind == STEP_RUNNING) &&
                          (step->to.buffer == BUFFER_WINDOW || step->also.buffer == BUFFER_WINDOW);
        if (overwrites && !put)
            return verify_wrong(plan, rank, i, step, "writes a slot that no put before it made sure of");
        actor->transfers += transfers(step);
    }
    while (stage < plan->stages)
        actor->stage_first[++stage] = actor->count;
    return PLAIT_OK;
}

static bool stage_touches_windows(const struct plan *plan, const struct actor_steps *actors, int stage)
{
    for (int rank = 0; rank < plan->ranks; rank++)
        for (int i = actors[rank].stage_first[stage]; i < actors[rank].stage_first[stage + 1]; i++)
            if (touches_windows(&actors[rank].steps[i], rank))
                return true;
    return false;
}

/* Every stage that touches windows anywhere ends in a signal everywhere, and so does the last one. */
static plait_status check_signals(const struct plan *plan, const struct actor_steps *actors)
{
    for (int stage = 0; stage < plan->stages; stage++) {
        if (!stage_touches_windows(plan, actors, stage) && stage < plan->stages - 1)
            continue;
        for (int rank = 0; rank < plan->ranks; rank++) {
            int last = actors[rank].stage_first[stage + 1] - 1;
            const struct step none = { STEP_SIGNAL, .stage = stage, .peer = ALL_RANKS };
            if (last < actors[rank].stage_first[stage])
                return verify_wrong(plan, rank, last + 1, &none,
                                    "is missing: the stage must end in a signal");
            if (actors[rank].steps[last].kind != STEP_SIGNAL)
                return verify_wrong(plan, rank, last, &actors[rank].steps[last],
                                    "ends its stage, which must end in a signal");
        }
    }
    return PLAIT_OK;
}

plait_status verify_rules(const struct plan *plan, struct actor_steps *actors)
{
    plait_status status = PLAIT_OK;
    for (int rank = 0; rank < plan->ranks && status == PLAIT_OK; rank++) {
        for (int i = 0; i < actors[rank].count && status == PLAIT_OK; i++)
            status = check_step(plan, rank, i, &actors[rank].steps[i]);
        if (status == PLAIT_OK)
            status = check_order(plan, rank, &actors[rank]);
    }
    if (status == PLAIT_OK && plan->window_blocks > 0)
        status = check_signals(plan, actors);
    return status;
}
