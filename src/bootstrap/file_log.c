#include "bootstrap/file_log.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char magic[8] = { 0x93, 'P', 'L', 'A', 'I', 'T', 'F', 1 };

void log_put_number(unsigned char bytes[8], uint64_t number)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
}

uint64_t log_get_number(const unsigned char bytes[8])
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

void log_put_header(unsigned char *bytes, uint64_t epoch)
{
    memcpy(bytes, magic, sizeof magic);
    log_put_number(bytes + 8, epoch);
}

enum log_check log_check_header(const unsigned char *bytes, size_t size, uint64_t *epoch)
{
    size_t known = size < sizeof magic ? size : sizeof magic;
    if (known > 0 && memcmp(bytes, magic, known) != 0)
        return LOG_FOREIGN;
    if (size < LOG_HEADER_BYTES)
        return LOG_EMPTY;
    *epoch = log_get_number(bytes + 8);
    return LOG_OURS;
}

/* Against accidents, not against enemies: those who may write the file are trusted. */
static void checksum(const unsigned char *record, size_t size, unsigned char sum[8])
{
    static const unsigned char key[crypto_shorthash_KEYBYTES] = "plait file log";
    _Static_assert(crypto_shorthash_BYTES == 8, "the checksum's size");
    crypto_shorthash(sum, record + 8, size - 8, key);
}

size_t log_record_size(size_t key_size, size_t value_size)
{
    return LOG_RECORD_BYTES + key_size + value_size;
}

void log_put_record(unsigned char *bytes, enum log_kind kind, const char *key, const void *value, size_t size)
{
    size_t key_size = strlen(key);
    memset(bytes, 0, LOG_RECORD_BYTES);
    bytes[8] = (unsigned char)kind;
    bytes[9] = (unsigned char)key_size;
    for (int i = 0; i < 4; i++)
        bytes[12 + i] = (unsigned char)(size >> (8 * i));
    memcpy(bytes + LOG_RECORD_BYTES, key, key_size);
    if (size > 0)
        memcpy(bytes + LOG_RECORD_BYTES + key_size, value, size);
    checksum(bytes, log_record_size(key_size, size), bytes);
}

static bool printable(const char *key, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (key[i] < '!' || key[i] > '~')
            return false;
    return size > 0;
}

/* The size of the record at `bytes`, 0 if it is cut short or damaged. */
static size_t record_at(const unsigned char *bytes, size_t left)
{
    if (left < LOG_RECORD_BYTES)
        return 0;
    size_t key_size = bytes[9];
    size_t value_size = log_get_number(bytes + 8) >> 32;
    size_t size = log_record_size(key_size, value_size);
    if (key_size > 127 || value_size > LOG_VALUE_MAX || size > left)
        return 0;
    if (!printable((const char *)bytes + LOG_RECORD_BYTES, key_size))
        return 0;
    if (bytes[8] != LOG_VALUE && !(bytes[8] == LOG_COUNT && value_size == 8))
        return 0;
    unsigned char sum[8];
    checksum(bytes, size, sum);
    return memcmp(sum, bytes, sizeof sum) == 0 ? size : 0;
}

static bool apply_record(const unsigned char *bytes, size_t size, struct key_map *map)
{
    size_t key_size = bytes[9];
    const char *key = (const char *)bytes + LOG_RECORD_BYTES;
    const unsigned char *value = bytes + LOG_RECORD_BYTES + key_size;
    if (bytes[8] == LOG_VALUE)
        return key_map_set(map, key, key_size, value, size - LOG_RECORD_BYTES - key_size);
    int64_t count;
    if (!key_map_add(map, key, key_size, 0, &count))
        return false;
    key_map_find(map, key, key_size)->count = (int64_t)log_get_number(value);
    return true;
}

size_t log_apply(const unsigned char *bytes, size_t size, struct key_map *map)
{
    size_t used = 0, record;
    while ((record = record_at(bytes + used, size - used)) > 0) {
        if (!apply_record(bytes + used, record, map))
            return SIZE_MAX;
        used += record;
    }
    return used;
}

static size_t put_entry(unsigned char *bytes, const struct key_entry *entry)
{
    size_t key_size = strlen(entry->key), size = 0;
    unsigned char count[8];
    if (entry->value != NULL) {
        if (bytes != NULL)
            log_put_record(bytes, LOG_VALUE, entry->key, entry->value, entry->size);
        size = log_record_size(key_size, entry->size);
    }
    if (entry->value == NULL || entry->count != 0) {
        log_put_number(count, (uint64_t)entry->count);
        if (bytes != NULL)
            log_put_record(bytes + size, LOG_COUNT, entry->key, count, sizeof count);
        size += log_record_size(key_size, sizeof count);
    }
    return size;
}

unsigned char *log_of_map(const struct key_map *map, uint64_t epoch, size_t *size)
{
    *size = LOG_HEADER_BYTES;
    for (size_t i = 0; i < KEY_BUCKETS; i++)
        for (const struct key_entry *entry = map->buckets[i]; entry != NULL; entry = entry->next)
            *size += put_entry(NULL, entry);
    unsigned char *bytes = malloc(*size);
    if (bytes == NULL)
        return NULL;
    log_put_header(bytes, epoch);
    size_t used = LOG_HEADER_BYTES;
    for (size_t i = 0; i < KEY_BUCKETS; i++)
        for (const struct key_entry *entry = map->buckets[i]; entry != NULL; entry = entry->next)
            used += put_entry(bytes + used, entry);
    return bytes;
}
