/* A caller's function runs on the thread that drives a world. What waits for that world's engine must not be
 * called from there, and what it calls belongs to no group that its thread has open. */
#ifndef PLAIT_CALLBACK_H
#define PLAIT_CALLBACK_H

#include <stdbool.h>

struct engine;
struct open_group;

struct callback_frame {
    const struct engine *engine; /* NULL: no world is driven */
    const struct callback_frame *outer;
    struct open_group *suspended; /* the thread's group, until the function is back */
};

/* Around a caller's function. */
void callback_enter(struct callback_frame *frame, const struct engine *engine);
void callback_leave(const struct callback_frame *frame);

/* Does this thread run a caller's function for `engine`? */
bool engine_calls_back(const struct engine *engine);

#endif
