/* Kernels for AVX-512 (F, BW, DQ, VL); this file alone is compiled for it. Subnormals must survive, so bf16
 * is rounded by integers: the instruction for it (avx512_bf16) flushes them. */
#include <immintrin.h>

#include "device/half.h"

typedef __m512i vec; /* of whatever the format says; casts cost nothing */

static inline void stream_fence(void)
{
    _mm_sfence();
}

#include "device/reduce_logic.h"
#include "device/reduce_loop.h"

static inline __m512 ps(vec value)
{
    return _mm512_castsi512_ps(value);
}

static inline __m512d pd(vec value)
{
    return _mm512_castsi512_pd(value);
}

static inline vec of_ps(__m512 value)
{
    return _mm512_castps_si512(value);
}

static inline vec of_pd(__m512d value)
{
    return _mm512_castpd_si512(value);
}

/* ---------------------------------------------------------------- whole vectors */

static inline vec load(const char *from)
{
    return _mm512_loadu_si512(from);
}

static inline void store(char *to, vec value)
{
    _mm512_storeu_si512(to, value);
}

static inline void store_one(char *to, vec value, bool stream)
{
    if (stream)
        _mm512_stream_si512((void *)to, value);
    else
        store(to, value);
}

static inline void store_two(char *to, vec a, vec b, bool stream)
{
    store_one(to, a, stream);
    store_one(to + 64, b, stream);
}

static inline void store_block(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, a, b, stream);
    store_two(to + 128, c, d, stream);
}

static inline vec seal_nothing(vec value)
{
    return value;
}

static inline uint64_t first_lanes(size_t count)
{
    return (UINT64_C(1) << count) - 1;
}

#define PARTS(bits, mask)                                                                                    \
    static inline vec load_part_##bits(const char *from, size_t count)                                       \
    {                                                                                                        \
        return _mm512_maskz_loadu_epi##bits((mask)first_lanes(count), from);                                 \
    }                                                                                                        \
    static inline void store_part_##bits(char *to, vec value, size_t count)                                  \
    {                                                                                                        \
        _mm512_mask_storeu_epi##bits(to, (mask)first_lanes(count), value);                                   \
    }

PARTS(8, __mmask64)
PARTS(16, __mmask32)
PARTS(32, __mmask16)
PARTS(64, __mmask8)

static inline vec load_part_128(const char *from, size_t count)
{
    return load_part_64(from, 2 * count);
}

static inline void store_part_128(char *to, vec value, size_t count)
{
    store_part_64(to, value, 2 * count);
}

/* --------------------------------------------------------------------- integers */

static inline vec add_8(vec a, vec b)
{
    return _mm512_add_epi8(a, b);
}

/* Bytes have no product: those at even and odd places are multiplied as 16 bits. */
static inline vec multiply_8(vec a, vec b)
{
    vec even = _mm512_mullo_epi16(a, b);
    vec odd = _mm512_mullo_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaau, even, _mm512_slli_epi16(odd, 8));
}

#define FOLD(name, instruction)                                                                              \
    static inline vec name(vec a, vec b)                                                                     \
    {                                                                                                        \
        return instruction(a, b);                                                                            \
    }

FOLD(least_i8, _mm512_min_epi8)
FOLD(most_i8, _mm512_max_epi8)
FOLD(least_u8, _mm512_min_epu8)
FOLD(most_u8, _mm512_max_epu8)
FOLD(add_16, _mm512_add_epi16)
FOLD(multiply_16, _mm512_mullo_epi16)
FOLD(least_i16, _mm512_min_epi16)
FOLD(most_i16, _mm512_max_epi16)
FOLD(least_u16, _mm512_min_epu16)
FOLD(most_u16, _mm512_max_epu16)
FOLD(add_32, _mm512_add_epi32)
FOLD(multiply_32, _mm512_mullo_epi32)
FOLD(least_i32, _mm512_min_epi32)
FOLD(most_i32, _mm512_max_epi32)
FOLD(least_u32, _mm512_min_epu32)
FOLD(most_u32, _mm512_max_epu32)
FOLD(add_64, _mm512_add_epi64)
FOLD(multiply_64, _mm512_mullo_epi64)
FOLD(least_i64, _mm512_min_epi64)
FOLD(most_i64, _mm512_max_epi64)
FOLD(least_u64, _mm512_min_epu64)
FOLD(most_u64, _mm512_max_epu64)

#define INTEGER_FORMAT(bits, sealed)                                                                         \
    {                                                                                                        \
        .from_size = bits / 8, .to_size = bits / 8, .lanes = 512 / bits, .few = 4, .load = load,             \
        .load_part = load_part_##bits, .seal = sealed, .store = store, .store_part = store_part_##bits,      \
        .store_block = store_block                                                                           \
    }

static const struct format bits8 = INTEGER_FORMAT(8, seal_nothing);
static const struct format bits16 = INTEGER_FORMAT(16, seal_nothing);
static const struct format bits32 = INTEGER_FORMAT(32, seal_nothing);
static const struct format bits64 = INTEGER_FORMAT(64, seal_nothing);
static const struct format truth8 = INTEGER_FORMAT(8, seal_truth8);
static const struct format truth16 = INTEGER_FORMAT(16, seal_truth16);
static const struct format truth32 = INTEGER_FORMAT(32, seal_truth32);
static const struct format truth64 = INTEGER_FORMAT(64, seal_truth64);

/* ----------------------------------------------------------------------- floats */

/* The minimum instruction gives its second operand for NaN and for two zeros. Both orders together hold the
 * NaN and the sign; OR keeps a NaN one and -0, the lesser zero. AND keeps +0 but may lose a NaN. */
#define FLOAT_FOLDS(type, kind, of, bits)                                                                    \
    static inline vec add_##type(vec a, vec b)                                                               \
    {                                                                                                        \
        return of(_mm512_add_##kind(kind(a), kind(b)));                                                      \
    }                                                                                                        \
    static inline vec multiply_##type(vec a, vec b)                                                          \
    {                                                                                                        \
        return of(_mm512_mul_##kind(kind(a), kind(b)));                                                      \
    }                                                                                                        \
    static inline vec least_##type(vec a, vec b)                                                             \
    {                                                                                                        \
        return of(                                                                                           \
            _mm512_or_##kind(_mm512_min_##kind(kind(a), kind(b)), _mm512_min_##kind(kind(b), kind(a))));     \
    }                                                                                                        \
    static inline vec most_##type(vec a, vec b)                                                              \
    {                                                                                                        \
        vec most =                                                                                           \
            of(_mm512_and_##kind(_mm512_max_##kind(kind(a), kind(b)), _mm512_max_##kind(kind(b), kind(a)))); \
        return _mm512_mask_mov_epi##bits(most, _mm512_cmp_##kind##_mask(kind(a), kind(b), _CMP_UNORD_Q),     \
                                         _mm512_set1_epi##bits(-1));                                         \
    }

FLOAT_FOLDS(f32, ps, of_ps, 32)
FLOAT_FOLDS(f64, pd, of_pd, 64)

static inline vec divide_f32(vec value, unsigned by)
{
    return of_ps(_mm512_div_ps(ps(value), _mm512_set1_ps((float)by)));
}

static inline vec divide_f64(vec value, unsigned by)
{
    return of_pd(_mm512_div_pd(pd(value), _mm512_set1_pd((double)by)));
}

static inline vec seal_f32(vec value)
{
    __mmask16 nan = _mm512_cmp_ps_mask(ps(value), ps(value), _CMP_UNORD_Q);
    return _mm512_mask_mov_epi32(value, nan, _mm512_set1_epi32(F32_NAN));
}

static inline vec seal_f64(vec value)
{
    __mmask8 nan = _mm512_cmp_pd_mask(pd(value), pd(value), _CMP_UNORD_Q);
    return _mm512_mask_mov_epi64(value, nan, _mm512_set1_epi64(F64_NAN));
}

/* Of a part: its type and bits; an element has one or, complex, two. */
#define WHOLE_FORMAT(size, part, bits)                                                                       \
    {                                                                                                        \
        .from_size = size, .to_size = size, .lanes = 64 / size, .few = 4, .load = load,                      \
        .load_part = load_part_##bits, .divide = divide_##part, .seal = seal_##part, .store = store,         \
        .store_part = store_part_##bits, .store_block = store_block                                          \
    }

static const struct format whole_f32 = WHOLE_FORMAT(4, f32, 32);
static const struct format whole_f64 = WHOLE_FORMAT(8, f64, 64);
static const struct format whole_c64 = WHOLE_FORMAT(8, f32, 64);
static const struct format whole_c128 = WHOLE_FORMAT(16, f64, 128);

/* By the real parts of `b`, and crosswise by its imaginary ones; the real places subtract. */
static inline vec multiply_c64(vec a, vec b)
{
    __m512 straight = _mm512_mul_ps(ps(a), _mm512_moveldup_ps(ps(b)));
    __m512 crossed = _mm512_mul_ps(_mm512_permute_ps(ps(a), 0xb1), _mm512_movehdup_ps(ps(b)));
    return of_ps(_mm512_mask_sub_ps(_mm512_add_ps(straight, crossed), 0x5555, straight, crossed));
}

static inline vec multiply_c128(vec a, vec b)
{
    __m512d straight = _mm512_mul_pd(pd(a), _mm512_movedup_pd(pd(b)));
    __m512d crossed = _mm512_mul_pd(_mm512_permute_pd(pd(a), 0x55), _mm512_permute_pd(pd(b), 0xff));
    return of_pd(_mm512_mask_sub_pd(_mm512_add_pd(straight, crossed), 0x55, straight, crossed));
}

/* ---------------------------------------------- 16-bit floats: 16 lanes of float32 */

static inline vec load_f16(const char *from)
{
    return of_ps(_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)));
}

static inline vec load_part_f16(const char *from, size_t count)
{
    return of_ps(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)first_lanes(count), from)));
}

/* Leaves the 16 halves in the lower half of the vector. */
static inline vec seal_f16(vec value)
{
    return _mm512_castsi256_si512(
        _mm512_cvtps_ph(ps(seal_f32(value)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void store_f16(char *to, vec value)
{
    _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(value));
}

static inline void store_part_f16(char *to, vec value, size_t count)
{
    _mm256_mask_storeu_epi16(to, (__mmask16)first_lanes(count), _mm512_castsi512_si256(value));
}

static inline void store_block_f16(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, _mm512_inserti64x4(a, _mm512_castsi512_si256(b), 1),
              _mm512_inserti64x4(c, _mm512_castsi512_si256(d), 1), stream);
}

/* The halves become upper halves of float32: word i goes to word 2 i + 1, and zeros between them. */
static inline vec widen_words(__m256i halves)
{
    const vec twice = _mm512_cvtepu8_epi16(
        _mm256_set_epi64x(0x0f0f0e0e0d0d0c0c, 0x0b0b0a0a09090808, 0x0707060605050404, 0x0303020201010000));
    return _mm512_maskz_permutexvar_epi16(0xaaaaaaaau, twice, _mm512_castsi256_si512(halves));
}

static inline vec load_bf16(const char *from)
{
    return widen_words(_mm256_loadu_si256((const void *)from));
}

static inline vec load_part_bf16(const char *from, size_t count)
{
    return widen_words(_mm256_maskz_loadu_epi16((__mmask16)first_lanes(count), from));
}

/* Leaves the 16 halves in the upper halves of the lanes. */
static inline vec seal_bf16(vec value)
{
    __mmask16 nan = _mm512_cmp_ps_mask(ps(value), ps(value), _CMP_UNORD_Q);
    __mmask16 odd = _mm512_test_epi32_mask(value, _mm512_set1_epi32(0x10000));
    vec rounded = _mm512_add_epi32(value, _mm512_set1_epi32(0x7fff));
    rounded = _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
    return _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(F32_NAN));
}

static inline __m256i upper_words(vec value)
{
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(value, 16));
}

static inline void store_bf16(char *to, vec value)
{
    _mm256_storeu_si256((void *)to, upper_words(value));
}

static inline void store_part_bf16(char *to, vec value, size_t count)
{
    _mm256_mask_storeu_epi16(to, (__mmask16)first_lanes(count), upper_words(value));
}

/* The odd words of two vectors in one go. */
static inline vec upper_words_of_two(vec a, vec b)
{
    const vec odd = _mm512_cvtepu8_epi16(
        _mm256_set_epi64x(0x3f3d3b3937353331, 0x2f2d2b2927252321, 0x1f1d1b1917151311, 0x0f0d0b0907050301));
    return _mm512_permutex2var_epi16(a, odd, b);
}

static inline void store_block_bf16(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, upper_words_of_two(a, b), upper_words_of_two(c, d), stream);
}

#define HALF_FORMAT(type)                                                                                    \
    {                                                                                                        \
        .from_size = 2, .to_size = 2, .lanes = 16, .few = 1, .load = load_##type,                            \
        .load_part = load_part_##type, .divide = divide_f32, .seal = seal_##type, .store = store_##type,     \
        .store_part = store_part_##type, .store_block = store_block_##type                                   \
    }
#define WIDENING_FORMAT(type)                                                                                \
    {                                                                                                        \
        .from_size = 2, .to_size = 4, .lanes = 16, .load = load_##type, .load_part = load_part_##type,       \
        .seal = seal_nothing, .store = store, .store_part = store_part_32, .store_block = store_block        \
    }
#define NARROWING_FORMAT(type)                                                                               \
    {                                                                                                        \
        .from_size = 4, .to_size = 2, .lanes = 16, .load = load, .load_part = load_part_32,                  \
        .divide = divide_f32, .seal = seal_##type, .store = store_##type, .store_part = store_part_##type,   \
        .store_block = store_block_##type                                                                    \
    }

static const struct format half_f16 = HALF_FORMAT(f16);
static const struct format half_bf16 = HALF_FORMAT(bf16);
static const struct format widening_f16 = WIDENING_FORMAT(f16);
static const struct format widening_bf16 = WIDENING_FORMAT(bf16);
static const struct format narrowing_f16 = NARROWING_FORMAT(f16);
static const struct format narrowing_bf16 = NARROWING_FORMAT(bf16);

/* ------------------------------------------------- 8-bit floats: 16 lanes of float32 */

static inline vec load_bytes(const char *from)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from));
}

static inline void store_bytes(char *to, vec value)
{
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8(value));
}

#include "device/reduce_float8.h"

/* ---------------------------------------------------------------------- the set */

static bool usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#define SET reduce_set_avx512
#define SET_NAME "avx512"
#include "device/reduce_kernels.h"
