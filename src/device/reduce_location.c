/* Minimum and maximum with location, for pairs of a value and its index. Of equal values (zeros of both signs
 * are) the lowest index wins, and so it does among NaNs, which win over all numbers. These loops are as fast as
 * memory for the short arrays they are used on, so all sets share them. */
#include "device/half.h"
#include "device/reduce_set.h"

#define NO_NAN(value) false
#define IS_NAN(value) ((value) != (value))

#define PAIR(type, value_type, index_type, is_nan, canonical)                                                \
    struct pair_##type {                                                                                     \
        value_type value;                                                                                    \
        index_type index;                                                                                    \
    };                                                                                                       \
    static inline bool prior_##type(struct pair_##type a, struct pair_##type b, bool before)                 \
    {                                                                                                        \
        if (is_nan(a.value) || is_nan(b.value))                                                              \
            return is_nan(a.value) && (!is_nan(b.value) || a.index <= b.index);                              \
        return before || (a.value == b.value && a.index <= b.index);                                         \
    }                                                                                                        \
    LOCATION(min, type, <, is_nan, canonical)                                                                \
    LOCATION(max, type, >, is_nan, canonical)

#define LOCATION(op, type, before, is_nan, canonical)                                                        \
    void reduce_##op##_location_##type(const struct reduction *r)                                            \
    {                                                                                                        \
        for (size_t i = 0; i < r->count; i++) {                                                              \
            struct pair_##type best, next;                                                                   \
            memcpy(&best, (const char *)r->sources[0] + i * sizeof best, sizeof best);                       \
            for (int s = 1; s < r->source_count; s++) {                                                      \
                memcpy(&next, (const char *)r->sources[s] + i * sizeof next, sizeof next);                   \
                if (!prior_##type(best, next, best.value before next.value))                                 \
                    best = next;                                                                             \
            }                                                                                                \
            if (is_nan(best.value))                                                                          \
                best.value = canonical;                                                                      \
            memcpy((char *)r->result + i * sizeof best, &best, sizeof best);                                 \
            if (r->copy != NULL)                                                                             \
                memcpy((char *)r->copy + i * sizeof best, &best, sizeof best);                               \
        }                                                                                                    \
    }

PAIR(f32_i32, float, int32_t, IS_NAN, f32_of_bits(F32_NAN))
PAIR(f64_i64, double, int64_t, IS_NAN, f64_of_bits(F64_NAN))
PAIR(i32_i32, int32_t, int32_t, NO_NAN, 0)
PAIR(i64_i64, int64_t, int64_t, NO_NAN, 0)
