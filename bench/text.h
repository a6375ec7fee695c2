/* Numbers and strings as people and scripts read them. */
#ifndef PLAIT_BENCH_TEXT_H
#define PLAIT_BENCH_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Four digits, whatever the magnitude, right-aligned in `width`. */
void text_number(FILE *stream, int width, double value);

/* "64 KiB", "1.5 MiB"; `text` has room for TEXT_SIZE_BYTES. Returns it. */
enum { TEXT_SIZE_BYTES = 32 };
const char *text_size(size_t size, char *text);

/* "text", or null for NULL. */
void json_string(FILE *stream, const char *text);

/* , "name": value; null for what is no number. */
void json_number(FILE *stream, const char *name, double value);

#endif
