#include "patience.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/pause.h"

/* Turns of spinning. Where every rank has a core a turn, with the executor's looks in it, takes some
 * 800 ns: 50 us in all, what a balanced peer is late by. Where ranks share cores a turn takes 80 ns:
 * about as long as it takes to change the rank that runs on another core, twice; and there is no
 * spinning while a rank is missing that needs this core. A background thread naps almost at once unless
 * all peers are under way: its process computes, and who yields to a thread that computes gets the core
 * back at the next tick, milliseconds later, while who sleeps is woken. */
enum { SPIN_TURNS = 64, LEAST_SPIN_TURNS = 2, CROWDED_SPIN_TURNS = 60, BACKGROUND_SPIN_TURNS = 4 };

/* A yield lets whoever shares the core run, at 0.3 us when nobody does. Napping starts after a time in
 * which a wake-up, 15 to 70 us in a virtual machine, is lost in the noise. */
static const int64_t YIELD_NS = 1000000;

/* After so many waits a whole spin is tried again. */
enum { TRY_EVERY = 64 };

static void nap(const struct waiting *waiting)
{
    if (waiting->bell == NULL) {
        if (waiting->berth != NULL && berth_sleep(waiting->berth, waiting->look, waiting->context))
            return;
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
        return waiting->in_the_way ? 1 : CROWDED_SPIN_TURNS;
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
    /* The clock after each yield: where others want the core, too, a single one may last for milliseconds. */
    patience->yields++;
    if (clock_ns() - patience->since_ns < YIELD_NS) {
        sched_yield();
        return (patience->yields & 15) == 0;
    }
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
