/* A key-value store, as the exchange sees it: the caller's, a file, or the
 * memory of a thread group. */
#ifndef PLAIT_BOOTSTRAP_STORE_VIEW_H
#define PLAIT_BOOTSTRAP_STORE_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "bootstrap/way.h"

enum { KEY_BYTES = 128 };

struct store_view {
    void *context;
    plait_status (*set)(void *context, const char *key, const void *value, size_t size);
    /* Copies at most *size bytes and sets *size to the whole length; PLAIT_IN_PROGRESS:
     * not there by `deadline`. Looks at least once. */
    plait_status (*get)(void *context, const char *key, void *value, size_t *size, int64_t deadline);
    /* Adds to a counter (0 if new). */
    plait_status (*add)(void *context, const char *key, int64_t amount, int64_t *sum);
    /* Drops the keys for which stale() is true; NULL where the store can't. */
    plait_status (*forget)(void *context, int (*stale)(const char *key, const void *what), const void *what);
};

/* The exchange over any store: see store_exchange.c. */
plait_status store_exchange(struct exchange *exchange, const struct store_view *view);

/* The memory of a thread group. */
struct memory_store;
struct memory_store *memory_store_create(void);
void memory_store_destroy(struct memory_store *store);
/* Has every wait in it end at once, now and later, with PLAIT_INVALID_USAGE. */
void memory_store_close(struct memory_store *store);
struct store_view memory_store_view(struct memory_store *store);

/* A file that the ranks lock in turns. */
struct file_store;
plait_status file_store_open(const char *path, int64_t deadline, struct file_store **store);
void file_store_close(struct file_store *store);
struct store_view file_store_view(struct file_store *store);

#endif
