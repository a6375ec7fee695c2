/* Lowering: a plan's steps for one rank, written out once and kept by the
 * communicator for each kind, size class and root. */
#ifndef PLAIT_COLLECTIVES_LOWER_H
#define PLAIT_COLLECTIVES_LOWER_H

#include "collectives/group.h"
#include "fault/call.h"

struct program {
    struct plan plan;
    struct program *next;     /* same kind and size class, another root or order */
    struct program *in_place; /* instead, where buffers can be read in place; NULL: never */
    bool ordered;             /* ranks are folded in their order */
    size_t target;            /* bytes of a block that a chunk should have */
    int messages;             /* transfers that one chunk starts on this rank */
    int *stage_first;         /* index of each stage's first step; stages + 1 of them */
    struct step steps[];
};

/* The program for `call`, from the cache or made now; NULL when out of memory
 * or, where plans are proved, when the plan is wrong: the sentence says so and *status tells. */
const struct program *program_for(struct group *group, const struct call *call, plait_status *status);

#endif
