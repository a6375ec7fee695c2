/* Layouts as callers give them: the counts and displacements of v-forms, checked. */
#ifndef PLAIT_LAYOUT_H
#define PLAIT_LAYOUT_H

#include "fault/call.h"
#include "world.h"

/* What a caller says of one side; what it is called there is for sentences. */
struct layout_given {
    const size_t *counts;        /* one a block */
    const size_t *displacements; /* likewise; NULL: blocks follow each other */
    const char *counts_name, *displacements_name;
    int blocks; /* 0: this rank has no such buffer, and nothing is looked at */
};

/* Makes the layout of `call`, whose kind, type and root are known to be good, in the communicator's own scratch,
 * and notes it in the call; with it the longest block that is known and whether buffers are fit for it.
 * `function` is for the sentence. */
plait_status layout_make(struct comm *comm, struct call *call, const struct layout_given *input,
                         const struct layout_given *output, const char *function);

#endif
