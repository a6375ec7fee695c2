#include "callback.h"

#include <stddef.h>

#include "group_calls.h"

static _Thread_local const struct callback_frame *innermost;

void callback_enter(struct callback_frame *frame, const struct engine *engine)
{
    *frame = (struct callback_frame){ .engine = engine, .outer = innermost, .suspended = group_suspend() };
    innermost = frame;
}

void callback_leave(const struct callback_frame *frame)
{
    innermost = frame->outer;
    group_resume(frame->suspended);
}

bool engine_calls_back(const struct engine *engine)
{
    for (const struct callback_frame *frame = innermost; frame != NULL; frame = frame->outer)
        if (frame->engine == engine)
            return true;
    return false;
}
