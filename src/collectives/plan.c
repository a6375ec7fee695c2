#include "collectives/plan.h"

#include <stdio.h>
#include <string.h>

#include "collectives/planners.h"
#include "collectives/script.h"

const struct planner *const planners[] = {
    &planner_direct_one_shot,
    &planner_direct_two_phase,
    &planner_direct_running,
    &planner_doubling,
    &planner_halving,
    &planner_ring,
    &planner_tree,
    &planner_chain,
    &planner_pairwise,
    &planner_hierarchy_doubling,
    &planner_hierarchy_halving,
    &planner_hierarchy_ring,
    &planner_hierarchy_tree,
    &planner_hierarchy_chain,
    &planner_in_place_one_shot,
    &planner_in_place_two_phase,
    NULL,
};

bool planner_answers(const struct planner *planner, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(planner->name, name, length) != 0)
        return false;
    bool family =
        strcmp(name, "direct") == 0 || strcmp(name, "hierarchy") == 0 || strcmp(name, "in-place") == 0;
    return planner->name[length] == '\0' || (family && planner->name[length] == '-');
}

const struct planner *planner_find(const char *name)
{
    for (const struct planner *const *planner = planners; name && *planner; planner++)
        if (planner_answers(*planner, name))
            return *planner;
    return NULL;
}

struct plan plan_make_for(const struct planner *planner, enum collective kind, int ranks, int root,
                          const struct grouping *groups)
{
    struct plan plan = { .planner = planner,
                         .groups = planner->needs_groups ? groups : NULL,
                         .kind = kind,
                         .ranks = ranks,
                         .root = collective_has_root(kind) ? root : 0,
                         .parts = 1,
                         .stages = 1 };
    planner->shape(&plan);
    return plan;
}

struct plan plan_make(const struct planner *planner, enum collective kind, int ranks, int root)
{
    return plan_make_for(planner, kind, ranks, root, NULL);
}

static int lay(const struct plan *plan, struct script script)
{
    plan->planner->lay(plan, script.rank, &script);
    return script.count;
}

int plan_lay(const struct plan *plan, int rank, struct step *steps, int room)
{
    return lay(plan, (struct script){ .rank = rank, .room = room, .steps = steps });
}

int plan_steps(const struct plan *plan, int rank)
{
    return plan_lay(plan, rank, NULL, 0);
}

struct step plan_step(const struct plan *plan, int rank, int index)
{
    struct step step = { 0 };
    lay(plan, (struct script){ .rank = rank, .first = index, .room = 1, .steps = &step });
    return step;
}

void plan_describe(const struct plan *plan, char *text, size_t size)
{
    int length = snprintf(text, size, "%s of %d ranks by %s", collective_name(plan->kind), plan->ranks,
                          plan->planner->name);
    if (collective_has_root(plan->kind) && length > 0 && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, ", root %d", plan->root);
}

/* "rank 2's window block 1 part 2" in the words of who reads it. */
static void place_describe(const struct place *place, char *text, size_t size)
{
    static const char *const names[] = { "nothing", "input", "output", "work", "window" };
    if (place->buffer == BUFFER_NONE)
        snprintf(text, size, "nothing");
    else if (place->part == ALL_PARTS)
        snprintf(text, size, "%s block %d", names[place->buffer], place->block);
    else if (place->more > 0)
        snprintf(text, size, "%s block %d parts %d to %d", names[place->buffer], place->block, place->part,
                 place->part + place->more);
    else
        snprintf(text, size, "%s block %d part %d", names[place->buffer], place->block, place->part);
}

void step_describe(const struct step *step, int rank, int index, char *text, size_t size)
{
    char to[64], from[64], what[192] = "";
    place_describe(&step->to, to, sizeof to);
    place_describe(&step->from, from, sizeof from);
    switch (step->kind) {
    case STEP_COPY:
        if (step->from.buffer == BUFFER_WINDOW || step->peer != rank)
            snprintf(what, sizeof what, "copy %s from rank %d's %s", to, step->peer, from);
        else
            snprintf(what, sizeof what, "copy %s from %s", to, from);
        break;
    case STEP_PUT: snprintf(what, sizeof what, "put %s from %s", to, from); break;
    case STEP_SIGNAL: snprintf(what, sizeof what, "signal"); break;
    case STEP_WAIT:
        if (step->peer == ALL_RANKS)
            snprintf(what, sizeof what, "wait for all ranks' stage %d", step->wait_stage);
        else
            snprintf(what, sizeof what, "wait for rank %d's stage %d", step->peer, step->wait_stage);
        break;
    case STEP_REDUCE: snprintf(what, sizeof what, "reduce %s from all ranks' %s", to, from); break;
    case STEP_RUNNING:
        snprintf(what, sizeof what, "running reduce %s and on from %d ranks' %s", to, step->ranks, from);
        break;
    case STEP_WIDEN: snprintf(what, sizeof what, "widen %s from %s", to, from); break;
    case STEP_NARROW: snprintf(what, sizeof what, "narrow %s from %s", to, from); break;
    case STEP_SEND: snprintf(what, sizeof what, "send %s to rank %d", from, step->peer); break;
    case STEP_RECV: snprintf(what, sizeof what, "receive %s from rank %d", to, step->peer); break;
    case STEP_RECV_REDUCE:
        snprintf(what, sizeof what, "receive and reduce %s from rank %d", to, step->peer);
        break;
    }
    snprintf(text, size, "step %d of rank %d, stage %d (%s)", index, rank, step->stage, what);
}
