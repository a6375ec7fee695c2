/* Groups: which ranks are near each other (on one host, or at one cache), so that plans can keep bytes where
 * they are cheap. Every rank belongs to one group; groups are numbered by their first ranks, and
 * the members of a group, its *places*, are in the order of ranks. */
#ifndef PLAIT_COLLECTIVES_GROUPING_H
#define PLAIT_COLLECTIVES_GROUPING_H

#include <stdbool.h>
#include <stddef.h>

struct grouping {
    int ranks, count; /* of groups */
    int least, most;  /* ranks of the smallest and of the largest group */
    int *group;       /* of each rank */
    int *place;       /* in its group, of each rank */
    int *first;       /* of each group, in `members`; count + 1 of them */
    int *members;     /* ranks, group by group */
};

/* Ranks of one colour are a group; colours are any numbers. One block to free(); NULL without memory. */
struct grouping *grouping_make(const int *colours, int ranks);

static inline int grouping_size(const struct grouping *groups, int group)
{
    return groups->first[group + 1] - groups->first[group];
}

static inline int grouping_rank(const struct grouping *groups, int group, int place)
{
    return groups->members[groups->first[group] + place];
}

/* Is there anything to gain from the groups: several, of which some have several ranks? */
static inline bool grouping_matters(const struct grouping *groups)
{
    return groups != NULL && groups->count > 1 && groups->most > 1;
}

#endif
