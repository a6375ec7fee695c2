/* Where a group's time goes. The executor says what it turns to, and the stretch since it last did is
 * added to what it had been at; so the parts add up to the whole. Off, a profile is NULL, and each word
 * is a branch on a line that is warm. */
#ifndef PLAIT_COLLECTIVES_PROFILE_H
#define PLAIT_COLLECTIVES_PROFILE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

enum activity {
    ACTIVITY_OTHER, /* the library's own: planning, bookkeeping, notices */
    ACTIVITY_WAIT,  /* for a peer's notice, signal or message, its line's way here included */
    ACTIVITY_COPY,
    ACTIVITY_REDUCE,
    ACTIVITIES
};

/* The counters have one writer, the driver, and are read by any thread. */
struct profile {
    int64_t made_ns; /* by both clocks, to tell how long a tick is */
    uint64_t made;
    enum activity activity;
    uint64_t since;
    _Atomic uint64_t *waited_for; /* whose ticks the present wait adds to */
    _Atomic uint64_t operations, chunks, copied_bytes, reduced_bytes;
    _Atomic uint64_t ticks[ACTIVITIES];
    int ranks;
    _Atomic uint64_t awaited[]; /* ticks, a rank */
};

/* NULL without memory. For free(). */
struct profile *profile_make(int ranks);

/* An operation begins; nothing is known of the time before it. */
void profile_begin(struct profile *profile);
/* It has succeeded. */
void profile_end(struct profile *profile, uint64_t chunks);

/* Counts the stretch up to now; returns what it was spent on. */
enum activity profile_charge(struct profile *profile, enum activity next);

/* Fills `out` but for its struct_size; `awaited_ns` may be NULL. Any thread. */
void profile_read(const struct profile *profile, plait_profile *out, int64_t *awaited_ns);

/* The executor's words; `profile` may be NULL. */
static inline enum activity profile_turn(struct profile *profile, enum activity next)
{
    return profile == NULL ? ACTIVITY_OTHER : profile_charge(profile, next);
}

static inline void profile_await(struct profile *profile, int rank)
{
    if (profile == NULL)
        return;
    profile_charge(profile, ACTIVITY_WAIT);
    profile->waited_for = &profile->awaited[rank];
}

static inline void profile_count(_Atomic uint64_t *counter, uint64_t amount)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + amount, memory_order_relaxed);
}

#endif
