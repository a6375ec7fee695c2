/* Reduction kernels: one result from several sources, element by element.
 *
 * The scalar file is the reference; every vector file gives its bits. A kernel folds its sources from
 * left to right: ((s0 op s1) op s2) ..., which is the order a plan states. docs/types.md has the rules of
 * each operation. Floats of 8 and 16 bits are widened to float32, folded there, and rounded once (to
 * nearest, ties to even). MIN and MAX propagate NaN (a quiet NaN of canonical bits comes out) and order
 * -0 below +0. `divide` > 1 divides the folded value, once, before it is rounded: a true division for floats
 * (float32 for 8- and 16-bit types), truncating for integers. NaN results of SUM and PRODUCT are made
 * canonical (sign 0, quiet bit only), so that every rank gets the same bits whatever the operand order. */
#ifndef PLAIT_DEVICE_REDUCE_H
#define PLAIT_DEVICE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include "plait.h"

struct reduction {
    void *result;               /* `count` elements; may equal any source, must not overlap one otherwise */
    void *copy;                 /* a second place for the result, or NULL */
    const void *const *sources; /* `source_count` >= 1 arrays of `count` elements */
    int source_count;
    size_t count;
    unsigned divide;  /* 0 or 1: don't */
    /* Write `result`, or else `copy`, past the caches (non-temporal stores, fenced before return). */
    bool stream_result, stream_copy;
};

typedef void (*reduce_fn)(const struct reduction *reduction);

/* The fastest kernel of this machine, or NULL where plait_type_reduces() says
 * no. For AVERAGE this is SUM's kernel; the caller sets `divide`. Any alignment. */
reduce_fn reduce_find(plait_type type, plait_op op);

/* The scalar reference. */
reduce_fn reduce_reference(plait_type type, plait_op op);

/* Widens `count` elements of `type` into its accumulator (element.h), or copies when they
 * are the same; to == from is fine then. */
void reduce_widen(plait_type type, void *to, const void *from, size_t count);

/* Narrows accumulators back to `type`, dividing first when `divide` > 1; rounds once.
 * In place (to == from) is fine when the two types are the same. */
void reduce_narrow(plait_type type, void *to, const void *from, size_t count, unsigned divide);

/* "avx512", "avx2", "neon" or "scalar": the set reduce_find() serves from. PLAIT_KERNELS picks one by
 * name; choose it with reduce_use() before the first reduce_find(). */
const char *reduce_set_name(void);

/* Switches to the set called `name` ("auto" for the best). False if this
 * machine or build does not have it. Not safe beside running kernels. */
bool reduce_use(const char *name);

#endif
