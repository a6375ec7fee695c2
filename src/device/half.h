/* 16-bit floats to float32 and back, one at a time: exact on the way up, rounded to nearest even on the
 * way down, subnormals included. Every NaN comes down as the canonical one. */
#ifndef PLAIT_DEVICE_HALF_H
#define PLAIT_DEVICE_HALF_H

#include <stdint.h>
#include <string.h>

#define F16_NAN 0x7e00u
#define BF16_NAN 0x7fc0u
#define F32_NAN 0x7fc00000u
#define F64_NAN 0x7ff8000000000000u

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double f64_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* NaNs keep sign and payload and become quiet, as the processors' own conversion has it. */
static inline float f32_of_f16(uint16_t half)
{
    uint32_t sign = (half & 0x8000u) << 16;
    uint32_t fraction = half & 0x3ffu;
    uint32_t exponent = half & 0x7c00u;
    if (exponent == 0x7c00u)
        return f32_of_bits(sign | (fraction != 0 ? F32_NAN : 0x7f800000u) | fraction << 13);
    if (exponent == 0) /* zero or subnormal: a multiple of 2^-24 */
        return f32_of_bits(sign | f32_bits((float)fraction * 0x1p-24f));
    return f32_of_bits(sign | (((half & 0x7fffu) << 13) + ((127u - 15u) << 23)));
}

static inline uint16_t f16_of_f32(float value)
{
    uint32_t bits = f32_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return F16_NAN;
    if (bits >= 0x47800000u) /* 65536 and up; what rounds up to it carries into infinity below */
        return (uint16_t)(sign | 0x7c00u);
    if (bits <
        0x38800000u) { /* below 2^-14: a last place of 0.5f is 2^-24, so the sum rounds to a subnormal */
        return (uint16_t)(sign | (f32_bits(f32_of_bits(bits) + 0.5f) - f32_bits(0.5f)));
    }
    bits += 0xfffu + (bits >> 13 & 1u) - ((127u - 15u) << 23);
    return (uint16_t)(sign | bits >> 13);
}

static inline float f32_of_bf16(uint16_t half)
{
    return f32_of_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_of_f32(float value)
{
    uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return BF16_NAN;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
