/* Kernels for Advanced SIMD, which every 64-bit Arm has. Odd ends go to the scalar kernels. */
#include <arm_neon.h>

#include "device/half.h"

typedef uint32x4_t vec; /* of whatever the format says; casts cost nothing */

/* Nothing to fence: there are no streaming stores here. */
static inline void stream_fence(void)
{
}

#include "device/reduce_logic.h"
#include "device/reduce_loop.h"

/* ---------------------------------------------------------------- whole vectors */

static inline vec load(const char *from)
{
    return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)from));
}

static inline void store(char *to, vec value)
{
    vst1q_u8((uint8_t *)to, vreinterpretq_u8_u32(value));
}

static inline void store_one(char *to, vec value, bool stream)
{
    (void)stream;
    store(to, value);
}

static inline void store_block(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    (void)stream;
    store(to, a);
    store(to + 16, b);
    store(to + 32, c);
    store(to + 48, d);
}

static inline vec seal_nothing(vec value)
{
    return value;
}

/* --------------------------------------------------------------------- integers */

#define AS(kind, value) vreinterpretq_##kind##_u32(value)
#define OF(kind, value) vreinterpretq_u32_##kind(value)

#define FOLD(name, kind, instruction)                                                                        \
    static inline vec name(vec a, vec b)                                                                     \
    {                                                                                                        \
        return OF(kind, instruction(AS(kind, a), AS(kind, b)));                                              \
    }

FOLD(add_8, u8, vaddq_u8)
FOLD(multiply_8, u8, vmulq_u8)
FOLD(least_i8, s8, vminq_s8)
FOLD(most_i8, s8, vmaxq_s8)
FOLD(least_u8, u8, vminq_u8)
FOLD(most_u8, u8, vmaxq_u8)
FOLD(add_16, u16, vaddq_u16)
FOLD(multiply_16, u16, vmulq_u16)
FOLD(least_i16, s16, vminq_s16)
FOLD(most_i16, s16, vmaxq_s16)
FOLD(least_u16, u16, vminq_u16)
FOLD(most_u16, u16, vmaxq_u16)
FOLD(least_i32, s32, vminq_s32)
FOLD(most_i32, s32, vmaxq_s32)
FOLD(add_64, u64, vaddq_u64)

static inline vec add_32(vec a, vec b)
{
    return vaddq_u32(a, b);
}

static inline vec multiply_32(vec a, vec b)
{
    return vmulq_u32(a, b);
}

static inline vec least_u32(vec a, vec b)
{
    return vminq_u32(a, b);
}

static inline vec most_u32(vec a, vec b)
{
    return vmaxq_u32(a, b);
}

/* 64 bits have neither product nor minimum: multiply lane by lane, compare and select. */
static inline vec multiply_64(vec a, vec b)
{
    uint64x2_t x = AS(u64, a), y = AS(u64, b);
    uint64x2_t low = vdupq_n_u64(vgetq_lane_u64(x, 0) * vgetq_lane_u64(y, 0));
    return OF(u64, vsetq_lane_u64(vgetq_lane_u64(x, 1) * vgetq_lane_u64(y, 1), low, 1));
}

#define SELECT_64(name, kind, above, chosen, other)                                                          \
    static inline vec name(vec a, vec b)                                                                     \
    {                                                                                                        \
        return OF(u64, vbslq_u64(above(AS(kind, a), AS(kind, b)), AS(u64, chosen), AS(u64, other)));         \
    }

SELECT_64(least_i64, s64, vcgtq_s64, b, a)
SELECT_64(most_i64, s64, vcgtq_s64, a, b)
SELECT_64(least_u64, u64, vcgtq_u64, b, a)
SELECT_64(most_u64, u64, vcgtq_u64, a, b)

#define INTEGER_FORMAT(bits, sealed)                                                                         \
    {                                                                                                        \
        .from_size = bits / 8, .to_size = bits / 8, .lanes = 128 / bits, .few = 4, .load = load,             \
        .seal = sealed, .store = store, .store_block = store_block                                           \
    }

static const struct format bits8 = INTEGER_FORMAT(8, seal_nothing);
static const struct format bits16 = INTEGER_FORMAT(16, seal_nothing);
static const struct format bits32 = INTEGER_FORMAT(32, seal_nothing);
static const struct format bits64 = INTEGER_FORMAT(64, seal_nothing);
static const struct format truth8 = INTEGER_FORMAT(8, seal_truth8);
static const struct format truth16 = INTEGER_FORMAT(16, seal_truth16);
static const struct format truth32 = INTEGER_FORMAT(32, seal_truth32);
static const struct format truth64 = INTEGER_FORMAT(64, seal_truth64);

/* -------------------- floats: the minimum instruction itself propagates NaN and orders zeros */

FOLD(add_f32, f32, vaddq_f32)
FOLD(multiply_f32, f32, vmulq_f32)
FOLD(least_f32, f32, vminq_f32)
FOLD(most_f32, f32, vmaxq_f32)
FOLD(add_f64, f64, vaddq_f64)
FOLD(multiply_f64, f64, vmulq_f64)
FOLD(least_f64, f64, vminq_f64)
FOLD(most_f64, f64, vmaxq_f64)

static inline vec divide_f32(vec value, unsigned by)
{
    return OF(f32, vdivq_f32(AS(f32, value), vdupq_n_f32((float)by)));
}

static inline vec divide_f64(vec value, unsigned by)
{
    return OF(f64, vdivq_f64(AS(f64, value), vdupq_n_f64((double)by)));
}

/* A number equals itself, a NaN does not. */
static inline vec seal_f32(vec value)
{
    return vbslq_u32(vceqq_f32(AS(f32, value), AS(f32, value)), value, vdupq_n_u32(F32_NAN));
}

static inline vec seal_f64(vec value)
{
    uint64x2_t number = vceqq_f64(AS(f64, value), AS(f64, value));
    return OF(u64, vbslq_u64(number, AS(u64, value), vdupq_n_u64(F64_NAN)));
}

/* Of a part: its type; an element has one or, complex, two. */
#define WHOLE_FORMAT(size, part)                                                                             \
    {                                                                                                        \
        .from_size = size, .to_size = size, .lanes = 16 / size, .few = 4, .load = load,                      \
        .divide = divide_##part, .seal = seal_##part, .store = store, .store_block = store_block             \
    }

static const struct format whole_f32 = WHOLE_FORMAT(4, f32);
static const struct format whole_f64 = WHOLE_FORMAT(8, f64);
static const struct format whole_c64 = WHOLE_FORMAT(8, f32);
static const struct format whole_c128 = WHOLE_FORMAT(16, f64);

/* By the real parts of `b`, and crosswise by its imaginary ones; the real places subtract, for which their sign
 * is flipped. */
static inline vec multiply_c64(vec a, vec b)
{
    float32x4_t x = AS(f32, a), y = AS(f32, b);
    float32x4_t straight = vmulq_f32(x, vtrn1q_f32(y, y));
    float32x4_t crossed = vmulq_f32(vrev64q_f32(x), vtrn2q_f32(y, y));
    const vec real_signs = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000u));
    return add_f32(OF(f32, straight), veorq_u32(OF(f32, crossed), real_signs));
}

static inline vec multiply_c128(vec a, vec b)
{
    float64x2_t x = AS(f64, a), y = AS(f64, b);
    float64x2_t straight = vmulq_f64(x, vdupq_laneq_f64(y, 0));
    float64x2_t crossed = vmulq_f64(vextq_f64(x, x, 1), vdupq_laneq_f64(y, 1));
    const vec real_signs = { 0, 0x80000000u, 0, 0 };
    return add_f64(OF(f64, straight), veorq_u32(OF(f64, crossed), real_signs));
}

/* ----------------------------------------------- 16-bit floats: 4 lanes of float32 */

static inline uint16x4_t load_16(const char *from)
{
    return vreinterpret_u16_u8(vld1_u8((const uint8_t *)from));
}

static inline vec load_f16(const char *from)
{
    return OF(f32, vcvt_f32_f16(vreinterpret_f16_u16(load_16(from))));
}

static inline vec load_bf16(const char *from)
{
    return vshll_n_u16(load_16(from), 16);
}

/* Both leave the 4 halves in the lower half of the vector. */
static inline vec seal_f16(vec value)
{
    uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(AS(f32, seal_f32(value))));
    return vreinterpretq_u32_u16(vcombine_u16(halves, halves));
}

static inline vec seal_bf16(vec value)
{
    vec odd = vandq_u32(vshrq_n_u32(value, 16), vdupq_n_u32(1));
    vec rounded = vaddq_u32(vaddq_u32(value, vdupq_n_u32(0x7fff)), odd);
    vec number = vceqq_f32(AS(f32, value), AS(f32, value));
    rounded = vbslq_u32(number, rounded, vdupq_n_u32(F32_NAN));
    uint16x4_t halves = vshrn_n_u32(rounded, 16);
    return vreinterpretq_u32_u16(vcombine_u16(halves, halves));
}

static inline void store_16(char *to, vec value)
{
    vst1_u8((uint8_t *)to, vget_low_u8(AS(u8, value)));
}

static inline void store_block_16(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    (void)stream;
    store_16(to, a);
    store_16(to + 8, b);
    store_16(to + 16, c);
    store_16(to + 24, d);
}

#define HALF_FORMAT(type)                                                                                    \
    {                                                                                                        \
        .from_size = 2, .to_size = 2, .lanes = 4, .few = 4, .load = load_##type, .divide = divide_f32,       \
        .seal = seal_##type, .store = store_16, .store_block = store_block_16                                \
    }
#define WIDENING_FORMAT(type)                                                                                \
    {                                                                                                        \
        .from_size = 2, .to_size = 4, .lanes = 4, .load = load_##type, .seal = seal_nothing, .store = store, \
        .store_block = store_block                                                                           \
    }
#define NARROWING_FORMAT(type)                                                                               \
    {                                                                                                        \
        .from_size = 4, .to_size = 2, .lanes = 4, .load = load, .divide = divide_f32, .seal = seal_##type,   \
        .store = store_16, .store_block = store_block_16                                                     \
    }

static const struct format half_f16 = HALF_FORMAT(f16);
static const struct format half_bf16 = HALF_FORMAT(bf16);
static const struct format widening_f16 = WIDENING_FORMAT(f16);
static const struct format widening_bf16 = WIDENING_FORMAT(bf16);
static const struct format narrowing_f16 = NARROWING_FORMAT(f16);
static const struct format narrowing_bf16 = NARROWING_FORMAT(bf16);

/* -------------------------------------------------- 8-bit floats: 4 lanes of float32 */

static inline vec load_bytes(const char *from)
{
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
}

static inline void store_bytes(char *to, vec value)
{
    uint16x4_t words = vmovn_u32(value);
    uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0);
    memcpy(to, &bytes, sizeof bytes);
}

#include "device/reduce_float8.h"

/* ---------------------------------------------------------------------- the set */

static bool usable(void)
{
    return true;
}

#define SET reduce_set_neon
#define SET_NAME "neon"
#include "device/reduce_kernels.h"
