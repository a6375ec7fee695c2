/* The executor: carries out one collective, a state machine that never waits. */
#ifndef PLAIT_COLLECTIVES_EXECUTE_H
#define PLAIT_COLLECTIVES_EXECUTE_H

#include "collectives/group.h"
#include "collectives/lower.h"
#include "fault/call.h"

enum execution_phase {
    PHASE_MEET,    /* this rank's call is up, or about to be; not all ranks' calls are seen */
    PHASE_STEPS,   /* the plan's steps run */
    PHASE_CHECK,   /* all is done but for a look at the line's cost */
    PHASE_VERDICT, /* all is done but for hearing whether a caller's function failed anywhere */
    PHASE_COUNTED, /* the counts of a v-form have been exchanged; it goes on with itself */
    PHASE_DONE     /* status says how it ended */
};

struct execution {
    struct group *group;
    struct call call;
    const struct call *whole; /* the v-form before which `call` exchanges counts; else NULL */
    uint64_t number, print;
    enum execution_phase phase;
    plait_status status;
    bool published;   /* this rank's notice is up */
    bool met;         /* all ranks' calls are seen and alike */
    int seen;         /* ranks before this one have been seen */
    uint64_t differs; /* not 0: some rank's print is different */

    const struct program *program; /* NULL: everything rides in the notices */
    struct profile *profile;       /* of its time; NULL: nobody wants to know */
    uint64_t offer[2];             /* what this rank's notice says of its buffers (offer.h) */
    bool ready;                    /* for an in-place plan, if all are */
    bool changes;                  /* to the group's lane first (staging.h) */
    bool refused;                  /* some rank has no memory for it: all know, and end alike */
    size_t contribution;           /* bytes that ride in a rank's notice, if it gives any */
    const unsigned char *given;    /* this rank's */
    size_t element_size, work_element_size;
    size_t chunk_count, chunks; /* elements of a block in a chunk; number of chunks */
    size_t stride, slot_size;   /* bytes of a block in a staging slot; of a slot */
    size_t slot_first;          /* place of chunk 0's slot in the ring */
    size_t lap_slots, first_lap_slots;
    bool slots_free; /* nobody reads what the previous operation left where this one writes */
    size_t work_slots;
    bool stream_output;

    size_t tick;
    int stage, index, waiting;
    int verdict; /* of a caller's function: 0, or its error */
    int open;    /* transfers of this tick */
    int round;   /* of the recheck, and what it knows */
    bool asked;
    int64_t asked_ns, best_ns;
    bool moved; /* something happened since the caller last cleared it */
};

/* The call as its caller made it. */
static inline const struct call *execution_call(const struct execution *execution)
{
    return execution->whole != NULL ? execution->whole : &execution->call;
}

/* Sets up operation `number` = ++group->number. May fail for lack of memory, with nothing sent. */
plait_status execution_begin(struct execution *execution, struct group *group, const struct call *call);

/* Goes as far as it can without waiting. PLAIT_IN_PROGRESS, or how it ended.
 * PLAIT_MISMATCH leaves the group usable, and so does what ended it as refused; any other failure ends it. */
plait_status execution_advance(struct execution *execution);

/* Cancels what is queued; buffers are the caller's again afterwards. */
void execution_cancel(struct execution *execution);

/* The rank that it waits for, and whether that one has entered the operation;
 * -1 if it waits for nobody in particular. */
int execution_awaited(const struct execution *execution, bool *entered);

/* Does it wait for a rank that needs the core this thread runs on? */
bool execution_blocks_peer(const struct execution *execution);

#endif
