/* Plait on the common loop. */
#include <stdio.h>

#include "loop.h"
#include "plait.h"

static plait_world *world;
static plait_comm *comm;

static bool succeeded(plait_status status)
{
    if (status != PLAIT_OK)
        fprintf(stderr, "compare: plait: %s: %s\n", plait_status_name(status), plait_last_error());
    return status == PLAIT_OK;
}

static bool start(int *argc, char ***argv, int *rank, int *ranks)
{
    (void)argc, (void)argv;
    if (!succeeded(plait_world_create(NULL, &world)))
        return false;
    comm = plait_world_comm(world);
    *rank = plait_world_rank(world);
    *ranks = plait_world_size(world);
    return true;
}

static bool collective(const struct call *call)
{
    plait_type type = call->type == FLOAT32 ? PLAIT_F32 : PLAIT_BF16;
    switch (call->collective) {
    case ALL_REDUCE:
        return succeeded(
            plait_allreduce(comm, call->input, call->output, call->count, type, PLAIT_SUM, NULL));
    case ALL_GATHER:
        return succeeded(plait_allgather(comm, call->input, call->output, call->count, type, NULL));
    case BROADCAST:
        return succeeded(plait_broadcast(comm, call->output, call->count, type, call->root, NULL));
    case REDUCE_SCATTER: {
        /* In place, the block stays where it was in the input. */
        char *own =
            (char *)call->output + (size_t)plait_comm_rank(comm) * call->count * type_size(call->type);
        return succeeded(plait_reduce_scatter(comm, call->input, own, call->count, type, PLAIT_SUM, NULL));
    }
    case ALL_TO_ALL:
        return succeeded(plait_alltoall(comm, call->input, call->output, call->count, type, NULL));
    default: return succeeded(plait_barrier(comm, NULL));
    }
}

static bool can(enum collective which, enum type type, enum memory memory)
{
    (void)which, (void)type, (void)memory;
    return true;
}

static void *allocate(size_t size)
{
    void *memory = NULL;
    return succeeded(plait_mem_alloc(world, size, &memory)) ? memory : NULL;
}

static void release(void *memory)
{
    succeeded(plait_mem_free(world, memory));
}

static void finish(void)
{
    plait_world_destroy(world);
}

int main(int argc, char **argv)
{
    static const struct backend backend = {
        .name = "plait",
        .start = start,
        .version = plait_version,
        .can = can,
        .collective = collective,
        .allocate = allocate,
        .release = release,
        .finish = finish,
    };
    return loop_run(&backend, argc, argv);
}
