/* The bytes of a file store: a header, then records that are only ever added. Pure
 * functions. A record counts when its checksum does: whoever crashed while writing
 * leaves a tail that ends the log, and the next writer cuts it off. */
#ifndef PLAIT_BOOTSTRAP_FILE_LOG_H
#define PLAIT_BOOTSTRAP_FILE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "bootstrap/key_map.h"

enum {
    LOG_HEADER_BYTES = 16, /* magic 8, epoch 8: drawn anew whenever the file is rewritten */
    LOG_RECORD_BYTES = 16, /* checksum 8, kind 1, key's size 1, zero 2, value's size 4; then key, value */
    LOG_VALUE_MAX = 1 << 30
};

enum log_kind { LOG_VALUE = 1, LOG_COUNT = 2 };
enum log_check { LOG_OURS, LOG_EMPTY, LOG_FOREIGN };

void log_put_header(unsigned char *bytes, uint64_t epoch);
/* LOG_EMPTY: nothing yet, or a header that was cut short. */
enum log_check log_check_header(const unsigned char *bytes, size_t size, uint64_t *epoch);

size_t log_record_size(size_t key_size, size_t value_size);
void log_put_record(unsigned char *bytes, enum log_kind kind, const char *key, const void *value,
                    size_t size);

/* Applies whole, good records to the map; returns the bytes they take. SIZE_MAX: out of memory. */
size_t log_apply(const unsigned char *bytes, size_t size, struct key_map *map);

/* The whole file for a map: malloc'd, NULL when out of memory. */
unsigned char *log_of_map(const struct key_map *map, uint64_t epoch, size_t *size);

void log_put_number(unsigned char bytes[8], uint64_t number);
uint64_t log_get_number(const unsigned char bytes[8]);

#endif
