/* The planners that planners[] lists; a file each, two for the direct and in-place ones. */
#ifndef PLAIT_COLLECTIVES_PLANNERS_H
#define PLAIT_COLLECTIVES_PLANNERS_H

#include "collectives/plan.h"

extern const struct planner planner_direct_one_shot;
extern const struct planner planner_direct_two_phase;
extern const struct planner planner_direct_running;
extern const struct planner planner_doubling;
extern const struct planner planner_halving;
extern const struct planner planner_ring;
extern const struct planner planner_tree;
extern const struct planner planner_chain;
extern const struct planner planner_pairwise;
extern const struct planner planner_hierarchy_doubling;
extern const struct planner planner_hierarchy_halving;
extern const struct planner planner_hierarchy_ring;
extern const struct planner planner_hierarchy_tree;
extern const struct planner planner_hierarchy_chain;
extern const struct planner planner_in_place_one_shot;
extern const struct planner planner_in_place_two_phase;

#endif
