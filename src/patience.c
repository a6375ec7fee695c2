#include "patience.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"

/* A spin turn is some 20 to 50 ns, so spinning lasts up to about 50 us: what a
 * balanced peer is late by. A yield lets whoever shares the core run, at
 * 0.3 us when nobody does. Napping starts after a time in which a
 * wake-up, 15 to 70 us in a virtual machine, is lost in the noise. */
enum { SPIN_TURNS = 1500, CROWDED_SPIN_TURNS = 6 };
static const int64_t YIELD_NS = 1000000;

static void nap(struct bell *bell, bool (*look)(void *), void *context)
{
    if (bell == NULL) {
        nanosleep(&(struct timespec){ .tv_nsec = BELL_NAP_NS / 4 }, NULL);
        return;
    }
    uint32_t seen = bell_lie_down(bell);
    if (!look(context))
        bell_sleep(bell, seen, BELL_NAP_NS);
    bell_get_up(bell);
}

bool patience_turn(struct patience *patience, bool crowded, struct bell *bell, bool (*look)(void *), void *context)
{
    unsigned turn = ++patience->turns;
    if (turn < (unsigned)(crowded ? CROWDED_SPIN_TURNS : SPIN_TURNS)) {
        pause_briefly();
        return false;
    }
    if (patience->since_ns == 0)
        patience->since_ns = clock_ns();
    if ((turn & 15) != 0) {
        sched_yield();
        return false;
    }
    if (clock_ns() - patience->since_ns < YIELD_NS)
        sched_yield();
    else
        nap(bell, look, context);
    return true;
}
