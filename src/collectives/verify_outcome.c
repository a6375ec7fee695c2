/* What must have come of it: each collective's meaning, as plait.h has it. */
#include <stdio.h>
#include <string.h>

#include "collectives/verify_machine.h"

/* The rank and block of the input that belongs into an output block of a collective that reduces nothing. */
static void wanted_input(const struct plan *plan, int rank, int block, int *from, int *from_block)
{
    bool blocks_are_ranks = plan->kind == COLLECTIVE_ALLGATHER || plan->kind == COLLECTIVE_GATHER ||
                            plan->kind == COLLECTIVE_ALLTOALL;
    *from = blocks_are_ranks ? block : plan->root;
    *from_block = plan->kind == COLLECTIVE_ALLTOALL || plan->kind == COLLECTIVE_SCATTER ? rank : 0;
}

/* Is `value` what output block `block` of `rank` should hold? `why` says what it is. */
static bool value_right(struct machine *machine, int rank, int block, int value, char *why, size_t size)
{
    const struct plan *plan = machine->plan;
    int from = rank, from_block = 0, missing = 0;
    value_describe(&machine->values, value, why, size);
    if (value == 0)
        return false;
    if (!collective_reduces(plan->kind)) {
        wanted_input(plan, rank, block, &from, &from_block);
        const struct value *held = &machine->values.all[value];
        return held->kind == VALUE_INPUT && held->left == from && held->right == from_block;
    }
    if (machine->values.all[value].kind != VALUE_RESULT && plan->ranks > 1)
        return false;
    if (machine->values.all[value].block != (plan->kind == COLLECTIVE_REDUCE_SCATTER ? rank : 0))
        return false;
    int ranks = plan->kind == COLLECTIVE_SCAN     ? rank + 1
                : plan->kind == COLLECTIVE_EXSCAN ? rank
                                                  : plan->ranks;
    bool complete = value_complete(&machine->values, value, ranks, &missing);
    size_t length = strlen(why);
    if (!complete)
        snprintf(why + length, size - length, " with%s rank %d's", missing < ranks ? "out" : "", missing);
    else if (collective_scans(plan->kind) && !value_in_order(&machine->values, value))
        snprintf(why + length, size - length, " not in the order of ranks");
    else
        return true;
    return false;
}

static plait_status check_output(struct machine *machine, int rank, int block)
{
    const struct place place = { .buffer = BUFFER_OUTPUT, .block = block, .part = ALL_PARTS };
    char plan_text[96], why[128];
    plan_describe(machine->plan, plan_text, sizeof plan_text);
    for (int chunk = 0; chunk < machine->chunks; chunk++) {
        const struct doing doing = { .machine = machine, .rank = rank, .chunk = chunk };
        for (int part = 0; part < machine->plan->parts; part++) {
            int value = cell_at(&doing, rank, &place, part)->value;
            if (!value_right(machine, rank, block, value, why, sizeof why))
                return failure(
                    PLAIT_INTERNAL,
                    "%s is wrong on rank %d after its last step: output block %d part %d of chunk %d "
                    "holds %s (%s)",
                    plan_text, rank, block, part, chunk, why,
                    machine->in_place ? "in place" : "buffers apart");
            if (machine->plan->kind == COLLECTIVE_ALLREDUCE &&
                value != cell_at(&doing, 0, &place, part)->value)
                return failure(
                    PLAIT_INTERNAL,
                    "%s is wrong on rank %d after its last step: part %d was folded in another order "
                    "than rank 0's",
                    plan_text, rank, part);
        }
    }
    return PLAIT_OK;
}

/* A barrier's outcome is order: nobody is through before all have come. */
static plait_status check_barrier(const struct machine *machine, int rank)
{
    for (int other = 0; other < machine->plan->ranks; other++)
        if (machine->actors[rank].clock[other] == 0)
            return failure(
                PLAIT_INTERNAL,
                "barrier of %d ranks by %s is wrong on rank %d after its last step: nothing tells it that "
                "rank %d has come",
                machine->plan->ranks, machine->plan->planner->name, rank, other);
    return PLAIT_OK;
}

/* What a rank gives back to its caller must not be read any more, as far as that rank can know. */
static plait_status check_let_go(struct machine *machine, int rank, enum buffer buffer, int blocks)
{
    const struct plan *plan = machine->plan;
    char plan_text[96];
    plan_describe(plan, plan_text, sizeof plan_text);
    for (int at = 0; at < blocks * machine->chunks; at++) {
        const struct place place = { .buffer = buffer, .block = at / machine->chunks, .part = ALL_PARTS };
        const struct doing doing = { .machine = machine, .rank = rank, .chunk = at % machine->chunks };
        for (int part = 0; part < plan->parts; part++)
            for (int i = cell_at(&doing, rank, &place, part)->reads; i >= 0; i = machine->reads[i].next)
                if (machine->actors[rank].clock[machine->reads[i].rank] < machine->reads[i].time)
                    return failure(
                        PLAIT_INTERNAL,
                        "%s is wrong on rank %d after its last step: rank %d may still be reading its "
                        "%s block %d (%s)",
                        plan_text, rank, machine->reads[i].rank, buffer == BUFFER_INPUT ? "input" : "output",
                        place.block, machine->in_place ? "in place" : "buffers apart");
    }
    return PLAIT_OK;
}

plait_status machine_check(struct machine *machine)
{
    const struct plan *plan = machine->plan;
    for (int rank = 0; rank < plan->ranks; rank++) {
        int blocks = collective_output_blocks(plan->kind, plan->ranks, plan->root, rank);
        for (int block = 0; block < blocks; block++) {
            plait_status status = check_output(machine, rank, block);
            if (status != PLAIT_OK)
                return status;
        }
        int inputs = collective_input_blocks(plan->kind, plan->ranks, plan->root, rank);
        plait_status let_go = check_let_go(machine, rank, BUFFER_INPUT, inputs);
        if (let_go == PLAIT_OK)
            let_go = check_let_go(machine, rank, BUFFER_OUTPUT, blocks);
        if (let_go != PLAIT_OK)
            return let_go;
        if (plan->kind == COLLECTIVE_BARRIER) {
            plait_status status = check_barrier(machine, rank);
            if (status != PLAIT_OK)
                return status;
        }
    }
    return PLAIT_OK;
}
