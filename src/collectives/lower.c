#include "collectives/lower.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "collectives/cost.h"
#include "collectives/staging.h"

enum { PROVED_RANKS = 16 }; /* proving more takes longer than a debug run should wait */

static int size_class(size_t size)
{
    return size == 0 ? 0 : 63 - __builtin_clzll((unsigned long long)size);
}

/* Room that the plan's slots need at least: one for each stage and one more, of
 * a cache line a block. */
static bool windows_fit(const struct group *group, const struct plan *plan)
{
    return (size_t)plan->window_blocks * 64 * (size_t)(plan->stages + 1) <= staging_reach(&group->staging);
}

/* Must its contributions be folded in the order of ranks? */
static bool is_ordered(const struct call *call)
{
    return call->made != NULL && call->made->ordered;
}

static struct plan choose(const struct group *group, const struct call *call, size_t size)
{
    struct cost_facts facts = group->facts;
    facts.order = is_ordered(call) ? FOLDS_NEIGHBOURS : FOLDS_ANYHOW;
    struct plan plan = plan_choose(call->kind, group->ranks, call->root, size, &facts, group->forced_plan);
    if (plan.window_blocks == 0 || windows_fit(group, &plan))
        return plan;
    facts.windows = false;
    return plan_choose(call->kind, group->ranks, call->root, size, &facts, group->forced_plan);
}

/* Fills the steps of `rank` and where each stage begins. */
static void write_out(struct program *program, int rank, int count)
{
    int stage = 0;
    plan_lay(&program->plan, rank, program->steps, count);
    program->stage_first[0] = 0;
    for (int i = 0; i < count; i++) {
        while (stage < program->steps[i].stage)
            program->stage_first[++stage] = i;
        enum step_kind kind = program->steps[i].kind;
        program->messages += kind == STEP_SEND || kind == STEP_RECV || kind == STEP_RECV_REDUCE;
    }
    while (stage < program->plan.stages)
        program->stage_first[++stage] = count;
}

static size_t message_chunk(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    size_t chunk = (size_t)1 << 18;
    if (facts->groups != NULL && plan->ranks > 1)
        cost_messages(plan, facts, size, &chunk);
    return chunk;
}

/* Bytes of a block in a chunk. Measured (2 and 4 ranks on 2 cores, near and
 * far): half the second-level cache serves all sizes; where ranks share cores, each
 * stage of each chunk costs a change of the thread on a core, so chunks are larger. To or from a root bytes go
 * one way only, so the giver of the next chunk and the taker of the last are at work together if there are several. */
static size_t chunk_target(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    const size_t usual = (size_t)1 << 19, least = (size_t)1 << 14;
    if (plan->planner->shows != NULL)
        return plan->kind == COLLECTIVE_ALLREDUCE ? (size_t)1 << 20 : (size_t)1 << 22;
    if (plan->window_blocks == 0)
        return message_chunk(plan, facts, size);
    if (facts->ranks > facts->cores)
        return 2 * usual;
    if (!collective_has_root(plan->kind) || size / 8 > usual)
        return usual;
    return size / 8 > least ? size / 8 : least;
}

static struct program *write_program(const struct group *group, struct plan plan, size_t size,
                                     plait_status *status)
{
    if (group->prove && plan.ranks <= PROVED_RANKS) {
        *status = plan_verify(&plan, plan.stages < 3 ? plan.stages : 3);
        if (*status != PLAIT_OK)
            return NULL;
    }
    int count = plan_steps(&plan, group->rank);
    size_t steps_size = sizeof(struct program) + (size_t)count * sizeof(struct step);
    struct program *program = calloc(1, steps_size + (size_t)(plan.stages + 1) * sizeof(int));
    if (program == NULL) {
        *status = failure(PLAIT_OUT_OF_MEMORY, "no memory for a plan of %d steps", count);
        return NULL;
    }
    program->plan = plan;
    program->target = chunk_target(&plan, &group->facts, size);
    program->stage_first = (int *)((char *)program + steps_size);
    write_out(program, group->rank, count);
    log_debug("%s from %zu bytes a block goes by %s over %d ranks", collective_name(plan.kind), size,
              plan.planner->name, plan.ranks);
    return program;
}

static plait_status refuse(const struct group *group, const struct call *call)
{
    if (!is_ordered(call))
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to choose a plan for %s of %d ranks",
                       collective_name(call->kind), group->ranks);
    return failure(
        PLAIT_UNSUPPORTED,
        "no plan for %s of %d ranks keeps the order of ranks, which %s needs, without more staging memory "
        "than this communicator has; use one that is made while fewer exist",
        collective_name(call->kind), group->ranks, call->made->name);
}

static struct program *lower(struct group *group, const struct call *call, size_t size, plait_status *status)
{
    struct plan staged = choose(group, call, size);
    if (staged.planner == NULL) {
        *status = refuse(group, call);
        return NULL;
    }
    struct program *program = write_program(group, staged, size, status);
    if (program != NULL)
        program->ordered = is_ordered(call);
    if (program == NULL)
        return program;
    struct plan in_place = plan_choose_in_place(&staged, size, &group->facts, group->forced_plan);
    if (in_place.planner == NULL)
        return program;
    program->in_place = write_program(group, in_place, size, status);
    if (program->in_place != NULL)
        return program;
    free(program);
    return NULL;
}

const struct program *program_for(struct group *group, const struct call *call, plait_status *status)
{
    size_t size = call->count * plait_type_size(call->type);
    struct program **list = &group->programs[call->kind][size_class(size)];
    for (struct program *program = *list; program != NULL; program = program->next)
        if (program->plan.root == call->root && program->ordered == is_ordered(call))
            return program;

    /* The choice is made for the class, not for this call, so that it does not
     * depend on which size came first. */
    size_t class_size = size == 0 ? 0 : (size_t)1 << size_class(size);
    struct program *program = lower(group, call, class_size, status);
    if (program != NULL) {
        program->next = *list;
        *list = program;
    }
    return program;
}
