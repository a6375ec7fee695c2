/* The machine that plan_verify() runs a plan on: all ranks' buffers as cells that hold symbols. */
#ifndef PLAIT_COLLECTIVES_VERIFY_MACHINE_H
#define PLAIT_COLLECTIVES_VERIFY_MACHINE_H

#include "base/status.h"
#include "collectives/verify.h"

/* What a part of a block of a chunk holds, and who is at it. */
struct cell {
    int value;     /* 0: nothing yet */
    int written;   /* the owner's time of the last write */
    int reads;     /* other ranks' reads since, a list in machine.reads; -1 ends it */
    int leaving;   /* messages under way from here */
    bool arriving; /* a message is under way to here */
};

struct read {
    int rank, time, next;
};

/* Two halves that find each other by chunk, stage and ranks. */
struct message {
    uint64_t key; /* 0: a free place of the table */
    bool sent, received;
    struct place from;
    const int *clock; /* the sender's; NULL where nobody asks for time */
    int *values;      /* one for each part that it has */
};

struct transfer_open {
    const struct step *step;
    int index, chunk;
    struct message *message;
};

struct actor {
    size_t first[BUFFER_WINDOW + 1]; /* each buffer's first cell */
    int tick, stage, index;          /* where it is; index counts the stage's steps */
    struct transfer_open *open;      /* this tick's */
    int open_count;
    int *clock; /* what it knows of each rank's time */
};

struct machine {
    const struct plan *plan;
    const struct actor_steps *steps;
    int chunks;
    bool in_place;
    struct values values;
    struct cell *cells;
    struct actor *actors;
    struct transfer_open *opens;
    int *clocks;
    struct read *reads;
    int read_count, read_room;
    struct message *messages;
    size_t message_room; /* a power of two */
    int *message_values;
    size_t message_value_count;
    int **signals; /* the clock with which [chunk][stage][rank] signalled, or NULL */
    int *kept;     /* all clocks kept for signals and messages */
    size_t kept_count;
};

/* Who is doing what; for sentences. */
struct doing {
    struct machine *machine;
    int rank, index, chunk;
    const struct step *step;
};

/* The setting up: cells for all buffers, inputs filled. False without memory; close it all the same. */
bool machine_open(struct machine *machine);
void machine_close(struct machine *machine);

/* All ranks run until nobody can go on, which must be the end. */
plait_status machine_run(struct machine *machine);

/* The outputs against what the collective means. */
plait_status machine_check(struct machine *machine);

static inline plait_status machine_no_memory(const struct plan *plan)
{
    return failure(PLAIT_OUT_OF_MEMORY, "no memory to prove a plan of %d ranks", plan->ranks);
}

/* Without windows, and not in place, ranks share nothing, so time matters to a barrier alone. */
static inline bool machine_keeps_time(const struct machine *machine)
{
    return machine->plan->window_blocks > 0 || machine->plan->planner->shows != NULL ||
           machine->plan->kind == COLLECTIVE_BARRIER;
}

static inline size_t block_cells(const struct machine *machine)
{
    return (size_t)machine->plan->parts * (size_t)machine->chunks;
}

static inline int first_part(const struct place *place)
{
    return place->part == ALL_PARTS ? 0 : place->part;
}

static inline int part_count(const struct machine *machine, const struct place *place)
{
    if (place->buffer == BUFFER_NONE)
        return 0;
    return place->part == ALL_PARTS ? machine->plan->parts : 1 + place->more;
}

/* Cell `i` of a place; i < part_count(). */
static inline struct cell *cell_at(const struct doing *doing, int owner, const struct place *place, int i)
{
    const struct machine *machine = doing->machine;
    size_t part = (size_t)place->block * (size_t)machine->plan->parts + (size_t)(first_part(place) + i);
    return &machine->cells[machine->actors[owner].first[place->buffer] + part * (size_t)machine->chunks +
                           (size_t)doing->chunk];
}

#endif
