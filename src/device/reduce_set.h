/* What reduce.c and the kernel files share: a set of kernels is a table. */
#ifndef PLAIT_DEVICE_REDUCE_SET_H
#define PLAIT_DEVICE_REDUCE_SET_H

#include "base/element.h"
#include "device/reduce.h"

/* A kernel for elements first .. end - 1. The vector files leave short runs and odd ends to these. */
typedef void (*reduce_part_fn)(const struct reduction *reduction, size_t first, size_t end);

struct reduce_set {
    const char *name;
    bool (*usable)(void);                          /* does this machine run it? */
    reduce_fn kernels[ELEMENT_TYPES][ELEMENT_OPS]; /* NULL where plait_type_reduces() says no */
    /* Conversions, from sources[0] to result, for types whose accumulator is another; the narrowing ones divide. */
    reduce_fn widen[ELEMENT_TYPES], narrow[ELEMENT_TYPES];
};

extern const struct reduce_set reduce_set_scalar;
extern const struct reduce_set reduce_set_avx2;
extern const struct reduce_set reduce_set_avx512;
extern const struct reduce_set reduce_set_neon;

/* The rest of a table, from functions named sum_f32 and so on. AVERAGE is SUM with `divide`. Bits and truth know
 * no sign, so types of one width share those kernels; a bool is a truth of 8 bits. */
#define REDUCE_SET_NUMBER(type)                                                                              \
    [PLAIT_SUM] = sum_##type, [PLAIT_PRODUCT] = product_##type, [PLAIT_MIN] = min_##type,                    \
    [PLAIT_MAX] = max_##type, [PLAIT_AVERAGE] = sum_##type
#define REDUCE_SET_LOGIC(bits, truth)                                                                        \
    [PLAIT_BIT_AND] = bits##and_##truth, [PLAIT_BIT_OR] = bits##or_##truth,                                  \
    [PLAIT_BIT_XOR] = bits##xor_##truth, [PLAIT_AND] = and_##truth, [PLAIT_OR] = or_##truth,                 \
    [PLAIT_XOR] = xor_##truth
#define REDUCE_SET_COMPLEX(type)                                                                             \
    [PLAIT_SUM] = sum_##type, [PLAIT_PRODUCT] = product_##type, [PLAIT_AVERAGE] = sum_##type
#define REDUCE_SET_LOCATION(type)                                                                            \
    [PLAIT_MIN_LOCATION] = reduce_min_location_##type, [PLAIT_MAX_LOCATION] = reduce_max_location_##type
#define REDUCE_SET_CONVERSIONS(way)                                                                          \
    {                                                                                                        \
        [PLAIT_F16] = way##_f16, [PLAIT_BF16] = way##_bf16, [PLAIT_F8E4M3] = way##_f8e4m3,                   \
        [PLAIT_F8E5M2] = way##_f8e5m2                                                                        \
    }
#define REDUCE_SET_KERNELS                                                                                   \
    .kernels =                                                                                               \
        {                                                                                                    \
            [PLAIT_I8] = { REDUCE_SET_NUMBER(i8), REDUCE_SET_LOGIC(bit_, 8) },                               \
            [PLAIT_U8] = { REDUCE_SET_NUMBER(u8), REDUCE_SET_LOGIC(bit_, 8) },                               \
            [PLAIT_I16] = { REDUCE_SET_NUMBER(i16), REDUCE_SET_LOGIC(bit_, 16) },                            \
            [PLAIT_U16] = { REDUCE_SET_NUMBER(u16), REDUCE_SET_LOGIC(bit_, 16) },                            \
            [PLAIT_I32] = { REDUCE_SET_NUMBER(i32), REDUCE_SET_LOGIC(bit_, 32) },                            \
            [PLAIT_U32] = { REDUCE_SET_NUMBER(u32), REDUCE_SET_LOGIC(bit_, 32) },                            \
            [PLAIT_I64] = { REDUCE_SET_NUMBER(i64), REDUCE_SET_LOGIC(bit_, 64) },                            \
            [PLAIT_U64] = { REDUCE_SET_NUMBER(u64), REDUCE_SET_LOGIC(bit_, 64) },                            \
            [PLAIT_BOOL] = { [PLAIT_SUM] = or_8,                                                             \
                             [PLAIT_PRODUCT] = and_8,                                                        \
                             [PLAIT_MIN] = and_8,                                                            \
                             [PLAIT_MAX] = or_8,                                                             \
                             REDUCE_SET_LOGIC(, 8) },                                                        \
            [PLAIT_F8E4M3] = { REDUCE_SET_NUMBER(f8e4m3) },                                                  \
            [PLAIT_F8E5M2] = { REDUCE_SET_NUMBER(f8e5m2) },                                                  \
            [PLAIT_F16] = { REDUCE_SET_NUMBER(f16) },                                                        \
            [PLAIT_BF16] = { REDUCE_SET_NUMBER(bf16) },                                                      \
            [PLAIT_F32] = { REDUCE_SET_NUMBER(f32) },                                                        \
            [PLAIT_F64] = { REDUCE_SET_NUMBER(f64) },                                                        \
            [PLAIT_C64] = { REDUCE_SET_COMPLEX(c64) },                                                       \
            [PLAIT_C128] = { REDUCE_SET_COMPLEX(c128) },                                                     \
            [PLAIT_F32_I32] = { REDUCE_SET_LOCATION(f32_i32) },                                              \
            [PLAIT_F64_I64] = { REDUCE_SET_LOCATION(f64_i64) },                                              \
            [PLAIT_I32_I32] = { REDUCE_SET_LOCATION(i32_i32) },                                              \
            [PLAIT_I64_I64] = { REDUCE_SET_LOCATION(i64_i64) },                                              \
        },                                                                                                   \
    .widen = REDUCE_SET_CONVERSIONS(widen), .narrow = REDUCE_SET_CONVERSIONS(narrow)

/* The kernels that all sets share. */
#define REDUCE_LOCATION_KERNELS(type)                                                                        \
    void reduce_min_location_##type(const struct reduction *reduction);                                      \
    void reduce_max_location_##type(const struct reduction *reduction)

REDUCE_LOCATION_KERNELS(f32_i32);
REDUCE_LOCATION_KERNELS(f64_i64);
REDUCE_LOCATION_KERNELS(i32_i32);
REDUCE_LOCATION_KERNELS(i64_i64);

#define REDUCE_SCALAR_PART(name)                                                                             \
    void reduce_scalar_##name(const struct reduction *reduction, size_t first, size_t end)
#define REDUCE_SCALAR_NUMBER(type)                                                                           \
    REDUCE_SCALAR_PART(sum_##type);                                                                          \
    REDUCE_SCALAR_PART(product_##type);                                                                      \
    REDUCE_SCALAR_PART(min_##type);                                                                          \
    REDUCE_SCALAR_PART(max_##type)
#define REDUCE_SCALAR_LOGIC(truth)                                                                           \
    REDUCE_SCALAR_PART(bit_and_##truth);                                                                     \
    REDUCE_SCALAR_PART(bit_or_##truth);                                                                      \
    REDUCE_SCALAR_PART(bit_xor_##truth);                                                                     \
    REDUCE_SCALAR_PART(and_##truth);                                                                         \
    REDUCE_SCALAR_PART(or_##truth);                                                                          \
    REDUCE_SCALAR_PART(xor_##truth)
#define REDUCE_SCALAR_COMPLEX(type)                                                                          \
    REDUCE_SCALAR_PART(sum_##type);                                                                          \
    REDUCE_SCALAR_PART(product_##type)
#define REDUCE_SCALAR_CONVERSIONS(type)                                                                      \
    REDUCE_SCALAR_PART(widen_##type);                                                                        \
    REDUCE_SCALAR_PART(narrow_##type)

REDUCE_SCALAR_NUMBER(i8);
REDUCE_SCALAR_NUMBER(u8);
REDUCE_SCALAR_NUMBER(i16);
REDUCE_SCALAR_NUMBER(u16);
REDUCE_SCALAR_NUMBER(i32);
REDUCE_SCALAR_NUMBER(u32);
REDUCE_SCALAR_NUMBER(i64);
REDUCE_SCALAR_NUMBER(u64);
REDUCE_SCALAR_NUMBER(f8e4m3);
REDUCE_SCALAR_NUMBER(f8e5m2);
REDUCE_SCALAR_NUMBER(f16);
REDUCE_SCALAR_NUMBER(bf16);
REDUCE_SCALAR_NUMBER(f32);
REDUCE_SCALAR_NUMBER(f64);
REDUCE_SCALAR_LOGIC(8);
REDUCE_SCALAR_LOGIC(16);
REDUCE_SCALAR_LOGIC(32);
REDUCE_SCALAR_LOGIC(64);
REDUCE_SCALAR_COMPLEX(c64);
REDUCE_SCALAR_COMPLEX(c128);
REDUCE_SCALAR_CONVERSIONS(f8e4m3);
REDUCE_SCALAR_CONVERSIONS(f8e5m2);
REDUCE_SCALAR_CONVERSIONS(f16);
REDUCE_SCALAR_CONVERSIONS(bf16);

#endif
