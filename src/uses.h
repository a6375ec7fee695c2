/* Who uses some memory: asked by any thread, answered by the driver, who alone knows the works. */
#ifndef PLAIT_USES_H
#define PLAIT_USES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { USE_TEXT_BYTES = 256 };

struct engine;

struct use_question {
    const void *memory;
    size_t size;
    bool used;
    char use[USE_TEXT_BYTES]; /* "the all-reduce of 1024 f32, sum, of communicator world" */
    _Atomic bool answered;
};

/* Is any of these bytes a buffer of a work that is not done? */
bool uses_find(struct engine *engine, const void *memory, size_t size, char use[USE_TEXT_BYTES]);

/* Answers the question that waits, if one does. The driver's. */
void uses_answer(struct engine *engine);

#endif
