/* The reference: one element at a time, in plain C. Compiled without contraction, so that no build fuses a
 * multiplication with an addition and rounds differently from the others. */
#include "device/float8.h"
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
INTEGER(i16, int16_t, uint32_t, int64_t)
INTEGER(u16, uint16_t, uint32_t, uint32_t)
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

FLOAT(f32, float, __builtin_signbit, f32_of_bits(F32_NAN))
FLOAT(f64, double, __builtin_signbit, f64_of_bits(F64_NAN))

/* ------------------------------------------------ complex: each part a float of its own */

#define COMPLEX(type, part)                                                                                  \
    struct type {                                                                                            \
        part re, im;                                                                                         \
    };                                                                                                       \
    static inline struct type seal_##type(struct type value)                                                 \
    {                                                                                                        \
        return (struct type){ SEAL_##type(value.re), SEAL_##type(value.im) };                                \
    }                                                                                                        \
    static inline struct type add_##type(struct type a, struct type b)                                       \
    {                                                                                                        \
        return (struct type){ a.re + b.re, a.im + b.im };                                                    \
    }                                                                                                        \
    static inline struct type multiply_##type(struct type a, struct type b)                                  \
    {                                                                                                        \
        return (struct type){ a.re * b.re - a.im * b.im, a.im * b.re + a.re * b.im };                        \
    }                                                                                                        \
    static inline struct type divide_##type(struct type value, unsigned by)                                  \
    {                                                                                                        \
        return (struct type){ value.re / (part)by, value.im / (part)by };                                    \
    }

#define SEAL_c64 seal_f32
#define SEAL_c128 seal_f64
COMPLEX(c64, float)
COMPLEX(c128, double)

/* -------------------------------------------------------- bits and truth, whatever the sign */

#define LOGIC(bits)                                                                                          \
    static inline uint##bits##_t both_##bits(uint##bits##_t a, uint##bits##_t b)                             \
    {                                                                                                        \
        return a & b;                                                                                        \
    }                                                                                                        \
    static inline uint##bits##_t either_##bits(uint##bits##_t a, uint##bits##_t b)                           \
    {                                                                                                        \
        return a | b;                                                                                        \
    }                                                                                                        \
    static inline uint##bits##_t unlike_##bits(uint##bits##_t a, uint##bits##_t b)                           \
    {                                                                                                        \
        return a ^ b;                                                                                        \
    }

LOGIC(8)
LOGIC(16)
LOGIC(32)
LOGIC(64)

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
MEMORY(i16, int16_t)
MEMORY(u16, uint16_t)
MEMORY(i32, int32_t)
MEMORY(u32, uint32_t)
MEMORY(i64, int64_t)
MEMORY(u64, uint64_t)
MEMORY(f8e4m3, uint8_t)
MEMORY(f8e5m2, uint8_t)
MEMORY(f16, uint16_t)
MEMORY(bf16, uint16_t)
MEMORY(f32, float)
MEMORY(f64, double)
MEMORY(c64, struct c64)
MEMORY(c128, struct c128)

#define SAME(value) (value)
#define TRUTH(value) ((value) != 0)

/* ------------------------------------------------------------------------ kernels */

/* `memory` is how elements are stored; `work` the type that is folded in, by `fold`; `widen` and `narrow` lead there
 * and back. */
#define KERNEL(name, memory, work, element, fold, widen, narrow)                                             \
    REDUCE_SCALAR_PART(name)                                                                                 \
    {                                                                                                        \
        const struct reduction *r = reduction;                                                               \
        for (size_t i = first; i < end; i++) {                                                               \
            element value = widen(raw_##memory(r->sources[0], i));                                           \
            for (int s = 1; s < r->source_count; s++)                                                        \
                value = fold(value, widen(raw_##memory(r->sources[s], i)));                                  \
            if (r->divide > 1)                                                                               \
                value = divide_##work(value, r->divide);                                                     \
            put_##memory(r, i, narrow(seal_##work(value)));                                                  \
        }                                                                                                    \
    }                                                                                                        \
    static void name(const struct reduction *r)                                                              \
    {                                                                                                        \
        reduce_scalar_##name(r, 0, r->count);                                                                \
    }

#define NUMBER_KERNELS(type, work, element, widen, narrow)                                                   \
    KERNEL(sum_##type, type, work, element, add_##work, widen, narrow)                                       \
    KERNEL(product_##type, type, work, element, multiply_##work, widen, narrow)                              \
    KERNEL(min_##type, type, work, element, least_##work, widen, narrow)                                     \
    KERNEL(max_##type, type, work, element, most_##work, widen, narrow)

NUMBER_KERNELS(i8, i8, int8_t, SAME, SAME)
NUMBER_KERNELS(u8, u8, uint8_t, SAME, SAME)
NUMBER_KERNELS(i16, i16, int16_t, SAME, SAME)
NUMBER_KERNELS(u16, u16, uint16_t, SAME, SAME)
NUMBER_KERNELS(i32, i32, int32_t, SAME, SAME)
NUMBER_KERNELS(u32, u32, uint32_t, SAME, SAME)
NUMBER_KERNELS(i64, i64, int64_t, SAME, SAME)
NUMBER_KERNELS(u64, u64, uint64_t, SAME, SAME)
NUMBER_KERNELS(f8e4m3, f32, float, f32_of_f8e4m3, f8e4m3_of_f32)
NUMBER_KERNELS(f8e5m2, f32, float, f32_of_f8e5m2, f8e5m2_of_f32)
NUMBER_KERNELS(f16, f32, float, f32_of_f16, f16_of_f32)
NUMBER_KERNELS(bf16, f32, float, f32_of_bf16, bf16_of_f32)
NUMBER_KERNELS(f32, f32, float, SAME, SAME)
NUMBER_KERNELS(f64, f64, double, SAME, SAME)

#define LOGIC_KERNELS(bits)                                                                                  \
    KERNEL(bit_and_##bits, u##bits, u##bits, uint##bits##_t, both_##bits, SAME, SAME)                        \
    KERNEL(bit_or_##bits, u##bits, u##bits, uint##bits##_t, either_##bits, SAME, SAME)                       \
    KERNEL(bit_xor_##bits, u##bits, u##bits, uint##bits##_t, unlike_##bits, SAME, SAME)                      \
    KERNEL(and_##bits, u##bits, u##bits, uint##bits##_t, both_##bits, TRUTH, SAME)                           \
    KERNEL(or_##bits, u##bits, u##bits, uint##bits##_t, either_##bits, TRUTH, SAME)                          \
    KERNEL(xor_##bits, u##bits, u##bits, uint##bits##_t, unlike_##bits, TRUTH, SAME)

LOGIC_KERNELS(8)
LOGIC_KERNELS(16)
LOGIC_KERNELS(32)
LOGIC_KERNELS(64)

#define COMPLEX_KERNELS(type)                                                                                \
    KERNEL(sum_##type, type, type, struct type, add_##type, SAME, SAME)                                      \
    KERNEL(product_##type, type, type, struct type, multiply_##type, SAME, SAME)

COMPLEX_KERNELS(c64)
COMPLEX_KERNELS(c128)

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

CONVERSIONS(f8e4m3)
CONVERSIONS(f8e5m2)
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
