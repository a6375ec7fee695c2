#include "collectives/stores.h"

#include "base/clock.h"
#include "device/copy.h"

/* A line's way above which two cores share no cache: near cores show 25 to
 * 60 ns, far ones 200 and more. */
static const double FAR_LINE_NS = 120;

/* Bytes a nanosecond. Ordinary stores reach 1.5 to 2 to lines that a far core
 * has read, 9 and more from memory, 20 and more from the caches. */
static const double SLOW_RATE = 3.5, FAST_RATE = 6;

enum { SLOW_IN_A_ROW = 3, RETRY_NS = 200000000, MEASURED_FROM_BYTES = 16384, TRIAL_BYTES = 131072 };

struct store_choice stores_start(enum stores setting, double line_ns)
{
    bool streamed = setting == STORES_AUTO ? line_ns > FAR_LINE_NS : setting == STORES_STREAMED;
    return (struct store_choice){ .fixed = setting != STORES_AUTO, .streamed = streamed };
}

static void put_ordinary(struct store_choice *stores, void *to, const void *from, size_t size)
{
    int64_t start = clock_ns();
    copy_cached(to, from, size);
    int64_t end = clock_ns();
    double rate = (double)size / (double)(end - start + 1);

    if (stores->streamed) { /* this was a trial */
        stores->streamed = rate < FAST_RATE;
        stores->next_try_ns = end + RETRY_NS;
    } else if (rate >= SLOW_RATE) {
        stores->slow = 0;
    } else if (++stores->slow >= SLOW_IN_A_ROW) {
        stores->slow = 0;
        stores->streamed = true;
        stores->next_try_ns = end + RETRY_NS;
    }
}

static void put_streamed(struct store_choice *stores, void *to, const void *from, size_t size)
{
    if (clock_ns() < stores->next_try_ns) {
        copy_streamed(to, from, size);
        return;
    }
    size_t trial = size < TRIAL_BYTES ? size : TRIAL_BYTES;
    put_ordinary(stores, to, from, trial);
    if (size > trial)
        copy_streamed((char *)to + trial, (const char *)from + trial, size - trial);
}

void stores_put(struct store_choice *stores, void *to, const void *from, size_t size)
{
    if (size < STREAM_FROM_BYTES || (stores->fixed && !stores->streamed))
        copy_cached(to, from, size);
    else if (stores->fixed)
        copy_streamed(to, from, size);
    else if (size < MEASURED_FROM_BYTES)
        (stores->streamed ? copy_streamed : copy_cached)(to, from, size);
    else if (stores->streamed)
        put_streamed(stores, to, from, size);
    else
        put_ordinary(stores, to, from, size);
}
