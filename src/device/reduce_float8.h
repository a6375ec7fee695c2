/* Formats of the 8-bit floats, a float32 lane each, for any set: what float8.h does, with choices in place of
 * branches. The including file has defined vec, load, store, store_block, store_one, divide_f32, seal_nothing,
 * and load_bytes and store_bytes, which have a byte in each 32-bit lane. Odd ends go to the scalar kernels. */
#ifndef PLAIT_DEVICE_REDUCE_FLOAT8_H
#define PLAIT_DEVICE_REDUCE_FLOAT8_H

#include "device/float8.h"
#include "device/reduce_logic.h"

enum { F8_LANES = sizeof(vec) / sizeof(float) };

/* Lanes of `yes` where `mask` is all ones, of `no` where it is zero. */
static ALWAYS_INLINE lanes_32 choose_32(lanes_i32 mask, lanes_32 yes, lanes_32 no)
{
    return (no & ~(lanes_32)mask) | (yes & (lanes_32)mask);
}

static ALWAYS_INLINE vec load_f8(const char *from, int fraction, int bias, int largest, int infinite)
{
    const lanes_32 bits = (lanes_32)load_bytes(from);
    const lanes_i32 magnitude = (lanes_i32)(bits & 0x7f);
    const lanes_32 normal = ((lanes_32)magnitude << (23 - fraction)) + ((127u - (uint32_t)bias) << 23);
    const lanes_f32 small =
        __builtin_convertvector(magnitude, lanes_f32) * f32_of_bits(f8_unit(fraction, bias));
    lanes_32 value = choose_32(magnitude < 1 << fraction, (lanes_32)small, normal) | (bits & 0x80) << 24;
    if (infinite < 0x80)
        value = choose_32(magnitude == infinite, (bits & 0x80) << 24 | 0x7f800000u, value);
    else
        infinite = largest;
    return (vec)choose_32(magnitude > infinite, (lanes_32){ 0 } + F32_NAN, value);
}

/* Leaves each lane's byte in its lowest eight bits, and zeros above. */
static ALWAYS_INLINE vec seal_f8(vec value, int fraction, int bias, uint32_t largest, int infinite)
{
    const int shift = 23 - fraction;
    const int32_t most = (int32_t)f8_widened(largest, fraction, bias);
    const int32_t least = (int32_t)f8_widened(1u << fraction, fraction, bias);
    const lanes_32 round = (lanes_32){ 0 } + (f8_unit(fraction, bias) + (23u << 23));
    const lanes_32 sign = (lanes_32)value >> 24 & 0x80;
    const lanes_i32 exact = (lanes_i32)((lanes_32)value & 0x7fffffffu);
    const lanes_32 bits = choose_32(exact > most, (lanes_32){ 0 } + (uint32_t)most, (lanes_32)exact);
    const lanes_32 subnormal = (lanes_32)((lanes_f32)bits + (lanes_f32)round) - round;
    const lanes_32 up = bits + ((1u << (shift - 1)) - 1) + (bits >> shift & 1);
    const lanes_32 normal = (up - ((127u - (uint32_t)bias) << 23)) >> shift;
    lanes_32 result = choose_32((lanes_i32)bits < least, subnormal, normal) | sign;
    if (infinite < 0x80)
        result = choose_32(exact == 0x7f800000, sign | (uint32_t)infinite, result);
    return (vec)choose_32(exact > 0x7f800000, (lanes_32){ 0 } + F8_NAN, result);
}

static inline void store_block_f8(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    vec bytes;
    store_bytes((char *)&bytes, a);
    store_bytes((char *)&bytes + F8_LANES, b);
    store_bytes((char *)&bytes + 2 * F8_LANES, c);
    store_bytes((char *)&bytes + 3 * F8_LANES, d);
    store_one(to, bytes, stream);
}

#define F8_FORMATS(type, kind)                                                                               \
    static inline vec load_##type(const char *from)                                                          \
    {                                                                                                        \
        return load_f8(from, kind##_FRACTION, kind##_BIAS, kind##_LARGEST, kind##_INFINITE);                 \
    }                                                                                                        \
    static inline vec seal_##type(vec value)                                                                 \
    {                                                                                                        \
        return seal_f8(value, kind##_FRACTION, kind##_BIAS, kind##_LARGEST, kind##_INFINITE);                \
    }                                                                                                        \
    static const struct format small_##type = { .from_size = 1,                                              \
                                                .to_size = 1,                                                \
                                                .lanes = F8_LANES,                                           \
                                                .few = 8,                                                    \
                                                .load = load_##type,                                         \
                                                .divide = divide_f32,                                        \
                                                .seal = seal_##type,                                         \
                                                .store = store_bytes,                                        \
                                                .store_block = store_block_f8 };                             \
    static const struct format widening_##type = { .from_size = 1,                                           \
                                                   .to_size = 4,                                             \
                                                   .lanes = F8_LANES,                                        \
                                                   .load = load_##type,                                      \
                                                   .seal = seal_nothing,                                     \
                                                   .store = store,                                           \
                                                   .store_block = store_block };                             \
    static const struct format narrowing_##type = { .from_size = 4,                                          \
                                                    .to_size = 1,                                            \
                                                    .lanes = F8_LANES,                                       \
                                                    .load = load,                                            \
                                                    .divide = divide_f32,                                    \
                                                    .seal = seal_##type,                                     \
                                                    .store = store_bytes,                                    \
                                                    .store_block = store_block_f8 };

F8_FORMATS(f8e4m3, E4M3)
F8_FORMATS(f8e5m2, E5M2)

#endif
