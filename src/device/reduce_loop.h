/* The loop that every vector set runs, over whatever `vec` the including file has defined. It is inlined into
 * each kernel, where format, fold and source count are constants, so nothing is left of its indirections. */
#ifndef PLAIT_DEVICE_REDUCE_LOOP_H
#define PLAIT_DEVICE_REDUCE_LOOP_H

#include <stdint.h>

#include "device/reduce_set.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* How elements lie in memory, and what happens to a folded vector on its way there. */
struct format {
    size_t from_size; /* bytes of an element in the sources */
    size_t to_size;   /* bytes of an element in result and copy */
    size_t lanes;     /* elements of a vec */
    size_t few;       /* up to so many elements scalar code wins over setting up the vectors */
    vec (*load)(const char *from);
    vec (*load_part)(const char *from, size_t count); /* the first `count` < lanes; NULL: no masks here */
    vec (*divide)(vec value, unsigned by);            /* NULL for integers: the scalar kernel divides */
    vec (*seal)(vec value);                           /* canonical NaNs; rounds to what is stored */
    void (*store)(char *to, vec value);
    void (*store_part)(char *to, vec value, size_t count);
    /* Stores a block; with `stream` past the caches, and then `to` is aligned to a line. */
    void (*store_block)(char *to, vec a, vec b, vec c, vec d, bool stream);
};

typedef vec (*fold_fn)(vec a, vec b);

enum {
    LINE = 64, /* bytes of a cache line */
    /* Bytes to prefetch ahead. Measured between two cores: 4 KiB beats 1 KiB by a quarter, since it also
     * crosses the page ends at which the processor's own prefetching stops. */
    AHEAD = 4096,
    UNROLL = 4, /* vectors in flight */
    /* Copies smaller than this in bytes are not streamed: the fence costs more than it saves. */
    STREAMED = 256
};

static ALWAYS_INLINE void prefetch(const char *from, size_t size)
{
    for (size_t i = 0; i < size; i += LINE)
        __builtin_prefetch(from + AHEAD + i, 0, 3);
}

/* Whole blocks of UNROLL vectors from `first` on; returns where it stopped. Accumulators stay in registers
 * across all sources, so every byte is read once and written once. */
static ALWAYS_INLINE size_t reduce_blocks(const struct reduction *r, const struct format *f, fold_fn fold,
                                          int source_count, size_t first, bool stream)
{
    const bool stream_result = stream && r->stream_result, stream_copy = stream && !r->stream_result;
    const size_t block = UNROLL * f->lanes;
    const size_t in = f->lanes * f->from_size;
    const void *two[2] = { r->sources[0], r->sources[source_count > 1] };
    const void *const *sources = source_count <= 2 ? two : r->sources;
    char *result = r->result, *copy = r->copy;
    const unsigned divide = r->divide;
    const size_t reach = block + AHEAD / f->from_size;

    for (; r->count - first >= block; first += block) {
        /* Prefetch within the source only: behind its end may lie what another core is writing. What is
         * reduced in place was written here before and is near, unless it was streamed. */
        const bool ahead = r->count - first >= reach;
        const char *from = (const char *)sources[0] + first * f->from_size;
        if (ahead && (sources[0] != result || stream_result))
            prefetch(from, UNROLL * in);
        vec a = f->load(from), b = f->load(from + in), c = f->load(from + 2 * in), d = f->load(from + 3 * in);
        for (int s = 1; s < source_count; s++) {
            from = (const char *)sources[s] + first * f->from_size;
            if (ahead && (sources[s] != result || stream_result))
                prefetch(from, UNROLL * in);
            a = fold(a, f->load(from));
            b = fold(b, f->load(from + in));
            c = fold(c, f->load(from + 2 * in));
            d = fold(d, f->load(from + 3 * in));
        }
        if (f->divide != NULL && divide > 1) {
            a = f->divide(a, divide);
            b = f->divide(b, divide);
            c = f->divide(c, divide);
            d = f->divide(d, divide);
        }
        a = f->seal(a);
        b = f->seal(b);
        c = f->seal(c);
        d = f->seal(d);
        f->store_block(result + first * f->to_size, a, b, c, d, stream_result);
        if (copy != NULL)
            f->store_block(copy + first * f->to_size, a, b, c, d, stream_copy);
    }
    return first;
}

/* One vector, or with `part` > 0 the first `part` elements of one. */
static ALWAYS_INLINE void reduce_vector(const struct reduction *r, const struct format *f, fold_fn fold,
                                        int source_count, size_t first, size_t part)
{
    size_t at = first * f->from_size;
    vec value = { 0 };
    for (int s = 0; s < source_count; s++) {
        const char *from = (const char *)r->sources[s] + at;
        vec next = part > 0 ? f->load_part(from, part) : f->load(from);
        value = s == 0 ? next : fold(value, next);
    }
    if (f->divide != NULL && r->divide > 1)
        value = f->divide(value, r->divide);
    value = f->seal(value);

    char *const places[2] = { r->result, r->copy };
    for (int i = 0; i < 2 && places[i] != NULL; i++) {
        char *to = places[i] + first * f->to_size;
        if (part > 0)
            f->store_part(to, value, part);
        else
            f->store(to, value);
    }
}

static ALWAYS_INLINE void reduce_all(const struct reduction *r, const struct format *f, fold_fn fold,
                                     reduce_part_fn scalar, int source_count, size_t first, bool stream)
{
    first = reduce_blocks(r, f, fold, source_count, first, stream);
    for (; r->count - first >= f->lanes; first += f->lanes)
        reduce_vector(r, f, fold, source_count, first, 0);
    if (first == r->count)
        return;
    if (f->load_part != NULL)
        reduce_vector(r, f, fold, source_count, first, r->count - first);
    else
        scalar(r, first, r->count);
}

/* How many elements come before the first whole line of `streamed`; more than there are when its address is not a
 * multiple of the element's size, so that no line begins with an element. */
static ALWAYS_INLINE size_t stream_head(const void *streamed, const struct format *f)
{
    size_t size = -(uintptr_t)streamed % LINE;
    return size % f->to_size == 0 ? size / f->to_size : SIZE_MAX;
}

static ALWAYS_INLINE void reduce_run(const struct reduction *r, const struct format *f, fold_fn fold,
                                     reduce_part_fn scalar)
{
    if (r->count <= f->few || (f->divide == NULL && r->divide > 1)) {
        scalar(r, 0, r->count);
        return;
    }
    size_t head = 0;
    bool stream = false;
    const void *streamed = r->stream_result ? r->result : r->stream_copy ? r->copy : NULL;
    if (streamed != NULL && r->count * f->to_size >= STREAMED) {
        head = stream_head(streamed, f);
        stream = head < r->count;
        if (!stream)
            head = 0;
        else if (head > 0)
            scalar(r, 0, head);
    }
    /* Nearly all reductions have two sources; with their number known, the pointers stay in registers. */
    if (r->source_count == 2)
        reduce_all(r, f, fold, scalar, 2, head, stream);
    else
        reduce_all(r, f, fold, scalar, r->source_count, head, stream);
    if (stream)
        stream_fence();
}

#define REDUCE_KERNEL(op, type, format, fold)                                                                \
    static void op##_##type(const struct reduction *r)                                                       \
    {                                                                                                        \
        reduce_run(r, &format, fold, reduce_scalar_##op##_##type);                                           \
    }

#define REDUCE_KERNELS(type, format, add, multiply, least, most)                                             \
    REDUCE_KERNEL(sum, type, format, add)                                                                    \
    REDUCE_KERNEL(product, type, format, multiply)                                                           \
    REDUCE_KERNEL(min, type, format, least)                                                                  \
    REDUCE_KERNEL(max, type, format, most)

#define REDUCE_LOGIC(width)                                                                                  \
    REDUCE_KERNEL(bit_and, width, bits##width, bits_both)                                                    \
    REDUCE_KERNEL(bit_or, width, bits##width, bits_either)                                                   \
    REDUCE_KERNEL(bit_xor, width, bits##width, bits_unlike)                                                  \
    REDUCE_KERNEL(and, width, truth##width, both_##width)                                                    \
    REDUCE_KERNEL(or, width, truth##width, bits_either)                                                      \
    REDUCE_KERNEL(xor, width, truth##width, unlike_##width)

/* A change of format: one source, and so nothing to fold. */
#define REDUCE_CONVERSION(name, format)                                                                      \
    static void name(const struct reduction *r)                                                              \
    {                                                                                                        \
        reduce_all(r, &format, NULL, reduce_scalar_##name, 1, 0, false);                                     \
    }

#define REDUCE_CONVERSIONS(type)                                                                             \
    REDUCE_CONVERSION(widen_##type, widening_##type)                                                         \
    REDUCE_CONVERSION(narrow_##type, narrowing_##type)

#endif
