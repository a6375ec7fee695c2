/* The way over the caller's store: its four functions, with our statuses. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/store_view.h"

static plait_status set(void *context, const char *key, const void *value, size_t size)
{
    const plait_store *store = context;
    int code = store->set(store->context, key, value, size);
    if (code != 0)
        return failure(PLAIT_START_FAILED,
                       "the caller's store could not set the key \"%s\" to %zu bytes: it returned %d", key,
                       size, code);
    return PLAIT_OK;
}

static plait_status add(void *context, const char *key, int64_t amount, int64_t *sum)
{
    const plait_store *store = context;
    int code = store->add(store->context, key, amount, sum);
    if (code != 0)
        return failure(PLAIT_START_FAILED,
                       "the caller's store could not add to the key \"%s\": it returned %d", key, code);
    return PLAIT_OK;
}

/* A store says the same of a key that is not there in time and of trouble. If it
 * is trouble, the next set or add will tell; until then don't ask in a tight loop. */
static plait_status get(void *context, const char *key, void *value, size_t *size, int64_t deadline)
{
    const plait_store *store = context;
    /* Never 0: to c10d's stores that means no limit. */
    int64_t wait_ms = deadline_left_ms(deadline) > 0 ? deadline_left_ms(deadline) : 1;
    int64_t start = clock_ns();
    if (store->get(store->context, key, value, size, wait_ms) == 0)
        return PLAIT_OK;
    int64_t unused_ns = wait_ms * 1000000 - (clock_ns() - start);
    if (unused_ns > 0) {
        int64_t pause_ns = unused_ns < 5000000 ? unused_ns : 5000000;
        nanosleep(&(struct timespec){ 0, (long)pause_ns }, NULL);
    }
    return PLAIT_IN_PROGRESS;
}

static plait_status meet(struct exchange *exchange)
{
    const plait_store *store = exchange->options->store;
    const char *lacks = store->set == NULL ? "set" : store->get == NULL ? "get" : "add";
    if (store->set == NULL || store->get == NULL || store->add == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "the caller's store lacks %s: set, get and add are needed",
                       lacks);
    struct store_view view = { .context = (void *)(uintptr_t)store, .set = set, .get = get, .add = add };
    return store_exchange(exchange, &view);
}

const struct bootstrap_way way_store = { "store", meet };
