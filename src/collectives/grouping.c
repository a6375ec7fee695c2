#include "collectives/grouping.h"

#include <stdlib.h>

/* The group of the first rank that has the colour of `rank`; a new one if that is the rank itself. */
static int group_for(const struct grouping *groups, const int *colours, int rank)
{
    int same = 0;
    while (colours[same] != colours[rank])
        same++;
    return same < rank ? groups->group[same] : groups->count;
}

/* Gives each group its run of `members`, and each rank its place there. */
static void seat_members(struct grouping *groups)
{
    int next = 0;
    groups->least = groups->ranks;
    for (int group = 0; group < groups->count; group++) {
        groups->first[group] = next;
        for (int rank = 0; rank < groups->ranks; rank++) {
            if (groups->group[rank] != group)
                continue;
            groups->place[rank] = next - groups->first[group];
            groups->members[next++] = rank;
        }
        int size = next - groups->first[group];
        groups->least = size < groups->least ? size : groups->least;
        groups->most = size > groups->most ? size : groups->most;
    }
    groups->first[groups->count] = next;
}

struct grouping *grouping_make(const int *colours, int ranks)
{
    size_t count = (size_t)ranks;
    struct grouping *groups = calloc(1, sizeof *groups + (4 * count + 1) * sizeof(int));
    if (groups == NULL)
        return NULL;
    groups->ranks = ranks;
    groups->group = (int *)(groups + 1);
    groups->place = groups->group + count;
    groups->members = groups->place + count;
    groups->first = groups->members + count;
    for (int rank = 0; rank < ranks; rank++) {
        groups->group[rank] = group_for(groups, colours, rank);
        groups->count += groups->group[rank] == groups->count;
    }
    seat_members(groups);
    return groups;
}
