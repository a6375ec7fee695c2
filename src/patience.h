/* Patience: what a driver does while nothing moves: spin, then yield, then nap
 * on its bell. How long depends on whether every rank of the host has a core. */
#ifndef PLAIT_PATIENCE_H
#define PLAIT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/board.h"

struct patience {
    unsigned turns;   /* since something moved */
    int64_t since_ns; /* when yielding began; 0 before */
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* One turn of waiting. True when the caller should look at the clock: deadlines, peers' lives.
 * `look` tells, before a nap, whether there is something to do after all. */
bool patience_turn(struct patience *patience, bool crowded, struct bell *bell, bool (*look)(void *), void *context);

#endif
