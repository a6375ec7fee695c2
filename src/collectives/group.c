#include "collectives/group.h"

#include <stdlib.h>

#include "collectives/letters.h"
#include "collectives/lower.h"
#include "collectives/stores.h"

void group_note_line(struct group *group, double line_ns)
{
    group->far = line_ns > FAR_LINE_NS;
    group->streamed = stores_streamed(group->stores, line_ns);
}

static void free_programs(struct program *program)
{
    while (program != NULL) {
        struct program *next = program->next;
        free(program->in_place);
        free(program);
        program = next;
    }
}

void group_forget_plans(struct group *group)
{
    for (int kind = 0; kind < COLLECTIVES; kind++) {
        for (int size = 0; size < SIZE_CLASSES; size++) {
            free_programs(group->programs[kind][size]);
            group->programs[kind][size] = NULL;
        }
    }
}

void group_clear(struct group *group)
{
    group_forget_plans(group);
    group->facts.groups = NULL;
    free(group->groups);
    group->groups = NULL;
    free(group->transfers);
    free(group->work);
    free(group->sources);
    free(group->gathered);
    free(atomic_load(&group->profile));
    free(group->exchange);
    free(group->staging.base);
    free(group->shown);
    letters_free(group->letters);
    group->letters = NULL;
    group->transfers = NULL;
    group->transfer_room = 0;
    group->work = NULL;
    group->work_size = 0;
    group->sources = NULL;
    group->gathered = NULL;
    atomic_store(&group->profiling, NULL);
    atomic_store(&group->profile, NULL);
    group->exchange = NULL;
    group->staging.base = NULL;
    group->shown = NULL;
}
