/* What reduce.c and the kernel files share: a set of kernels is a table. */
#ifndef PLAIT_DEVICE_REDUCE_SET_H
#define PLAIT_DEVICE_REDUCE_SET_H

#include "device/reduce.h"

/* A kernel for elements first .. end - 1. The vector files leave short runs and odd ends to these. */
typedef void (*reduce_part_fn)(const struct reduction *reduction, size_t first, size_t end);

struct reduce_set {
    const char *name;
    bool (*usable)(void);                            /* does this machine run it? */
    reduce_fn kernels[PLAIT_F64 + 1][PLAIT_MAX + 1]; /* by type and op, AVERAGE left out */
    /* Conversions, from sources[0] to result; the narrowing ones divide. */
    reduce_fn widen_f16, widen_bf16, narrow_f16, narrow_bf16;
};

extern const struct reduce_set reduce_set_scalar;
extern const struct reduce_set reduce_set_avx2;
extern const struct reduce_set reduce_set_avx512;
extern const struct reduce_set reduce_set_neon;

/* The rest of a table, from functions named sum_f32 and so on. */
#define REDUCE_SET_ROW(type)                                                                                 \
    {                                                                                                        \
        NULL, sum_##type, product_##type, min_##type, max_##type                                             \
    }
#define REDUCE_SET_KERNELS                                                                                   \
    .kernels =                                                                                                 \
        {                                                                                                      \
            [PLAIT_I8] = REDUCE_SET_ROW(i8),                                                                   \
            [PLAIT_U8] = REDUCE_SET_ROW(u8),                                                                   \
            [PLAIT_I32] = REDUCE_SET_ROW(i32),                                                                 \
            [PLAIT_U32] = REDUCE_SET_ROW(u32),                                                                 \
            [PLAIT_I64] = REDUCE_SET_ROW(i64),                                                                 \
            [PLAIT_U64] = REDUCE_SET_ROW(u64),                                                                 \
            [PLAIT_F16] = REDUCE_SET_ROW(f16),                                                                 \
            [PLAIT_BF16] = REDUCE_SET_ROW(bf16),                                                               \
            [PLAIT_F32] = REDUCE_SET_ROW(f32),                                                                 \
            [PLAIT_F64] = REDUCE_SET_ROW(f64),                                                                 \
        },                                                                                                     \
    .widen_f16 = widen_f16, .widen_bf16 = widen_bf16, .narrow_f16 = narrow_f16, .narrow_bf16 = narrow_bf16

#define REDUCE_SCALAR_PART(name)                                                                             \
    void reduce_scalar_##name(const struct reduction *reduction, size_t first, size_t end)
#define REDUCE_SCALAR_PARTS(type)                                                                            \
    REDUCE_SCALAR_PART(sum_##type);                                                                          \
    REDUCE_SCALAR_PART(product_##type);                                                                      \
    REDUCE_SCALAR_PART(min_##type);                                                                          \
    REDUCE_SCALAR_PART(max_##type)

REDUCE_SCALAR_PARTS(i8);
REDUCE_SCALAR_PARTS(u8);
REDUCE_SCALAR_PARTS(i32);
REDUCE_SCALAR_PARTS(u32);
REDUCE_SCALAR_PARTS(i64);
REDUCE_SCALAR_PARTS(u64);
REDUCE_SCALAR_PARTS(f16);
REDUCE_SCALAR_PARTS(bf16);
REDUCE_SCALAR_PARTS(f32);
REDUCE_SCALAR_PARTS(f64);
REDUCE_SCALAR_PART(widen_f16);
REDUCE_SCALAR_PART(widen_bf16);
REDUCE_SCALAR_PART(narrow_f16);
REDUCE_SCALAR_PART(narrow_bf16);

#endif
