#include "collectives/verify_machine.h"

#include <stdlib.h>

/* Lays the input over the output as plait.h says for each collective. */
static void lay_input(struct machine *machine, int rank, int inputs, int outputs)
{
    const struct plan *plan = machine->plan;
    size_t *first = machine->actors[rank].first, skip = (size_t)rank * block_cells(machine);
    bool same = plan->kind == COLLECTIVE_BROADCAST || machine->in_place;
    if (!same || plan_wants_apart(plan) || inputs == 0 || outputs == 0)
        return;
    if (inputs < outputs) /* all-gather, gather: input is a block of the output */
        first[BUFFER_INPUT] = first[BUFFER_OUTPUT] + skip;
    else if (inputs > outputs) /* reduce-scatter, scatter: the other way round */
        first[BUFFER_OUTPUT] = first[BUFFER_INPUT] + skip;
    else
        first[BUFFER_INPUT] = first[BUFFER_OUTPUT];
}

/* Gives each rank's buffers their cells; returns how many that makes. */
static size_t lay_cells(struct machine *machine)
{
    const struct plan *plan = machine->plan;
    size_t each = block_cells(machine), next = 0;
    for (int rank = 0; rank < plan->ranks; rank++) {
        size_t *first = machine->actors[rank].first;
        int inputs = collective_input_blocks(plan->kind, plan->ranks, plan->root, rank);
        int outputs = collective_output_blocks(plan->kind, plan->ranks, plan->root, rank);
        const int blocks[] = { 0, inputs, outputs, plan->work_blocks, plan->window_blocks };
        for (int buffer = BUFFER_INPUT; buffer <= BUFFER_WINDOW; buffer++) {
            first[buffer] = next;
            next += (size_t)blocks[buffer] * each;
        }
        lay_input(machine, rank, inputs, outputs);
    }
    return next;
}

static bool fill_inputs(struct machine *machine)
{
    const struct plan *plan = machine->plan;
    size_t each = block_cells(machine);
    for (int rank = 0; rank < plan->ranks; rank++) {
        int inputs = collective_input_blocks(plan->kind, plan->ranks, plan->root, rank);
        for (int block = 0; block < inputs; block++) {
            int value = value_input(&machine->values, rank, block);
            struct cell *cells =
                machine->cells + machine->actors[rank].first[BUFFER_INPUT] + (size_t)block * each;
            for (size_t i = 0; i < each && value; i++)
                cells[i].value = value;
            if (!value)
                return false;
        }
    }
    return true;
}

/* calloc() that never gives NULL for nothing. */
static void *room_for(size_t count, size_t size)
{
    return calloc(count ? count : 1, size);
}

/* What the steps need room for, over all chunks. */
struct needs {
    size_t transfers, values, clocks;
};

static struct needs count_needs(const struct machine *machine)
{
    struct needs needs = { 0 };
    for (int rank = 0; rank < machine->plan->ranks; rank++)
        for (int i = 0; i < machine->steps[rank].count; i++) {
            const struct step *step = &machine->steps[rank].steps[i];
            bool sends = step->kind == STEP_SEND;
            needs.values += sends ? (size_t)part_count(machine, &step->from) : 0;
            needs.clocks += step->kind == STEP_SIGNAL || (sends && machine_keeps_time(machine));
            needs.transfers += sends || step->kind == STEP_RECV || step->kind == STEP_RECV_REDUCE;
        }
    return needs;
}

static bool open_tables(struct machine *machine)
{
    size_t ranks = (size_t)machine->plan->ranks, chunks = (size_t)machine->chunks;
    struct needs needs = count_needs(machine);
    machine->message_room = 16;
    while (machine->message_room < 2 * needs.transfers * chunks)
        machine->message_room *= 2;
    machine->messages = room_for(machine->message_room, sizeof *machine->messages);
    machine->message_values = room_for(needs.values * chunks, sizeof *machine->message_values);
    machine->opens = room_for(needs.transfers, sizeof *machine->opens);
    machine->clocks = room_for(ranks * ranks, sizeof *machine->clocks);
    machine->kept = room_for(needs.clocks * chunks * ranks, sizeof *machine->kept);
    machine->signals = room_for(chunks * (size_t)machine->plan->stages * ranks, sizeof *machine->signals);
    return machine->messages && machine->message_values && machine->opens && machine->clocks &&
           machine->kept && machine->signals;
}

bool machine_open(struct machine *machine)
{
    int ranks = machine->plan->ranks;
    machine->actors = room_for((size_t)ranks, sizeof *machine->actors);
    if (!machine->actors || !values_open(&machine->values, ranks) || !open_tables(machine))
        return false;
    struct transfer_open *open = machine->opens;
    for (int rank = 0; rank < ranks; rank++) {
        machine->actors[rank].open = open;
        open += machine->steps[rank].transfers;
        machine->actors[rank].clock = machine->clocks + (size_t)rank * (size_t)ranks;
        machine->actors[rank].clock[rank] = 1;
    }
    size_t cells = lay_cells(machine);
    machine->cells = room_for(cells, sizeof *machine->cells);
    for (size_t i = 0; machine->cells && i < cells; i++)
        machine->cells[i].reads = -1;
    return machine->cells && fill_inputs(machine);
}

void machine_close(struct machine *machine)
{
    values_close(&machine->values);
    free(machine->cells);
    free(machine->actors);
    free(machine->opens);
    free(machine->clocks);
    free(machine->reads);
    free(machine->messages);
    free(machine->message_values);
    free(machine->signals);
    free(machine->kept);
}
