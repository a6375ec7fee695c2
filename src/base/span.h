/* A run of elements, and how one is dealt out in parts. */
#ifndef PLAIT_BASE_SPAN_H
#define PLAIT_BASE_SPAN_H

#include <stddef.h>

struct span {
    size_t first; /* index of its first element */
    size_t count; /* elements */
};

/* Part `part` of `count` elements dealt to `parts`. Parts differ by one grain
 * at most; a grain is 64 elements where there are enough, so that two ranks
 * never write into one cache line and vector loops start aligned. */
static inline struct span span_part(size_t count, int parts, int part)
{
    size_t grain = count / (size_t)parts >= 64 ? 64 : 1;
    size_t grains = count / grain, each = grains / (size_t)parts, more = grains % (size_t)parts;
    size_t index = (size_t)part;
    struct span span = { .first = (index * each + (index < more ? index : more)) * grain,
                         .count = (each + (index < more)) * grain };
    if (part == parts - 1)
        span.count = count - span.first; /* the rest that fills no grain */
    return span;
}

#endif
