#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/key_map.h"
#include "bootstrap/store_view.h"

struct memory_store {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    struct key_map map;
    bool closed;
};

struct memory_store *memory_store_create(void)
{
    struct memory_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return store;
}

void memory_store_destroy(struct memory_store *store)
{
    if (store == NULL)
        return;
    key_map_forget(&store->map, NULL, NULL);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

void memory_store_close(struct memory_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->closed = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static plait_status closed(void)
{
    return failure(PLAIT_INVALID_USAGE, "the thread group was destroyed while a world was starting in it");
}

static plait_status no_memory(const char *key)
{
    return failure(PLAIT_OUT_OF_MEMORY, "no memory for the key \"%s\" of a thread group", key);
}

static plait_status set(void *context, const char *key, const void *value, size_t size)
{
    struct memory_store *store = context;
    pthread_mutex_lock(&store->lock);
    bool done = !store->closed && key_map_set(&store->map, key, strlen(key), value, size);
    bool over = store->closed;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return done ? PLAIT_OK : over ? closed() : no_memory(key);
}

static plait_status add(void *context, const char *key, int64_t amount, int64_t *sum)
{
    struct memory_store *store = context;
    pthread_mutex_lock(&store->lock);
    bool done = !store->closed && key_map_add(&store->map, key, strlen(key), amount, sum);
    bool over = store->closed;
    pthread_mutex_unlock(&store->lock);
    return done ? PLAIT_OK : over ? closed() : no_memory(key);
}

/* With the lock held. The value's entry, or NULL at the deadline or when the store is closed. */
static const struct key_entry *wait_for(struct memory_store *store, const char *key, int64_t deadline)
{
    struct timespec until = { deadline / 1000000000, deadline % 1000000000 };
    while (!store->closed) {
        const struct key_entry *entry = key_map_find(&store->map, key, strlen(key));
        if (entry != NULL && entry->value != NULL)
            return entry;
        if (deadline == NO_DEADLINE)
            pthread_cond_wait(&store->changed, &store->lock);
        else if (deadline_passed(deadline) ||
                 pthread_cond_timedwait(&store->changed, &store->lock, &until) == ETIMEDOUT)
            break;
    }
    return NULL;
}

static plait_status get(void *context, const char *key, void *value, size_t *size, int64_t deadline)
{
    struct memory_store *store = context;
    pthread_mutex_lock(&store->lock);
    const struct key_entry *entry = wait_for(store, key, deadline);
    bool over = store->closed, found = entry != NULL;
    if (found) {
        memcpy(value, entry->value, entry->size < *size ? entry->size : *size);
        *size = entry->size;
    }
    pthread_mutex_unlock(&store->lock);
    return found ? PLAIT_OK : over ? closed() : PLAIT_IN_PROGRESS;
}

static plait_status forget(void *context, int (*stale)(const char *key, const void *what), const void *what)
{
    struct memory_store *store = context;
    pthread_mutex_lock(&store->lock);
    key_map_forget(&store->map, stale, what);
    pthread_mutex_unlock(&store->lock);
    return PLAIT_OK;
}

struct store_view memory_store_view(struct memory_store *store)
{
    return (struct store_view){ .context = store, .set = set, .get = get, .add = add, .forget = forget };
}
