/* A set's kernels and its table, made of the folds and formats that the including file has defined under the
 * names used here. It comes last in that file, with SET and SET_NAME defined. */
#include "device/reduce_loop.h"

REDUCE_KERNELS(i8, bits8, add_8, multiply_8, least_i8, most_i8)
REDUCE_KERNELS(u8, bits8, add_8, multiply_8, least_u8, most_u8)
REDUCE_KERNELS(i32, bits32, add_32, multiply_32, least_i32, most_i32)
REDUCE_KERNELS(u32, bits32, add_32, multiply_32, least_u32, most_u32)
REDUCE_KERNELS(i64, bits64, add_64, multiply_64, least_i64, most_i64)
REDUCE_KERNELS(u64, bits64, add_64, multiply_64, least_u64, most_u64)
REDUCE_KERNELS(f16, half_f16, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(bf16, half_bf16, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f32, whole_f32, add_f32, multiply_f32, least_f32, most_f32)
REDUCE_KERNELS(f64, whole_f64, add_f64, multiply_f64, least_f64, most_f64)
REDUCE_CONVERSION(widen_f16, widening_f16)
REDUCE_CONVERSION(widen_bf16, widening_bf16)
REDUCE_CONVERSION(narrow_f16, narrowing_f16)
REDUCE_CONVERSION(narrow_bf16, narrowing_bf16)

const struct reduce_set SET = {
    .name = SET_NAME,
    .usable = usable,
    REDUCE_SET_KERNELS,
};
