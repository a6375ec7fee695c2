/* A set's kernels and its table, made of the folds and formats that the including file has defined under the
 * names used here. It comes last in that file, with SET and SET_NAME defined. */
#include "device/reduce_loop.h"

REDUCE_KERNELS(i8, bits8, add_8, multiply_8, least_i8, most_i8)
REDUCE_KERNELS(u8, bits8, add_8, multiply_8, least_u8, most_u8)
REDUCE_KERNELS(i16, bits16, add_16, multiply_16, least_i16, most_i16)
REDUCE_KERNELS(u16, bits16, add_16, multiply_16, least_u16, most_u16)
REDUCE_KERNELS(i32, bits32, add_32, multiply_32, least_i32, most_i32)
REDUCE_KERNELS(u32, bits32, add_32, multiply_32, least_u32, most_u32)
REDUCE_KERNELS(i64, bits64, add_64, multiply_64, least_i64, most_i64)
REDUCE_KERNELS(u64, bits64, add_64, multiply_64, least_u64, most_u64)
REDUCE_KERNELS(f8e4m3, small_f8e4m3, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f8e5m2, small_f8e5m2, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f16, half_f16, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(bf16, half_bf16, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f32, whole_f32, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f64, whole_f64, add_f64, multiply_f64, least_f64, most_f64)
REDUCE_KERNEL(sum, c64, whole_c64, add_f32)
REDUCE_KERNEL(product, c64, whole_c64, multiply_c64)
REDUCE_KERNEL(sum, c128, whole_c128, add_f64)
REDUCE_KERNEL(product, c128, whole_c128, multiply_c128)
REDUCE_LOGIC(8)
REDUCE_LOGIC(16)
REDUCE_LOGIC(32)
REDUCE_LOGIC(64)
REDUCE_CONVERSIONS(f8e4m3)
REDUCE_CONVERSIONS(f8e5m2)
REDUCE_CONVERSIONS(f16)
REDUCE_CONVERSIONS(bf16)

const struct reduce_set SET = {
    .name = SET_NAME,
    .usable = usable,
    REDUCE_SET_KERNELS,
};
