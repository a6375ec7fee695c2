/* Letters: notices for ranks that can't read each other's memory. At the start of an operation each rank
 * sends its call to all others; the plan's steps run meanwhile, but touch no output before all calls are
 * known to be alike. So a mismatch is seen by all ranks in the operation itself, and who has not entered it is
 * known by name; the price is a small message to every rank. */
#ifndef PLAIT_COLLECTIVES_LETTERS_H
#define PLAIT_COLLECTIVES_LETTERS_H

#include "collectives/execute.h"

/* Of letters, in a message's key: no chunk and stage. */
#define LETTER_PLACE UINT64_MAX

struct letter {
    uint64_t print;
    unsigned char call[CALL_BYTES];
};

struct letters {
    struct letter *letters;            /* one a rank; this rank's own is what it sends */
    struct transfer *sends, *receives; /* one a rank */
    bool open;                         /* some may be under way */
};

/* Sends this rank's letter, and asks for those of the others. */
plait_status letters_begin(struct execution *execution);

/* True when all letters are there and alike; on a difference the execution is done with
 * PLAIT_MISMATCH. A letter that can't be had ends it, too. */
bool letters_meet(struct execution *execution);

/* The first rank whose letter is missing; -1 if there is none. */
int letters_missing(const struct execution *execution);

void letters_cancel(struct execution *execution);
void letters_free(struct letters *letters);

#endif
