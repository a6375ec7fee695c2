#include "collectives/verify.h"

#include <stdlib.h>

#include "collectives/verify_machine.h"

static plait_status check_shape(const struct plan *plan, int chunks)
{
    if (plan->ranks < 1 || plan->root < 0 || plan->root >= plan->ranks || plan->parts < 1 ||
        plan->stages < 1 || plan->window_blocks < 0 || plan->work_blocks < 0 || chunks < 1)
        return failure(PLAIT_INTERNAL,
                       "%s by %s can't be: %d ranks, root %d, %d parts, %d stages, %d window blocks, %d work "
                       "blocks, %d chunks",
                       collective_name(plan->kind), plan->planner->name, plan->ranks, plan->root, plan->parts,
                       plan->stages, plan->window_blocks, plan->work_blocks, chunks);
    return PLAIT_OK;
}

/* Lays the steps of all ranks. */
static plait_status lay_all(const struct plan *plan, struct actor_steps *actors)
{
    for (int rank = 0; rank < plan->ranks; rank++) {
        struct actor_steps *actor = &actors[rank];
        int count = plan_steps(plan, rank);
        actor->steps = calloc(count > 0 ? (size_t)count : 1, sizeof *actor->steps);
        actor->stage_first = calloc((size_t)plan->stages + 1, sizeof *actor->stage_first);
        if (!actor->steps || !actor->stage_first)
            return machine_no_memory(plan);
        actor->count = plan_lay(plan, rank, actor->steps, count);
    }
    return PLAIT_OK;
}

/* With the buffers apart or in place. */
static plait_status run(const struct plan *plan, const struct actor_steps *actors, int chunks, bool in_place)
{
    struct machine machine = { .plan = plan, .steps = actors, .chunks = chunks, .in_place = in_place };
    plait_status status = machine_open(&machine) ? PLAIT_OK : machine_no_memory(plan);
    if (status == PLAIT_OK)
        status = machine_run(&machine);
    if (status == PLAIT_OK)
        status = machine_check(&machine);
    machine_close(&machine);
    return status;
}

plait_status plan_verify(const struct plan *plan, int chunks)
{
    plait_status status = check_shape(plan, chunks);
    if (status != PLAIT_OK)
        return status;
    struct actor_steps *actors = calloc((size_t)plan->ranks, sizeof *actors);
    if (!actors)
        return machine_no_memory(plan);

    status = lay_all(plan, actors);
    if (status == PLAIT_OK)
        status = verify_rules(plan, actors);
    if (status == PLAIT_OK)
        status = run(plan, actors, chunks, false);
    if (status == PLAIT_OK)
        status = run(plan, actors, chunks, true);

    for (int rank = 0; rank < plan->ranks; rank++) {
        free(actors[rank].steps);
        free(actors[rank].stage_first);
    }
    free(actors);
    return status;
}
