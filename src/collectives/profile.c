#include "collectives/profile.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/ticks.h"

struct profile *profile_make(int ranks)
{
    struct profile *profile = calloc(1, sizeof *profile + (size_t)ranks * sizeof profile->awaited[0]);
    if (profile == NULL)
        return NULL;
    profile->ranks = ranks;
    profile->waited_for = &profile->awaited[0];
    profile->made_ns = clock_ns();
    profile->made = ticks_now();
    return profile;
}

void profile_begin(struct profile *profile)
{
    profile->activity = ACTIVITY_OTHER;
    profile->since = ticks_now();
}

void profile_end(struct profile *profile, uint64_t chunks)
{
    profile_charge(profile, ACTIVITY_OTHER);
    profile_count(&profile->chunks, chunks);
    profile_count(&profile->operations, 1);
}

enum activity profile_charge(struct profile *profile, enum activity next)
{
    enum activity activity = profile->activity;
    uint64_t now = ticks_now();
    /* Counters of two cores may differ by a few ticks. */
    uint64_t spent = now > profile->since ? now - profile->since : 0;
    profile_count(&profile->ticks[activity], spent);
    if (activity == ACTIVITY_WAIT)
        profile_count(profile->waited_for, spent);
    profile->activity = next;
    profile->since = now;
    return activity;
}

static int64_t ns_of(const _Atomic uint64_t *ticks, double tick_ns)
{
    return (int64_t)((double)atomic_load_explicit(ticks, memory_order_relaxed) * tick_ns);
}

void profile_read(const struct profile *profile, plait_profile *out, int64_t *awaited_ns)
{
    uint64_t ticks = ticks_now() - profile->made;
    double tick_ns = ticks > 0 ? (double)(clock_ns() - profile->made_ns) / (double)ticks : 0;
    out->operations = atomic_load_explicit(&profile->operations, memory_order_relaxed);
    out->chunks = atomic_load_explicit(&profile->chunks, memory_order_relaxed);
    out->copied_bytes = atomic_load_explicit(&profile->copied_bytes, memory_order_relaxed);
    out->reduced_bytes = atomic_load_explicit(&profile->reduced_bytes, memory_order_relaxed);
    out->waiting_ns = ns_of(&profile->ticks[ACTIVITY_WAIT], tick_ns);
    out->copying_ns = ns_of(&profile->ticks[ACTIVITY_COPY], tick_ns);
    out->reducing_ns = ns_of(&profile->ticks[ACTIVITY_REDUCE], tick_ns);
    out->other_ns = ns_of(&profile->ticks[ACTIVITY_OTHER], tick_ns);
    for (int rank = 0; rank < profile->ranks && awaited_ns != NULL; rank++)
        awaited_ns[rank] = ns_of(&profile->awaited[rank], tick_ns);
}
