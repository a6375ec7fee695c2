/* The reference: one element at a time, in plain C. Compiled without contraction, so that no build fuses a
 * multiplication with an addition and rounds differently from the others. */
#include "device/half.h"
#include "device/reduce_set.h"

/* ------------------------------------------------------------ integers: modulo 2^bits */

/* `wide` holds every value of the type and every divisor. */
#define INTEGER(type, element, modular, wide)                                                                \
    static inline element add_##type(element a, element b)                                                   \
    {                                                                                                        \
        return (element)((modular)a + (modular)b);                                                           \
    }                                                                                                        \
    static inline element multiply_##type(element a, element b)                                              \
    {                                                                                                        \
        return (element)((modular)a * (modular)b);                                                           \
    }                                                                                                        \
    static inline element least_##type(element a, element b)                                                 \
    {                                                                                                        \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    static inline element most_##type(element a, element b)                                                  \
    {                                                                                                        \
        return b > a ? b : a;                                                                                \
    }                                                                                                        \
    static inline element divide_##type(element value, unsigned by)                                          \
    {                                                                                                        \
        return (element)((wide)value / (wide)by);                                                            \
    }                                                                                                        \
    static inline element seal_##type(element value)                                                         \
    {                                                                                                        \
        return value;                                                                                        \
    }

INTEGER(i8, int8_t, uint8_t, int64_t)
INTEGER(u8, uint8_t, uint8_t, uint32_t)
INTEGER(i32, int32_t, uint32_t, int64_t)
INTEGER(u32, uint32_t, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t, int64_t)
INTEGER(u64, uint64_t, uint64_t, uint64_t)

/* ------------------------------------------- floats: canonical NaNs, -0 below +0 */

#define FLOAT(type, element, negative, canonical)                                                            \
    static inline element seal_##type(element value)                                                         \
    {                                                                                                        \
        return value != value ? canonical : value;                                                           \
    }                                                                                                        \
    static inline element add_##type(element a, element b)                                                   \
    {                                                                                                        \
        return a + b;                                                                                        \
    }                                                                                                        \
    static inline element multiply_##type(element a, element b)                                              \
    {                                                                                                        \
        return a * b;                                                                                        \
    }                                                                                                        \
    static inline element least_##type(element a, element b)                                                 \
    {                                                                                                        \
        if (a != a || b != b)                                                                                \
            return canonical;                                                                                \
        return a < b || (a == b && negative(a)) ? a : b;                                                     \
    }                                                                                                        \
    static inline element most_##type(element a, element b)                                                  \
    {                                                                                                        \
        if (a != a || b != b)                                                                                \
            return canonical;                                                                                \
        return a > b || (a == b && !negative(a)) ? a : b;                                                    \
    }                                                                                                        \
    static inline element divide_##type(element value, unsigned by)                                          \
    {                                                                                                        \
        return value / (element)by;                                                                          \
    }

static inline double f64_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

FLOAT(f32, float, __builtin_signbit, f32_of_bits(F32_NAN))
FLOAT(f64, double, __builtin_signbit, f64_of_bits(F64_NAN))

/* -------------------------------------------------------- memory, of any alignment */

/* An array's element as it is stored, and a result's on its way to both places. */
#define MEMORY(type, element)                                                                                \
    static inline element raw_##type(const void *array, size_t i)                                            \
    {                                                                                                        \
        element value;                                                                                       \
        memcpy(&value, (const char *)array + i * sizeof value, sizeof value);                                \
        return value;                                                                                        \
    }                                                                                                        \
    static inline void put_##type(const struct reduction *r, size_t i, element value)                        \
    {                                                                                                        \
        memcpy((char *)r->result + i * sizeof value, &value, sizeof value);                                  \
        if (r->copy != NULL)                                                                                 \
            memcpy((char *)r->copy + i * sizeof value, &value, sizeof value);                                \
    }

MEMORY(i8, int8_t)
MEMORY(u8, uint8_t)
MEMORY(i32, int32_t)
MEMORY(u32, uint32_t)
MEMORY(i64, int64_t)
MEMORY(u64, uint64_t)
MEMORY(f16, uint16_t)
MEMORY(bf16, uint16_t)
MEMORY(f32, float)
MEMORY(f64, double)

#define SAME(value) (value)

/* ------------------------------------------------------------------------ kernels */

/* `work` is the type that is folded in, by `fold`; `widen` and `narrow` lead there and back. */
#define KERNEL(op, type, work, element, fold, widen, narrow)                                                 \
    REDUCE_SCALAR_PART(op##_##type)                                                                          \
    {                                                                                                        \
        const struct reduction *r = reduction;                                                               \
        for (size_t i = first; i < end; i++) {                                                               \
            element value = widen(raw_##type(r->sources[0], i));                                             \
            for (int s = 1; s < r->source_count; s++)                                                        \
                value = fold##_##work(value, widen(raw_##type(r->sources[s], i)));                           \
            if (r->divide > 1)                                                                               \
                value = divide_##work(value, r->divide);                                                     \
            put_##type(r, i, narrow(seal_##work(value)));                                                    \
        }                                                                                                    \
    }                                                                                                        \
    static void op##_##type(const struct reduction *r)                                                       \
    {                                                                                                        \
        reduce_scalar_##op##_##type(r, 0, r->count);                                                         \
    }

#define KERNELS(type, work, element, widen, narrow)                                                          \
    KERNEL(sum, type, work, element, add, widen, narrow)                                                     \
    KERNEL(product, type, work, element, multiply, widen, narrow)                                            \
    KERNEL(min, type, work, element, least, widen, narrow)                                                   \
    KERNEL(max, type, work, element, most, widen, narrow)

KERNELS(i8, i8, int8_t, SAME, SAME)
KERNELS(u8, u8, uint8_t, SAME, SAME)
KERNELS(i32, i32, int32_t, SAME, SAME)
KERNELS(u32, u32, uint32_t, SAME, SAME)
KERNELS(i64, i64, int64_t, SAME, SAME)
KERNELS(u64, u64, uint64_t, SAME, SAME)
KERNELS(f16, f32, float, f32_of_f16, f16_of_f32)
KERNELS(bf16, f32, float, f32_of_bf16, bf16_of_f32)
KERNELS(f32, f32, float, SAME, SAME)
KERNELS(f64, f64, double, SAME, SAME)

#define CONVERSIONS(type)                                                                                    \
    REDUCE_SCALAR_PART(widen_##type)                                                                         \
    {                                                                                                        \
        for (size_t i = first; i < end; i++)                                                                 \
            put_f32(reduction, i, f32_of_##type(raw_##type(reduction->sources[0], i)));                      \
    }                                                                                                        \
    REDUCE_SCALAR_PART(narrow_##type)                                                                        \
    {                                                                                                        \
        for (size_t i = first; i < end; i++) {                                                               \
            float value = raw_f32(reduction->sources[0], i);                                                 \
            if (reduction->divide > 1)                                                                       \
                value = divide_f32(value, reduction->divide);                                                \
            put_##type(reduction, i, type##_of_f32(value));                                                  \
        }                                                                                                    \
    }                                                                                                        \
    static void widen_##type(const struct reduction *r)                                                      \
    {                                                                                                        \
        reduce_scalar_widen_##type(r, 0, r->count);                                                          \
    }                                                                                                        \
    static void narrow_##type(const struct reduction *r)                                                     \
    {                                                                                                        \
        reduce_scalar_narrow_##type(r, 0, r->count);                                                         \
    }

CONVERSIONS(f16)
CONVERSIONS(bf16)

static bool usable(void)
{
    return true;
}

const struct reduce_set reduce_set_scalar = {
    .name = "scalar",
    .usable = usable,
    REDUCE_SET_KERNELS,
};
