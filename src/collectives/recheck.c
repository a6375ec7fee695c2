#include "collectives/recheck.h"

#include "base/clock.h"
#include "base/pause.h"

/* Often enough to follow a move within milliseconds of traffic, seldom enough to cost under 1 %. */
enum { BYTES_BETWEEN = 64 << 20, OPERATION_BYTES = 64 << 10, ROUNDS = 8, LOOKS = 256 };

/* Slower answers tell of the scheduler, not of the line. */
static const int64_t PLAUSIBLE_NS = 600;

bool recheck_due(struct execution *x)
{
    struct group *group = x->group;
    size_t staged = x->chunks * x->slot_size, read = x->call.count * x->element_size;
    group->bytes_since_check += (x->program->plan.window_blocks > 0 ? staged : read) + OPERATION_BYTES;
    if (group->ranks < 2 || group->bytes_since_check < BYTES_BETWEEN)
        return false;
    group->bytes_since_check = 0;
    x->round = 0;
    x->best_ns = INT64_MAX;
    return true;
}

static bool has_answered(const struct execution *x, int peer, uint64_t value)
{
    const _Atomic uint64_t *word = &x->group->board->seats[peer]->probe;
    for (int looks = LOOKS; looks > 0; looks--) {
        if (atomic_load_explicit(word, memory_order_acquire) >= value)
            return true;
        pause_briefly();
    }
    return false;
}

static void say(const struct execution *x, uint64_t value)
{
    atomic_store_explicit(&x->group->board->seats[x->group->rank]->probe, value, memory_order_release);
}

static void note_line(struct group *group, int64_t line_ns)
{
    struct seat *seat = group->board->seats[group->rank];
    if (line_ns < PLAUSIBLE_NS)
        atomic_store_explicit(&seat->line_ns, (uint32_t)line_ns, memory_order_relaxed);
}

/* Others take rank 0's word; theirs to read whenever it is there. */
static void follow_line(struct group *group)
{
    uint32_t line_ns = atomic_load_explicit(&group->board->seats[0]->line_ns, memory_order_relaxed);
    if (line_ns > 0)
        group_note_line(group, line_ns);
}

bool recheck_advance(struct execution *x)
{
    struct group *group = x->group;
    bool leads = group->rank == 0;
    if (group->rank > 1) {
        follow_line(group);
        return true;
    }
    x->waiting = leads ? 1 : 0;
    while (x->round < ROUNDS) {
        uint64_t value = x->number << 16 | (uint64_t)(x->round + 1);
        if (leads && !x->asked) {
            x->asked_ns = clock_ns();
            say(x, value);
            x->asked = true;
        }
        if (!has_answered(x, x->waiting, value))
            return false;
        if (leads) {
            int64_t took = (clock_ns() - x->asked_ns) / 2;
            x->best_ns = took < x->best_ns ? took : x->best_ns;
        } else {
            say(x, value);
        }
        x->asked = false;
        x->round++;
    }
    x->waiting = 0;
    if (leads)
        note_line(group, x->best_ns);
    follow_line(group); /* rank 1 may see the previous verdict; the next recheck corrects it */
    return true;
}
