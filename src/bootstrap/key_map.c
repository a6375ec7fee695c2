#include "bootstrap/key_map.h"

#include <stdlib.h>
#include <string.h>

static size_t bucket_of(const char *key, size_t size)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return (hash ^ hash >> 16) % KEY_BUCKETS;
}

struct key_entry *key_map_find(const struct key_map *map, const char *key, size_t key_size)
{
    for (struct key_entry *entry = map->buckets[bucket_of(key, key_size)]; entry != NULL; entry = entry->next)
        if (strlen(entry->key) == key_size && memcmp(entry->key, key, key_size) == 0)
            return entry;
    return NULL;
}

static struct key_entry *find_or_make(struct key_map *map, const char *key, size_t key_size)
{
    struct key_entry *entry = key_map_find(map, key, key_size);
    if (entry != NULL)
        return entry;
    entry = calloc(1, sizeof *entry);
    char *copy = strndup(key, key_size);
    if (entry == NULL || copy == NULL) {
        free(entry);
        free(copy);
        return NULL;
    }
    struct key_entry **bucket = &map->buckets[bucket_of(key, key_size)];
    entry->key = copy;
    entry->next = *bucket;
    *bucket = entry;
    return entry;
}

bool key_map_set(struct key_map *map, const char *key, size_t key_size, const void *value, size_t size)
{
    unsigned char *copy = malloc(size + 1);
    struct key_entry *entry = copy != NULL ? find_or_make(map, key, key_size) : NULL;
    if (entry == NULL) {
        free(copy);
        return false;
    }
    if (size > 0)
        memcpy(copy, value, size);
    free(entry->value);
    entry->value = copy;
    entry->size = size;
    return true;
}

bool key_map_add(struct key_map *map, const char *key, size_t key_size, int64_t amount, int64_t *sum)
{
    struct key_entry *entry = find_or_make(map, key, key_size);
    if (entry == NULL)
        return false;
    entry->count = (int64_t)((uint64_t)entry->count + (uint64_t)amount);
    *sum = entry->count;
    return true;
}

void key_map_forget(struct key_map *map, int (*stale)(const char *key, const void *what), const void *what)
{
    for (size_t i = 0; i < KEY_BUCKETS; i++) {
        struct key_entry **link = &map->buckets[i];
        while (*link != NULL) {
            struct key_entry *entry = *link;
            if (stale != NULL && !stale(entry->key, what)) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry->key);
            free(entry->value);
            free(entry);
        }
    }
}
