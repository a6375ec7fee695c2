/* What the hierarchical planners share. Each composes what stands alone: inside the groups, between them, inside
 * again; so that between groups goes no more than if each were one rank. */
#ifndef PLAIT_COLLECTIVES_HIERARCHY_H
#define PLAIT_COLLECTIVES_HIERARCHY_H

#include "collectives/cost.h"
#include "collectives/planners.h"
#include "collectives/team.h"

/* Reduce-scatter and all-gather of hierarchy-ring (hierarchy_blocks.c). */
void hierarchy_blocks_shape(struct plan *plan);
void hierarchy_blocks_lay(const struct plan *plan, int rank, struct script *script);

/* All of them ask the model of messages in and between groups. */
static inline double hierarchy_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    struct cost_facts grouped = *facts;
    grouped.groups = plan->groups;
    size_t chunk;
    return cost_messages(plan, &grouped, size, &chunk);
}

#endif
