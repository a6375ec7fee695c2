#include "uses.h"

#include <stdio.h>
#include <time.h>

#include "engine.h"
#include "work.h"
#include "world.h"

static bool touches(const struct use_question *question, const void *buffer, size_t size)
{
    uintptr_t first = (uintptr_t)buffer, asked = (uintptr_t)question->memory;
    return size > 0 && first < asked + question->size && asked < first + size;
}

/* Bytes from a buffer's start to the end of its last block. */
static size_t extent(const struct call *call, enum layout_side side, int blocks)
{
    size_t end = (size_t)blocks * call->count;
    if (call->layout != NULL) {
        end = 0;
        for (int i = 0; i < blocks; i++) {
            struct span block = layout_block(call->layout, side, i);
            end = block.first + block.count > end ? block.first + block.count : end;
        }
    }
    return end * plait_type_size(call->type);
}

static void note_collective(struct use_question *question, const struct work *work)
{
    const struct group *group = &work->comm->group;
    const struct call *call = work->begun ? execution_call(&work->execution) : &work->execution.call;
    int inputs = collective_input_blocks(call->kind, group->ranks, call->root, group->rank);
    int outputs = collective_output_blocks(call->kind, group->ranks, call->root, group->rank);
    if (!touches(question, call->input, extent(call, LAYOUT_INPUT, inputs)) &&
        !touches(question, call->output, extent(call, LAYOUT_OUTPUT, outputs)))
        return;
    char text[CALL_TEXT_BYTES];
    call_describe(call, text);
    question->used = true;
    snprintf(question->use, sizeof question->use, "the %s of communicator %s", text, work->comm->name);
}

static void note_work(struct use_question *question, const struct work *work)
{
    if (question->used || work->kind == WORK_GROUP || work_status(work) != PLAIT_IN_PROGRESS)
        return;
    if (work->kind == WORK_COLLECTIVE) {
        note_collective(question, work);
    } else if (touches(question, work->transfer.data, work->transfer.size)) {
        question->used = true;
        snprintf(question->use, sizeof question->use, "a %s of %zu bytes of communicator %s",
                 work->kind == WORK_SEND ? "send" : "receive", work->transfer.size, work->comm->name);
    }
}

void uses_answer(struct engine *engine)
{
    struct use_question *question = atomic_exchange(&engine->question, NULL);
    if (question == NULL)
        return;
    pthread_mutex_lock(&engine->lock);
    for (const struct work *work = engine->incoming; work != NULL; work = work->next)
        note_work(question, work);
    pthread_mutex_unlock(&engine->lock);
    for (const struct comm *comm = engine->busy; comm != NULL; comm = comm->next_busy)
        for (const struct work *work = comm->first; work != NULL; work = work->next)
            note_work(question, work);
    for (const struct work *work = engine->messages; work != NULL; work = work->next)
        note_work(question, work);
    atomic_store(&question->answered, true);
}

bool uses_find(struct engine *engine, const void *memory, size_t size, char use[USE_TEXT_BYTES])
{
    struct use_question question = { .memory = memory, .size = size };
    atomic_store(&engine->question, &question);
    atomic_store(&engine->alarm, true);
    if (engine_calls_back(engine)) /* this thread is the driver */
        uses_answer(engine);
    else
        for (engine_nudge(engine); !atomic_load(&question.answered); engine_nudge(engine))
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    snprintf(use, USE_TEXT_BYTES, "%s", question.use);
    return question.used;
}
