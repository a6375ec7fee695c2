/* Buffers between two pages that nobody may touch: a byte read or written outside is a fault
 * at the very instruction. What the page's size leaves on the other side is filled and checked. */
#ifndef PLAIT_TESTS_GUARDED_H
#define PLAIT_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

struct guarded {
    unsigned char *room; /* between the two pages */
    size_t room_size;
    unsigned char *data; /* as placed last */
    size_t size;
};

/* Room for `size` bytes; false if there is no memory. */
bool guarded_open(struct guarded *guarded, size_t size);
void guarded_close(struct guarded *guarded);

/* Places a buffer of `size` bytes: its end `shift` bytes before the upper page, or its
 * start `shift` bytes after the lower one. */
void *guarded_place(struct guarded *guarded, size_t size, size_t shift, bool upper);

/* While sealed, the buffer can be read only. */
void guarded_seal(struct guarded *guarded, bool sealed);

/* Are the filled bytes around the buffer as they were? */
bool guarded_intact(const struct guarded *guarded);

#endif
