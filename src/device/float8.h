/* 8-bit floats (OCP E4M3 and E5M2) to float32 and back, one at a time: exact on the way up, rounded to nearest
 * even on the way down, subnormals included. A finite value beyond the largest becomes the largest; an infinity
 * stays one where there are any (E5M2) and becomes the largest where not. Every NaN comes down as 0x7f. */
#ifndef PLAIT_DEVICE_FLOAT8_H
#define PLAIT_DEVICE_FLOAT8_H

#include "device/half.h"

#define F8_NAN 0x7fu

/* What tells the two formats apart. */
enum {
    E4M3_FRACTION = 3,   /* bits */
    E4M3_BIAS = 7,       /* of the exponent */
    E4M3_LARGEST = 0x7e, /* 448 */
    E4M3_INFINITE = 256, /* no byte is */
    E5M2_FRACTION = 2,
    E5M2_BIAS = 15,
    E5M2_LARGEST = 0x7b, /* 57344 */
    E5M2_INFINITE = 0x7c
};

/* The bits as float32 of a finite magnitude, whose fraction keeps its place below the exponent. */
static inline uint32_t f8_widened(uint32_t magnitude, int fraction, int bias)
{
    return (magnitude << (23 - fraction)) + ((127u - (uint32_t)bias) << 23);
}

/* The bits of the least subnormal, of which all others are multiples. */
static inline uint32_t f8_unit(int fraction, int bias)
{
    return (uint32_t)(127 - bias + 1 - fraction) << 23;
}

static inline float f32_of_f8(uint8_t bits, int fraction, int bias, uint32_t largest, uint32_t infinite)
{
    uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7fu;
    if (magnitude > largest)
        return f32_of_bits(magnitude == infinite ? sign | 0x7f800000u : F32_NAN);
    if (magnitude < 1u << fraction) /* zero or subnormal */
        return f32_of_bits(sign | f32_bits((float)magnitude * f32_of_bits(f8_unit(fraction, bias))));
    return f32_of_bits(sign | f8_widened(magnitude, fraction, bias));
}

static inline uint8_t f8_of_f32(float value, int fraction, int bias, uint32_t largest, uint32_t infinite)
{
    const uint32_t sign = f32_bits(value) >> 24 & 0x80u, most = f8_widened(largest, fraction, bias);
    const uint32_t least = f8_widened(1u << fraction, fraction, bias);
    uint32_t bits = f32_bits(value) & 0x7fffffffu;
    if (bits > 0x7f800000u)
        return F8_NAN;
    if (bits == 0x7f800000u && infinite < 0x80u)
        return (uint8_t)(sign | infinite);
    if (bits > most)
        return (uint8_t)(sign | largest);
    if (bits < least) {
        /* The last place of this number is the least subnormal, so the sum rounds to a multiple of it. */
        const uint32_t round = f8_unit(fraction, bias) + (23u << 23);
        return (uint8_t)(sign | (f32_bits(f32_of_bits(bits) + f32_of_bits(round)) - round));
    }
    const int shift = 23 - fraction;
    bits += (1u << (shift - 1)) - 1 + (bits >> shift & 1u) - ((127u - (uint32_t)bias) << 23);
    return (uint8_t)(sign | bits >> shift);
}

static inline float f32_of_f8e4m3(uint8_t bits)
{
    return f32_of_f8(bits, E4M3_FRACTION, E4M3_BIAS, E4M3_LARGEST, E4M3_INFINITE);
}

static inline uint8_t f8e4m3_of_f32(float value)
{
    return f8_of_f32(value, E4M3_FRACTION, E4M3_BIAS, E4M3_LARGEST, E4M3_INFINITE);
}

static inline float f32_of_f8e5m2(uint8_t bits)
{
    return f32_of_f8(bits, E5M2_FRACTION, E5M2_BIAS, E5M2_LARGEST, E5M2_INFINITE);
}

static inline uint8_t f8e5m2_of_f32(float value)
{
    return f8_of_f32(value, E5M2_FRACTION, E5M2_BIAS, E5M2_LARGEST, E5M2_INFINITE);
}

#endif
