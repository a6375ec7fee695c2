/* A file store's content: any bytes as a whole file, as records, and a log that was cut and bent. What is
 * read must be the same when it is written out and read again. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/file_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int holds)
{
    if (!holds)
        abort();
}

/* Reads a log, writes what it held, and reads that. */
static size_t read_twice(const uint8_t *bytes, size_t size)
{
    struct key_map map = { { NULL } }, again = { { NULL } };
    uint64_t epoch;
    size_t used = log_apply(bytes, size, &map), whole;
    expect(used <= size);
    unsigned char *log = log_of_map(&map, 7, &whole);
    expect(log != NULL && log_check_header(log, whole, &epoch) == LOG_OURS && epoch == 7);
    expect(log_apply(log + LOG_HEADER_BYTES, whole - LOG_HEADER_BYTES, &again) == whole - LOG_HEADER_BYTES);
    for (size_t i = 0; i < KEY_BUCKETS; i++) {
        for (const struct key_entry *entry = map.buckets[i]; entry != NULL; entry = entry->next) {
            const struct key_entry *twin = key_map_find(&again, entry->key, strlen(entry->key));
            expect(twin != NULL && twin->count == entry->count &&
                   (twin->value == NULL) == (entry->value == NULL));
            expect(entry->value == NULL ||
                   (twin->size == entry->size && memcmp(twin->value, entry->value, entry->size) == 0));
        }
    }
    free(log);
    key_map_forget(&map, NULL, NULL);
    key_map_forget(&again, NULL, NULL);
    return used;
}

/* Records made of the input: each takes a byte for its kind and key, one for the value's size. */
static size_t write_records(unsigned char *log, size_t room, const uint8_t *data, size_t size)
{
    size_t used = 0;
    char key[] = "plait/1/card/0";
    while (size >= 2) {
        size_t kind = data[0] & 1 ? LOG_COUNT : LOG_VALUE;
        size_t value = kind == LOG_COUNT ? 8 : data[1];
        if (value > size - 2 || used + log_record_size(sizeof key - 1, value) > room)
            break;
        key[sizeof key - 2] = (char)('0' + data[0] / 2 % 8);
        log_put_record(log + used, (enum log_kind)kind, key, data + 2, value);
        used += log_record_size(sizeof key - 1, value);
        data += 2 + value;
        size -= 2 + value;
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char log[1 << 16];
    uint64_t epoch;
    if (sodium_init() < 0)
        abort();
    log_check_header(data, size, &epoch);
    read_twice(data, size);
    if (size < 4)
        return 0;
    size_t used = write_records(log, sizeof log, data + 4, size - 4);
    expect(read_twice(log, used) == used); /* whole */
    if (used == 0)
        return 0;
    size_t at = (data[0] | (size_t)data[1] << 8) % used;
    expect(read_twice(log, at) <= at); /* cut */
    log[at] ^= data[2];
    expect(read_twice(log, used) <= (data[2] == 0 ? used : at)); /* bent: nothing from there on counts */
    return 0;
}
