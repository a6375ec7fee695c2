#include "patience.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/pause.h"

/* A spin turn, with the looks of the executor in it, takes some 800 ns where every rank has
 * a core and 50 ns where not. So spinning lasts up to 50 us: what a balanced peer is late by, and three times a
 * wake-up. A yield lets whoever shares the core run, at 0.3 us when nobody does. Napping starts after a time in
 * which a wake-up, 15 to 70 us in a virtual machine, is lost in the noise. */
enum { SPIN_TURNS = 64, LEAST_SPIN_TURNS = 2, CROWDED_SPIN_TURNS = 6, BACKGROUND_SPIN_TURNS = 4 };
static const int64_t YIELD_NS = 1000000;

/* A background thread naps almost at once, unless peers are under way: who yields to a thread that computes gets
 * the core back at the next tick, milliseconds later, while who sleeps is woken when there is something to do. */

/* After so many waits a whole spin is tried again. */
enum { TRY_EVERY = 64 };

static void nap(const struct waiting *waiting)
{
    if (waiting->bell == NULL) {
        nanosleep(&(struct timespec){ .tv_nsec = BELL_NAP_NS / 4 }, NULL);
        return;
    }
    uint32_t seen = bell_lie_down(waiting->bell);
    if (!waiting->look(waiting->context))
        bell_sleep(waiting->bell, seen, BELL_NAP_NS);
    bell_get_up(waiting->bell);
}

static unsigned spin_turns(const struct waiting *waiting)
{
    const struct temper *temper = waiting->temper;
    if (waiting->background && !waiting->soon)
        return BACKGROUND_SPIN_TURNS;
    if (waiting->crowded)
        return CROWDED_SPIN_TURNS;
    return temper->spin == 0 || temper->waits % TRY_EVERY == 0 ? SPIN_TURNS : temper->spin;
}

bool patience_turn(struct patience *patience, const struct waiting *waiting)
{
    if (++patience->turns < spin_turns(waiting)) {
        pause_briefly();
        return false;
    }
    if (waiting->background) {
        nap(waiting);
        return true;
    }
    if (patience->since_ns == 0)
        patience->since_ns = clock_ns();
    if ((++patience->yields & 15) != 0) {
        sched_yield();
        return false;
    }
    if (clock_ns() - patience->since_ns < YIELD_NS)
        sched_yield();
    else
        nap(waiting);
    return true;
}

void patience_end(struct patience *patience, const struct waiting *waiting)
{
    if (patience->turns == 0)
        return;
    if (waiting->background) {
        *patience = (struct patience){ 0 };
        return;
    }
    struct temper *temper = waiting->temper;
    unsigned spin = temper->spin == 0 ? SPIN_TURNS : temper->spin;
    if (patience->yields == 0)
        spin = spin * 2 < SPIN_TURNS ? spin * 2 : SPIN_TURNS;
    else
        spin = spin / 2 > LEAST_SPIN_TURNS ? spin / 2 : LEAST_SPIN_TURNS;
    temper->spin = spin;
    temper->waits++;
    *patience = (struct patience){ 0 };
}
