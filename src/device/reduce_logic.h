/* Bits and truth, and the vectors they are told in: the compiler's own, whose operators work lane by lane on every
 * processor. The including file has defined `vec`. A comparison gives all ones or zero in a lane. */
#ifndef PLAIT_DEVICE_REDUCE_LOGIC_H
#define PLAIT_DEVICE_REDUCE_LOGIC_H

#include <stdint.h>

#define LANES(element) element __attribute__((vector_size(sizeof(vec))))
typedef LANES(uint8_t) lanes_8;
typedef LANES(uint16_t) lanes_16;
typedef LANES(uint32_t) lanes_32;
typedef LANES(uint64_t) lanes_64;
typedef LANES(int32_t) lanes_i32;
typedef LANES(float) lanes_f32;

static inline vec bits_both(vec a, vec b)
{
    return (vec)((lanes_64)a & (lanes_64)b);
}

static inline vec bits_either(vec a, vec b)
{
    return (vec)((lanes_64)a | (lanes_64)b);
}

static inline vec bits_unlike(vec a, vec b)
{
    return (vec)((lanes_64)a ^ (lanes_64)b);
}

/* Folds take any operands, so what they gave before goes in as it came out; the seal makes 0 and 1. */
#define TRUTH(bits)                                                                                          \
    static inline lanes_##bits true_##bits(vec value)                                                        \
    {                                                                                                        \
        return (lanes_##bits)((lanes_##bits)value != 0);                                                     \
    }                                                                                                        \
    static inline vec both_##bits(vec a, vec b)                                                              \
    {                                                                                                        \
        return (vec)(true_##bits(a) & true_##bits(b));                                                       \
    }                                                                                                        \
    static inline vec unlike_##bits(vec a, vec b)                                                            \
    {                                                                                                        \
        return (vec)(true_##bits(a) ^ true_##bits(b));                                                       \
    }                                                                                                        \
    static inline vec seal_truth##bits(vec value)                                                            \
    {                                                                                                        \
        return (vec)(true_##bits(value) & 1);                                                                \
    }

TRUTH(8)
TRUTH(16)
TRUTH(32)
TRUTH(64)

#endif
