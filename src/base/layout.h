/* Layouts: how long the blocks of an uneven collective are, and where they lie in their buffers. */
#ifndef PLAIT_BASE_LAYOUT_H
#define PLAIT_BASE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum layout_side { LAYOUT_INPUT, LAYOUT_OUTPUT };

/* One piece of memory without pointers into itself, so it may be copied. A side with one block, as an
 * all-gatherv's input, has it at place 0; a side that this rank does not have is all zero. */
struct layout {
    int ranks;
    size_t total;   /* elements handed in or taken, whichever are more; for people */
    uint64_t print; /* of the counts, where all ranks must give the same; 0 where each gives its own */
    size_t numbers
        []; /* `ranks` of each: counts of the input, firsts of the input, counts and firsts of the output */
};

/* Bytes of a layout for so many ranks. */
static inline size_t layout_size(int ranks)
{
    return sizeof(struct layout) + 4 * (size_t)ranks * sizeof(size_t);
}

static inline struct span layout_block(const struct layout *layout, enum layout_side side, int block)
{
    size_t ranks = (size_t)layout->ranks, at = (size_t)side * 2 * ranks + (size_t)block;
    return (struct span){ .first = layout->numbers[at + ranks], .count = layout->numbers[at] };
}

static inline void layout_set(struct layout *layout, enum layout_side side, int block, struct span span)
{
    size_t ranks = (size_t)layout->ranks, at = (size_t)side * 2 * ranks + (size_t)block;
    layout->numbers[at] = span.count;
    layout->numbers[at + ranks] = span.first;
}

#endif
