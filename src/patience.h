/* Patience: what a driver does while nothing moves: spin, then yield, then nap
 * on its bell. How long depends on whether every rank of the host has a core. */
#ifndef PLAIT_PATIENCE_H
#define PLAIT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "berth.h"
#include "transport/board.h"

struct patience {
    unsigned turns;   /* since something moved */
    unsigned yields;  /* of them */
    int64_t since_ns; /* when yielding began; 0 before */
};

/* How long it pays to spin here, learnt from how waits ended. A peer that runs
 * on the very core of this thread never comes while it spins. */
struct temper {
    unsigned spin; /* turns; 0: not set yet */
    unsigned waits;
};

/* A driver's way to wait. */
struct waiting {
    struct temper *temper;
    bool crowded;                /* more ranks on this host than cores */
    bool in_the_way;             /* crowded: who is waited for needs this very core */
    bool background;             /* no caller waits, so they compute, likely on this core */
    bool soon;                   /* all peers are in the operation: what is waited for is on its way */
    struct bell *bell;           /* NULL if there is none; then */
    struct berth *berth;         /* NULL if there is none either */
    bool (*look)(void *context); /* before a nap: is there something to do after all? */
    void *context;
};

/* One turn of waiting. True when the caller should look at the clock: deadlines, peers' lives. */
bool patience_turn(struct patience *patience, const struct waiting *waiting);

/* The wait is over: learns from it, and starts afresh. */
void patience_end(struct patience *patience, const struct waiting *waiting);

#endif
