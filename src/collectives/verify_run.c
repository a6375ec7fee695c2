/* Running a plan on symbols: all ranks in turn, each as far as it can get. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/verify_machine.h"

static plait_status wrong(const struct doing *doing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static plait_status wrong(const struct doing *doing, const char *format, ...)
{
    char rule[192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return verify_wrong(doing->machine->plan, doing->rank, doing->index, doing->step, "%s (chunk %d, %s)",
                        rule, doing->chunk, doing->machine->in_place ? "in place" : "buffers apart");
}

/* ------------------------------------------------- reading and writing cells */

static plait_status note_read(const struct doing *doing, struct cell *cell)
{
    struct machine *machine = doing->machine;
    if (machine->read_count == machine->read_room) {
        int room = machine->read_room ? machine->read_room * 2 : 256;
        struct read *reads = realloc(machine->reads, (size_t)room * sizeof *reads);
        if (!reads)
            return machine_no_memory(machine->plan);
        machine->reads = reads;
        machine->read_room = room;
    }
    machine->reads[machine->read_count] = (struct read){
        .rank = doing->rank, .time = machine->actors[doing->rank].clock[doing->rank], .next = cell->reads
    };
    cell->reads = machine->read_count++;
    return PLAIT_OK;
}

/* Blocks may differ in length, so a place of WORK says whose length it has. */
static plait_status check_held(const struct doing *doing, const struct place *place, int value)
{
    const struct plan *plan = doing->machine->plan;
    int block = doing->machine->values.all[value].block;
    if (place->buffer != BUFFER_WORK || block == place->of ||
        collective_input_blocks(plan->kind, plan->ranks, plan->root, doing->rank) <= 1)
        return PLAIT_OK;
    return wrong(doing, "says that work block %d holds block %d, and it holds block %d", place->block,
                 place->of, block);
}

static plait_status read_cell(const struct doing *doing, int owner, const struct place *place, int i,
                              int *value)
{
    struct cell *cell = cell_at(doing, owner, place, i);
    if (cell->arriving)
        return wrong(doing, "reads what a message of the same stage may be writing");
    if (owner != doing->rank && doing->machine->actors[doing->rank].clock[owner] < cell->written)
        return wrong(doing, "reads rank %d's %s, and nothing tells that rank %d has written it", owner,
                     place->buffer == BUFFER_WINDOW ? "window" : "buffer", owner);
    if (cell->value == 0)
        return wrong(doing, "reads rank %d's %s block %d part %d, where nothing has been written", owner,
                     place->buffer == BUFFER_WINDOW ? "window" : "own", place->block, first_part(place) + i);
    *value = cell->value;
    return owner == doing->rank ? check_held(doing, place, cell->value) : note_read(doing, cell);
}

/* That nobody is at a cell that is about to change. */
static plait_status claim_cell(const struct doing *doing, struct cell *cell)
{
    const struct machine *machine = doing->machine;
    if (cell->arriving)
        return wrong(doing, "writes where a message of the same stage arrives");
    if (cell->leaving > 0)
        return wrong(doing, "changes what the same stage sends");
    for (int i = cell->reads; i >= 0; i = machine->reads[i].next)
        if (machine->actors[doing->rank].clock[machine->reads[i].rank] < machine->reads[i].time)
            return wrong(doing, "writes what rank %d may still be reading", machine->reads[i].rank);
    return PLAIT_OK;
}

static plait_status write_cell(const struct doing *doing, const struct place *place, int i, int value)
{
    if (value == 0)
        return machine_no_memory(doing->machine->plan);
    struct cell *cell = cell_at(doing, doing->rank, place, i);
    plait_status status = claim_cell(doing, cell);
    if (status == PLAIT_OK)
        status = check_held(doing, place, value);
    if (status != PLAIT_OK)
        return status;
    cell->value = value;
    cell->written = doing->machine->actors[doing->rank].clock[doing->rank];
    cell->reads = -1;
    return PLAIT_OK;
}

/* ----------------------------------------------------------------- clocks */

/* Keeps what a rank knows now, for whoever it tells; what it does from now on is later. */
static int *keep_clock(struct machine *machine, int rank)
{
    size_t ranks = (size_t)machine->plan->ranks;
    int *kept = machine->kept + machine->kept_count++ * ranks;
    memcpy(kept, machine->actors[rank].clock, ranks * sizeof *kept);
    machine->actors[rank].clock[rank]++;
    return kept;
}

static void learn(struct machine *machine, int rank, const int *clock)
{
    int *mine = machine->actors[rank].clock;
    for (int i = 0; i < machine->plan->ranks; i++)
        mine[i] = clock[i] > mine[i] ? clock[i] : mine[i];
}

static int **signal_of(struct machine *machine, int chunk, int stage, int rank)
{
    size_t at =
        ((size_t)chunk * (size_t)machine->plan->stages + (size_t)stage) * (size_t)machine->plan->ranks;
    return &machine->signals[at + (size_t)rank];
}

/* The first rank that the step still waits for, or -1. */
static int missing_signal(const struct doing *doing)
{
    const struct step *step = doing->step;
    int first = step->peer == ALL_RANKS ? 0 : step->peer;
    int end = step->peer == ALL_RANKS ? doing->machine->plan->ranks : step->peer + 1;
    for (int rank = first; rank < end; rank++)
        if (!*signal_of(doing->machine, doing->chunk, step->wait_stage, rank))
            return rank;
    return -1;
}

static bool take_wait(const struct doing *doing)
{
    const struct step *step = doing->step;
    if (missing_signal(doing) >= 0)
        return false;
    for (int rank = 0; rank < doing->machine->plan->ranks; rank++)
        if (step->peer == ALL_RANKS || step->peer == rank)
            learn(doing->machine, doing->rank,
                  *signal_of(doing->machine, doing->chunk, step->wait_stage, rank));
    return true;
}

/* ------------------------------------------------------------ local steps */

static plait_status take_copy(const struct doing *doing)
{
    const struct step *step = doing->step;
    int owner = step->kind == STEP_COPY ? step->peer : doing->rank;
    for (int i = 0; i < part_count(doing->machine, &step->to); i++) {
        int value = 0;
        if (cell_at(doing, owner, &step->from, i) == cell_at(doing, doing->rank, &step->to, i))
            continue; /* in place: the block is there already */
        plait_status status = read_cell(doing, owner, &step->from, i, &value);
        if (status == PLAIT_OK && step->kind == STEP_NARROW)
            value = value_result(&doing->machine->values, value);
        if (status == PLAIT_OK && step->kind == STEP_WIDEN &&
            doing->machine->values.all[value].kind == VALUE_RESULT)
            return wrong(doing, "widens a value that is divided and rounded already");
        if (status == PLAIT_OK)
            status = write_cell(doing, &step->to, i, value);
        if (status != PLAIT_OK)
            return status;
    }
    return PLAIT_OK;
}

static plait_status fold(const struct doing *doing, int left, int right, int *folded)
{
    char why[96];
    if (!values_fit(&doing->machine->values, left, right, why, sizeof why))
        return wrong(doing, "%s", why);
    *folded = value_fold(&doing->machine->values, left, right);
    return *folded ? PLAIT_OK : machine_no_memory(doing->machine->plan);
}

/* Over the first `ranks` ranks. */
static plait_status reduce_cell(const struct doing *doing, int i, int ranks, int *result)
{
    const struct step *step = doing->step;
    int sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int value = 0;
        const struct place *place = rank == doing->rank ? &step->own : &step->from;
        plait_status status = read_cell(doing, rank, place, i, &value);
        if (status == PLAIT_OK && rank > 0)
            status = fold(doing, sum, value, &value);
        if (status != PLAIT_OK)
            return status;
        sum = value;
    }
    *result = value_result(&doing->machine->values, sum);
    return PLAIT_OK;
}

static plait_status take_reduce(const struct doing *doing)
{
    const struct step *step = doing->step;
    int ranks = step->ranks > 0 ? step->ranks : doing->machine->plan->ranks;
    for (int i = 0; i < part_count(doing->machine, &step->to); i++) {
        int result = 0;
        plait_status status = reduce_cell(doing, i, ranks, &result);
        if (status == PLAIT_OK)
            status = write_cell(doing, &step->to, i, result);
        if (status == PLAIT_OK && step->also.buffer != BUFFER_NONE)
            status = write_cell(doing, &step->also, i, result);
        if (status != PLAIT_OK)
            return status;
    }
    return PLAIT_OK;
}

static plait_status take_running(const struct doing *doing)
{
    struct place to = doing->step->to;
    for (int ranks = 1; ranks <= doing->step->ranks; ranks++, to.block++)
        for (int i = 0; i < part_count(doing->machine, &to); i++) {
            int result = 0;
            plait_status status = reduce_cell(doing, i, ranks, &result);
            if (status == PLAIT_OK)
                status = write_cell(doing, &to, i, result);
            if (status != PLAIT_OK)
                return status;
        }
    return PLAIT_OK;
}

/* ---------------------------------------------------------------- messages */

static struct message *message_of(struct machine *machine, const struct doing *doing)
{
    bool sends = doing->step->kind == STEP_SEND;
    uint64_t ranks = (uint64_t)machine->plan->ranks;
    uint64_t from = (uint64_t)(sends ? doing->rank : doing->step->peer);
    uint64_t to = (uint64_t)(sends ? doing->step->peer : doing->rank);
    uint64_t turn = (uint64_t)doing->chunk * (uint64_t)machine->plan->stages + (uint64_t)doing->step->stage;
    uint64_t key = (turn * ranks + from) * ranks + to + 1;
    for (size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 20);; at++) {
        struct message *message = &machine->messages[at & (machine->message_room - 1)];
        if (message->key == key || message->key == 0) {
            message->key = key;
            return message;
        }
    }
}

static plait_status start_send(const struct doing *doing, struct message *message)
{
    struct machine *machine = doing->machine;
    const struct place *from = &doing->step->from;
    if (message->sent)
        return wrong(doing, "sends a second message to one rank in one stage");
    message->sent = true;
    message->from = *from;
    message->values = machine->message_values + machine->message_value_count;
    machine->message_value_count += (size_t)part_count(machine, from);
    for (int i = 0; i < part_count(machine, from); i++) {
        plait_status status = read_cell(doing, doing->rank, from, i, &message->values[i]);
        if (status != PLAIT_OK)
            return status;
        cell_at(doing, doing->rank, from, i)->leaving++;
    }
    if (machine_keeps_time(machine))
        message->clock = keep_clock(machine, doing->rank);
    return PLAIT_OK;
}

static plait_status start_recv(const struct doing *doing, struct message *message)
{
    const struct place *to = &doing->step->to;
    if (message->received)
        return wrong(doing, "receives a second message from one rank in one stage");
    message->received = true;
    for (int i = 0; i < part_count(doing->machine, to); i++) {
        struct cell *cell = cell_at(doing, doing->rank, to, i);
        plait_status status = claim_cell(doing, cell);
        if (status != PLAIT_OK)
            return status;
        cell->arriving = true;
    }
    return PLAIT_OK;
}

static plait_status start_transfer(const struct doing *doing)
{
    struct actor *actor = &doing->machine->actors[doing->rank];
    struct message *message = message_of(doing->machine, doing);
    actor->open[actor->open_count++] = (struct transfer_open){
        .step = doing->step, .index = doing->index, .chunk = doing->chunk, .message = message
    };
    return doing->step->kind == STEP_SEND ? start_send(doing, message) : start_recv(doing, message);
}

static plait_status finish_recv(const struct doing *doing, const struct message *message)
{
    const struct step *step = doing->step;
    const struct place *to = &step->to, *from = &message->from;
    bool accumulates = collective_reduces(doing->machine->plan->kind);
    bool alike = (!accumulates || (to->buffer == BUFFER_WORK) == (from->buffer == BUFFER_WORK)) &&
                 (to->buffer == BUFFER_NONE) == (from->buffer == BUFFER_NONE);
    if (!alike || (to->buffer != BUFFER_NONE && (to->part != from->part || to->more != from->more)))
        return wrong(doing, "receives what rank %d does not send: another part or kind of element",
                     step->peer);

    for (int i = 0; i < part_count(doing->machine, to); i++) {
        struct cell *cell = cell_at(doing, doing->rank, to, i);
        int value = message->values[i];
        plait_status status = PLAIT_OK;
        cell->arriving = false;
        if (step->kind == STEP_RECV_REDUCE && cell->value == 0)
            return wrong(doing, "folds into work block %d, where nothing has been written", to->block);
        if (step->kind == STEP_RECV_REDUCE && step->peer_left)
            status = fold(doing, value, cell->value, &value);
        else if (step->kind == STEP_RECV_REDUCE)
            status = fold(doing, cell->value, value, &value);
        if (status == PLAIT_OK)
            status = write_cell(doing, to, i, value);
        if (status != PLAIT_OK)
            return status;
    }
    if (message->clock)
        learn(doing->machine, doing->rank, message->clock);
    return PLAIT_OK;
}

/* The transfer that holds a rank's tick up; NULL if none does. A send may take as long as its receive. */
static const struct transfer_open *unfinished(const struct actor *actor)
{
    for (int i = 0; i < actor->open_count; i++)
        if (!actor->open[i].message->sent || !actor->open[i].message->received)
            return &actor->open[i];
    return NULL;
}

static plait_status finish_transfers(struct machine *machine, int rank)
{
    struct actor *actor = &machine->actors[rank];
    plait_status status = PLAIT_OK;
    for (int i = 0; i < actor->open_count && status == PLAIT_OK; i++) {
        const struct transfer_open *open = &actor->open[i];
        const struct doing doing = { machine, rank, open->index, open->chunk, open->step };
        if (open->step->kind != STEP_SEND) {
            status = finish_recv(&doing, open->message);
            continue;
        }
        for (int k = 0; k < part_count(machine, &open->step->from); k++)
            cell_at(&doing, rank, &open->step->from, k)->leaving--;
    }
    actor->open_count = 0;
    return status;
}

/* ----------------------------------------------------------------- running */

static int tick_count(const struct machine *machine)
{
    return machine->chunks + machine->plan->stages - 1;
}

/* Takes a step; *held: it can't be taken yet. */
static plait_status take(const struct doing *doing, bool *held)
{
    struct machine *machine = doing->machine;
    *held = false;
    switch (doing->step->kind) {
    case STEP_COPY:
    case STEP_PUT:
    case STEP_WIDEN:
    case STEP_NARROW: return take_copy(doing);
    case STEP_REDUCE: return take_reduce(doing);
    case STEP_RUNNING: return take_running(doing);
    case STEP_SIGNAL:
        *signal_of(machine, doing->chunk, doing->step->stage, doing->rank) = keep_clock(machine, doing->rank);
        return PLAIT_OK;
    case STEP_WAIT: *held = !take_wait(doing); return PLAIT_OK;
    case STEP_SEND:
    case STEP_RECV:
    case STEP_RECV_REDUCE: return start_transfer(doing);
    }
    return PLAIT_OK;
}

/* The step that the rank is at, if it is at one in this tick; else it is at the end of the tick. */
static bool find_step(struct machine *machine, int rank, struct doing *doing)
{
    struct actor *actor = &machine->actors[rank];
    const struct actor_steps *steps = &machine->steps[rank];
    for (; actor->stage < machine->plan->stages; actor->stage++, actor->index = 0) {
        int chunk = actor->tick - actor->stage, index = steps->stage_first[actor->stage] + actor->index;
        if (chunk < 0 || chunk >= machine->chunks || index >= steps->stage_first[actor->stage + 1])
            continue;
        *doing = (struct doing){ machine, rank, index, chunk, &steps->steps[index] };
        return true;
    }
    return false;
}

/* Goes as far as the rank can get. */
static plait_status advance(struct machine *machine, int rank, bool *moved)
{
    struct actor *actor = &machine->actors[rank];
    while (actor->tick < tick_count(machine)) {
        struct doing doing;
        bool held = false;
        if (find_step(machine, rank, &doing)) {
            plait_status status = take(&doing, &held);
            if (status != PLAIT_OK || held)
                return status;
            actor->index++;
        } else {
            if (unfinished(actor))
                return PLAIT_OK;
            plait_status status = finish_transfers(machine, rank);
            if (status != PLAIT_OK)
                return status;
            actor->tick++;
            actor->stage = actor->index = 0;
        }
        *moved = true;
    }
    return PLAIT_OK;
}

/* The rank that is farthest behind, which holds the others up: the first in the earliest tick. */
static int last_rank(const struct machine *machine)
{
    int last = 0;
    for (int rank = 1; rank < machine->plan->ranks; rank++)
        if (machine->actors[rank].tick < machine->actors[last].tick)
            last = rank;
    return last;
}

/* Nobody can go on: that must be the end, or the sentence says what is waited for. */
static plait_status check_ended(struct machine *machine)
{
    int rank = last_rank(machine);
    struct doing doing;
    if (machine->actors[rank].tick == tick_count(machine))
        return PLAIT_OK;
    if (find_step(machine, rank, &doing))
        return wrong(&doing, "never ends: rank %d does not come to that signal", missing_signal(&doing));
    const struct transfer_open *open = unfinished(&machine->actors[rank]);
    doing = (struct doing){ machine, rank, open->index, open->chunk, open->step };
    return wrong(&doing, "never ends: rank %d does not come to the other side", open->step->peer);
}

plait_status machine_run(struct machine *machine)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int rank = 0; rank < machine->plan->ranks; rank++) {
            plait_status status = advance(machine, rank, &moved);
            if (status != PLAIT_OK)
                return status;
        }
    }
    return check_ended(machine);
}
