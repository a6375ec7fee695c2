#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "collectives/cost.h"
#include "collectives/grouping.h"
#include "collectives/plan.h"

/* Once a process and kind: a setting that fits some collectives only is not a fault. */
static void warn_once(enum collective kind, int ranks, const char *forced, const struct plan *instead)
{
    static atomic_uint warned;
    unsigned bit = 1u << (unsigned)kind;
    if (!(atomic_fetch_or(&warned, bit) & bit))
        log_warn("the plan \"%s\" was asked for, but it can't do %s of %d ranks here; %s does it instead",
                 forced, collective_name(kind), ranks, instead->planner->name);
}

static enum fold_order folds(const struct planner *planner, enum collective kind, int root)
{
    return planner->folds != NULL ? planner->folds(kind, root) : FOLDS_ANYHOW;
}

/* The cheapest of the planners called `name` (NULL: of all) that work in place, or don't; its planner is
 * NULL if none serves. */
static struct plan cheapest(enum collective kind, int ranks, int root, size_t block_size,
                            const struct cost_facts *facts, const char *name, bool in_place)
{
    struct plan best = { .planner = NULL };
    double least = 0;
    for (const struct planner *const *planner = planners; *planner; planner++) {
        if ((name && !planner_answers(*planner, name)) || ((*planner)->shows != NULL) != in_place)
            continue;
        if (!(*planner)->serves(kind, ranks) || ((*planner)->needs_windows && !facts->windows && ranks > 1))
            continue;
        if ((*planner)->needs_groups && !grouping_matters(facts->groups))
            continue;
        if (folds(*planner, kind, root) < facts->order)
            continue;
        struct plan plan = plan_make_for(*planner, kind, ranks, root, facts->groups);
        double cost = cost_plan(&plan, facts, block_size);
        if (cost < 0) /* no memory to tell; who chose without would choose another than its peers */
            return (struct plan){ .planner = NULL };
        if (!best.planner || cost < least) {
            best = plan;
            least = cost;
        }
    }
    return best;
}

bool plan_means_in_place(const char *name)
{
    const struct planner *planner = planner_find(name);
    return planner && planner->shows != NULL;
}

/* The choice that no measurement can change: by what is the same wherever so many ranks run; and of plans
 * that fold from the left, all of which give the same bits, where there are any. */
static struct plan choose_deterministic(enum collective kind, int ranks, int root, size_t block_size,
                                        const struct cost_facts *facts)
{
    struct cost_facts fixed = { .ranks = ranks, .windows = facts->windows, .order = facts->order };
    if (collective_reduces(kind))
        fixed.order = FOLDS_LEFT;
    struct plan plan = cheapest(kind, ranks, root, block_size, &fixed, NULL, false);
    fixed.order = facts->order;
    return plan.planner ? plan : cheapest(kind, ranks, root, block_size, &fixed, NULL, false);
}

struct plan plan_choose(enum collective kind, int ranks, int root, size_t block_size,
                        const struct cost_facts *facts, const char *forced)
{
    if (forced && strcmp(forced, "deterministic") == 0)
        return choose_deterministic(kind, ranks, root, block_size, facts);
    if (forced && (strcmp(forced, "auto") == 0 || plan_means_in_place(forced)))
        forced = NULL;
    struct plan plan = { .planner = NULL };
    if (forced)
        plan = cheapest(kind, ranks, root, block_size, facts, forced, false);
    if (plan.planner)
        return plan;
    plan = cheapest(kind, ranks, root, block_size, facts, NULL, false);
    if (forced && ranks > 1 && plan.planner)
        warn_once(kind, ranks, forced, &plan);
    return plan;
}

struct plan plan_choose_in_place(const struct plan *staged, size_t block_size, const struct cost_facts *facts,
                                 const char *forced)
{
    if (forced && (strcmp(forced, "auto") == 0 || strcmp(forced, "deterministic") == 0))
        forced = NULL; /* they fold from the left, too */
    /* Buffers are read in place where there are windows, even if none is large enough for this plan. */
    struct cost_facts reading = *facts;
    reading.windows = true;
    struct plan plan =
        cheapest(staged->kind, staged->ranks, staged->root, block_size, &reading, forced, true);
    if (plan.planner && !forced &&
        cost_plan(&plan, &reading, block_size) >= cost_plan(staged, facts, block_size))
        plan.planner = NULL;
    return plan;
}
