/* Teams: the ranks that take part in one phase of a plan. Planners lay their steps for a team, which may be all
 * ranks, those of one group, or one rank of each group; so a plan of several phases is made of those that
 * stand alone. */
#ifndef PLAIT_COLLECTIVES_TEAM_H
#define PLAIT_COLLECTIVES_TEAM_H

#include "collectives/cost.h"
#include "collectives/grouping.h"
#include "collectives/script.h"

struct team {
    int size, place;               /* of this rank: 0 .. size - 1 */
    const struct grouping *groups; /* NULL: all ranks, in their order */
    int inside;                    /* the members of this group; -1: one of each group, of which ... */
    int rail;                      /* ... this place takes part, */
    int root;                      /* but in this rank's group that rank itself; -1: no such group */
};

/* The rank at `place`, which counts on round the team; -size <= place < 2 size. */
static inline int team_rank(const struct team *team, int place)
{
    place = (place + team->size) % team->size;
    if (team->groups == NULL)
        return place;
    if (team->inside >= 0)
        return grouping_rank(team->groups, team->inside, place);
    if (team->root >= 0 && team->groups->group[team->root] == place)
        return team->root;
    return grouping_rank(team->groups, place, team->rail);
}

static inline struct team team_of_all(const struct plan *plan, int rank)
{
    return (struct team){ .size = plan->ranks, .place = rank };
}

static inline struct team team_inside(const struct plan *plan, int rank)
{
    int group = plan->groups->group[rank];
    return (struct team){ .size = grouping_size(plan->groups, group),
                          .place = plan->groups->place[rank],
                          .groups = plan->groups,
                          .inside = group };
}

/* `rank` takes part: it is at place `rail` of its group, or the root. */
static inline struct team team_between(const struct plan *plan, int rank, int rail, int root)
{
    return (struct team){ .size = plan->groups->count,
                          .place = plan->groups->group[rank],
                          .groups = plan->groups,
                          .inside = -1,
                          .rail = rail,
                          .root = root };
}

/* How `ranks` become a power of two: of the first 2 * extra ranks each even one hands its
 * value to the odd one after it, which takes part for both. Places are numbered in the
 * order of ranks, so what a place has is always from a run of neighbouring ranks. */
struct fold {
    int rounds, extra;
};

static inline struct fold fold_of(int ranks)
{
    int rounds = log_floor(ranks);
    return (struct fold){ .rounds = rounds, .extra = ranks - (1 << rounds) };
}

static inline int fold_rank(struct fold fold, int place)
{
    return place < fold.extra ? 2 * place + 1 : place + fold.extra;
}

/* -1 for a rank that has handed its value on. */
static inline int fold_place(struct fold fold, int rank)
{
    if (rank >= 2 * fold.extra)
        return rank - fold.extra;
    return rank % 2 ? rank / 2 : -1;
}

/* What planners lay for a team, from stage `stage` on. All-reduces of some parts from `first` on, which WORK's
 * first block holds widened, or which the ring widens itself where they are `fresh`: the result is in OUTPUT. */

/* A part for each place; 2 (size - 1) stages. */
void ring_lay_team(const struct team *team, int stage, int first, bool fresh, struct script *script);

/* All parts, by way of WORK's second block; doubling_stages() of them. */
void doubling_lay_team(const struct team *team, int stage, struct script *script);
int doubling_stages(int size);
/* A barrier; log_ceiling(size) stages. */
void doubling_lay_barrier(const struct team *team, int stage, struct script *script);

/* halving_parts() parts; halving_stages() stages. */
void halving_lay_team(const struct team *team, int stage, int first, struct script *script);
int halving_parts(int size);
int halving_stages(int size);

/* To or from place `root`, a block that is held in `held`: sums of WORK, where a later place is a later operand;
 * log_ceiling(size) stages. */
void tree_lay_reduce(const struct team *team, int root, int stage, struct place held, struct script *script);
void tree_lay_broadcast(const struct team *team, int root, int stage, struct place held,
                        struct script *script);
/* The same; size - 1 stages. */
void chain_lay_reduce(const struct team *team, int root, int stage, struct place held, struct script *script);
void chain_lay_broadcast(const struct team *team, int root, int stage, struct place held,
                         struct script *script);

#endif
