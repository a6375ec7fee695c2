/* The v-forms: collectives whose blocks differ in length. */
#include "base/handle.h"
#include "base/status.h"
#include "calls.h"
#include "group_calls.h"
#include "layout.h"

static const struct layout_given nothing = { .blocks = 0 };

/* A side of one block. */
static struct layout_given one_block(const size_t *count)
{
    return (struct layout_given){ .counts = count, .counts_name = "count", .blocks = 1 };
}

/* Checks what every v-form has, lays it out, and runs or starts it. */
static plait_status carry_out(struct comm *comm, struct call *call, const struct layout_given *input,
                              const struct layout_given *output, plait_work **work, const char *function)
{
    plait_status status = layout_make(comm, call, input, output, function);
    return status == PLAIT_OK ? calls_carry_out(comm, call, work) : group_spoil(status);
}

/* What a rank says of its own block must be what its counts say of it. */
static plait_status check_own(const struct comm *comm, const size_t *counts, size_t own, const char *function)
{
    int rank = comm->group.rank;
    if (counts != NULL && counts[rank] != own)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: count is %zu and counts[%d], which is this rank's, is %zu", function, own, rank,
                       counts[rank]);
    return PLAIT_OK;
}

plait_status plait_allgatherv(plait_comm *handle, const void *input, size_t count, void *output,
                              const size_t *counts, const size_t *displacements, plait_type type,
                              plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_ALLGATHER, .type = type, .input = input, .output = output };
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return group_spoil(handle_refusal(handle));
    plait_status status = calls_check(comm, &call, __func__);
    if (status == PLAIT_OK)
        status = check_own(comm, counts, count, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given from = one_block(&count);
    const struct layout_given to = { counts, displacements, "counts", "displacements", comm->group.ranks };
    return carry_out(comm, &call, &from, &to, work, __func__);
}

plait_status plait_reduce_scatterv(plait_comm *handle, const void *input, void *output, const size_t *counts,
                                   plait_type type, plait_op op, plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_REDUCE_SCATTER, .type = type, .op = op, .input = input, .output = output
    };
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return group_spoil(handle_refusal(handle));
    plait_status status = calls_check(comm, &call, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given from = { counts, NULL, "counts", "", comm->group.ranks };
    const struct layout_given to = counts != NULL ? one_block(&counts[comm->group.rank]) : nothing;
    return carry_out(comm, &call, &from, &to, work, __func__);
}

plait_status plait_gatherv(plait_comm *handle, const void *input, size_t count, void *output,
                           const size_t *counts, const size_t *displacements, plait_type type, int root,
                           plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_GATHER, .type = type, .root = root, .input = input, .output = output
    };
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return group_spoil(handle_refusal(handle));
    plait_status status = calls_check(comm, &call, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given from = one_block(&count);
    if (comm->group.rank != root) {
        call.output = NULL;
        return carry_out(comm, &call, &from, &nothing, work, __func__);
    }
    status = check_own(comm, counts, count, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given to = { counts, displacements, "counts", "displacements", comm->group.ranks };
    return carry_out(comm, &call, &from, &to, work, __func__);
}

plait_status plait_scatterv(plait_comm *handle, const void *input, const size_t *counts,
                            const size_t *displacements, void *output, size_t count, plait_type type,
                            int root, plait_work **work)
{
    struct call call = {
        .kind = COLLECTIVE_SCATTER, .type = type, .root = root, .input = input, .output = output
    };
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return group_spoil(handle_refusal(handle));
    plait_status status = calls_check(comm, &call, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given to = one_block(&count);
    if (comm->group.rank != root) {
        call.input = NULL;
        return carry_out(comm, &call, &nothing, &to, work, __func__);
    }
    status = check_own(comm, counts, count, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    const struct layout_given from = { counts, displacements, "counts", "displacements", comm->group.ranks };
    return carry_out(comm, &call, &from, &to, work, __func__);
}

plait_status plait_alltoallv(plait_comm *handle, const void *input, const size_t *input_counts,
                             const size_t *input_displacements, void *output, const size_t *output_counts,
                             const size_t *output_displacements, plait_type type, plait_work **work)
{
    struct call call = { .kind = COLLECTIVE_ALLTOALL, .type = type, .input = input, .output = output };
    struct comm *comm = comm_find(handle, __func__);
    if (comm == NULL)
        return group_spoil(handle_refusal(handle));
    plait_status status = calls_check(comm, &call, __func__);
    if (status != PLAIT_OK)
        return group_spoil(status);
    int ranks = comm->group.ranks, rank = comm->group.rank;
    if (input_counts != NULL && output_counts != NULL && input_counts[rank] != output_counts[rank])
        return group_spoil(failure(PLAIT_INVALID_ARGUMENT,
                                   "%s: this rank sends itself %zu elements (input_counts[%d]) and expects "
                                   "%zu (output_counts[%d])",
                                   __func__, input_counts[rank], rank, output_counts[rank], rank));
    const struct layout_given from = { input_counts, input_displacements, "input_counts",
                                       "input_displacements", ranks };
    const struct layout_given to = { output_counts, output_displacements, "output_counts",
                                     "output_displacements", ranks };
    return carry_out(comm, &call, &from, &to, work, __func__);
}
