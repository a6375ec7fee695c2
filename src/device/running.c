#include "device/running.h"

#include "base/element.h"
#include "device/reduce.h"

enum { PIECE = 512 }; /* elements; the accumulators of so many stay in the first-level cache */

static void fold(plait_type type, plait_op op, void *result, const void *left, const void *right,
                 size_t count)
{
    const void *sources[2] = { left, right };
    struct reduction reduction = {
        .result = result, .sources = sources, .source_count = right != NULL ? 2 : 1, .count = count
    };
    reduce_find(type, op)(&reduction);
}

/* A piece of elements that are their own accumulators: each result is made from the one before. */
static void run_plain(plait_type type, plait_op op, char *result, size_t stride, const void *const *sources,
                      int source_count, size_t at, size_t count)
{
    for (int i = 0; i < source_count; i++, result += stride) {
        const char *source = (const char *)sources[i] + at;
        if (i == 0)
            fold(type, op, result, source, NULL, count);
        else
            fold(type, op, result, result - stride, source, count);
    }
}

/* A piece of elements that are folded in float32: only what leaves is rounded. */
static void run_widened(plait_type type, plait_op op, char *result, size_t stride, const void *const *sources,
                        int source_count, size_t at, size_t count)
{
    float sum[PIECE], next[PIECE];
    plait_type wide = element_accumulator(type);
    for (int i = 0; i < source_count; i++, result += stride) {
        reduce_widen(type, i == 0 ? sum : next, (const char *)sources[i] + at, count);
        if (i == 0)
            fold(wide, op, sum, sum, NULL, count);
        else
            fold(wide, op, sum, sum, next, count);
        reduce_narrow(type, result, sum, count, 0);
    }
}

void reduce_running(plait_type type, plait_op op, void *first_result, size_t stride,
                    const void *const *sources, int source_count, size_t count)
{
    size_t element = plait_type_size(type);
    bool plain = element_accumulator(type) == type;
    for (size_t done = 0; done < count; done += PIECE) {
        size_t piece = count - done < PIECE ? count - done : PIECE, at = done * element;
        char *result = (char *)first_result + at;
        if (plain)
            run_plain(type, op, result, stride, sources, source_count, at, piece);
        else
            run_widened(type, op, result, stride, sources, source_count, at, piece);
    }
}
