/* Keys and values in memory: what the memory store holds and the file store has read. */
#ifndef PLAIT_BOOTSTRAP_KEY_MAP_H
#define PLAIT_BOOTSTRAP_KEY_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_entry {
    struct key_entry *next; /* in its bucket */
    char *key;
    unsigned char *value; /* NULL for a counter */
    size_t size;
    int64_t count; /* of a counter */
};

enum { KEY_BUCKETS = 256 };

struct key_map {
    struct key_entry *buckets[KEY_BUCKETS];
};

/* NULL if there is none. */
struct key_entry *key_map_find(const struct key_map *map, const char *key, size_t key_size);
/* false: out of memory, and nothing has changed. Keys are `key_size` bytes, unterminated. */
bool key_map_set(struct key_map *map, const char *key, size_t key_size, const void *value, size_t size);
bool key_map_add(struct key_map *map, const char *key, size_t key_size, int64_t amount, int64_t *sum);
/* Drops the entries for which stale() says so; a NULL stale drops all. */
void key_map_forget(struct key_map *map, int (*stale)(const char *key, const void *what), const void *what);

#endif
