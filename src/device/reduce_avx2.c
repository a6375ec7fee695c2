/* Kernels for AVX2 with F16C; this file alone is compiled for them. Odd ends go to the scalar kernels. */
#include <cpuid.h>
#include <immintrin.h>

#include "device/half.h"

typedef __m256i vec; /* of whatever the format says; casts cost nothing */

static inline void stream_fence(void)
{
    _mm_sfence();
}

#include "device/reduce_logic.h"
#include "device/reduce_loop.h"

static inline __m256 ps(vec value)
{
    return _mm256_castsi256_ps(value);
}

static inline __m256d pd(vec value)
{
    return _mm256_castsi256_pd(value);
}

static inline vec of_ps(__m256 value)
{
    return _mm256_castps_si256(value);
}

static inline vec of_pd(__m256d value)
{
    return _mm256_castpd_si256(value);
}

/* ---------------------------------------------------------------- whole vectors */

static inline vec load(const char *from)
{
    return _mm256_loadu_si256((const void *)from);
}

static inline void store(char *to, vec value)
{
    _mm256_storeu_si256((void *)to, value);
}

static inline void store_one(char *to, vec value, bool stream)
{
    if (stream)
        _mm256_stream_si256((void *)to, value);
    else
        store(to, value);
}

static inline void store_two(char *to, vec a, vec b, bool stream)
{
    store_one(to, a, stream);
    store_one(to + 32, b, stream);
}

static inline void store_block(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, a, b, stream);
    store_two(to + 64, c, d, stream);
}

static inline vec seal_nothing(vec value)
{
    return value;
}

/* --------------------------------------------------------------------- integers */

#define FOLD(name, instruction)                                                                              \
    static inline vec name(vec a, vec b)                                                                     \
    {                                                                                                        \
        return instruction(a, b);                                                                            \
    }

FOLD(add_8, _mm256_add_epi8)
FOLD(least_i8, _mm256_min_epi8)
FOLD(most_i8, _mm256_max_epi8)
FOLD(least_u8, _mm256_min_epu8)
FOLD(most_u8, _mm256_max_epu8)
FOLD(add_16, _mm256_add_epi16)
FOLD(multiply_16, _mm256_mullo_epi16)
FOLD(least_i16, _mm256_min_epi16)
FOLD(most_i16, _mm256_max_epi16)
FOLD(least_u16, _mm256_min_epu16)
FOLD(most_u16, _mm256_max_epu16)
FOLD(add_32, _mm256_add_epi32)
FOLD(multiply_32, _mm256_mullo_epi32)
FOLD(least_i32, _mm256_min_epi32)
FOLD(most_i32, _mm256_max_epi32)
FOLD(least_u32, _mm256_min_epu32)
FOLD(most_u32, _mm256_max_epu32)
FOLD(add_64, _mm256_add_epi64)

/* Bytes have no product: those at even and odd places are multiplied as 16 bits. */
static inline vec multiply_8(vec a, vec b)
{
    vec even = _mm256_mullo_epi16(a, b);
    vec odd = _mm256_mullo_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
    return _mm256_blendv_epi8(even, _mm256_slli_epi16(odd, 8), _mm256_set1_epi16((short)0xff00));
}

/* Nor have 64 bits: low * low, and the two crossed products into the upper half. */
static inline vec multiply_64(vec a, vec b)
{
    vec crossed = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                   _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(crossed, 32));
}

static inline vec least_i64(vec a, vec b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}

static inline vec most_i64(vec a, vec b)
{
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

/* Where `a` is above `b`, both without sign: the comparison has one, so their top bits are flipped. */
static inline vec above_u64(vec a, vec b)
{
    const vec top = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_cmpgt_epi64(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
}

static inline vec least_u64(vec a, vec b)
{
    return _mm256_blendv_epi8(a, b, above_u64(a, b));
}

static inline vec most_u64(vec a, vec b)
{
    return _mm256_blendv_epi8(b, a, above_u64(a, b));
}

#define INTEGER_FORMAT(bits, sealed)                                                                         \
    {                                                                                                        \
        .from_size = bits / 8, .to_size = bits / 8, .lanes = 256 / bits, .few = 8, .load = load,             \
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

/* ----------------------------------------------------------------------- floats */

/* The minimum instruction gives its second operand for NaN and for two zeros. Both orders together hold the
 * NaN and the sign; OR keeps a NaN one and -0, the lesser zero. AND keeps +0 but may lose a NaN, so the mask
 * of unordered lanes, all ones and thus a NaN, comes on top. */
#define FLOAT_FOLDS(type, kind, of)                                                                          \
    static inline vec add_##type(vec a, vec b)                                                               \
    {                                                                                                        \
        return of(_mm256_add_##kind(kind(a), kind(b)));                                                      \
    }                                                                                                        \
    static inline vec multiply_##type(vec a, vec b)                                                          \
    {                                                                                                        \
        return of(_mm256_mul_##kind(kind(a), kind(b)));                                                      \
    }                                                                                                        \
    static inline vec least_##type(vec a, vec b)                                                             \
    {                                                                                                        \
        return of(                                                                                           \
            _mm256_or_##kind(_mm256_min_##kind(kind(a), kind(b)), _mm256_min_##kind(kind(b), kind(a))));     \
    }                                                                                                        \
    static inline vec most_##type(vec a, vec b)                                                              \
    {                                                                                                        \
        vec most =                                                                                           \
            of(_mm256_and_##kind(_mm256_max_##kind(kind(a), kind(b)), _mm256_max_##kind(kind(b), kind(a)))); \
        return _mm256_or_si256(most, of(_mm256_cmp_##kind(kind(a), kind(b), _CMP_UNORD_Q)));                 \
    }

FLOAT_FOLDS(f32, ps, of_ps)
FLOAT_FOLDS(f64, pd, of_pd)

static inline vec divide_f32(vec value, unsigned by)
{
    return of_ps(_mm256_div_ps(ps(value), _mm256_set1_ps((float)by)));
}

static inline vec divide_f64(vec value, unsigned by)
{
    return of_pd(_mm256_div_pd(pd(value), _mm256_set1_pd((double)by)));
}

static inline vec seal_f32(vec value)
{
    __m256 nan = _mm256_cmp_ps(ps(value), ps(value), _CMP_UNORD_Q);
    return of_ps(_mm256_blendv_ps(ps(value), ps(_mm256_set1_epi32(F32_NAN)), nan));
}

static inline vec seal_f64(vec value)
{
    __m256d nan = _mm256_cmp_pd(pd(value), pd(value), _CMP_UNORD_Q);
    return of_pd(_mm256_blendv_pd(pd(value), pd(_mm256_set1_epi64x(F64_NAN)), nan));
}

/* Of a part: its type; an element has one or, complex, two. */
#define WHOLE_FORMAT(size, part)                                                                             \
    {                                                                                                        \
        .from_size = size, .to_size = size, .lanes = 32 / size, .few = 8, .load = load,                      \
        .divide = divide_##part, .seal = seal_##part, .store = store, .store_block = store_block             \
    }

static const struct format whole_f32 = WHOLE_FORMAT(4, f32);
static const struct format whole_f64 = WHOLE_FORMAT(8, f64);
static const struct format whole_c64 = WHOLE_FORMAT(8, f32);
static const struct format whole_c128 = WHOLE_FORMAT(16, f64);

/* By the real parts of `b`, and crosswise by its imaginary ones; the real places subtract. */
static inline vec multiply_c64(vec a, vec b)
{
    __m256 straight = _mm256_mul_ps(ps(a), _mm256_moveldup_ps(ps(b)));
    __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(ps(a), 0xb1), _mm256_movehdup_ps(ps(b)));
    return of_ps(_mm256_addsub_ps(straight, crossed));
}

static inline vec multiply_c128(vec a, vec b)
{
    __m256d straight = _mm256_mul_pd(pd(a), _mm256_movedup_pd(pd(b)));
    __m256d crossed = _mm256_mul_pd(_mm256_permute_pd(pd(a), 0x5), _mm256_permute_pd(pd(b), 0xf));
    return of_pd(_mm256_addsub_pd(straight, crossed));
}

/* ----------------------------------------------- 16-bit floats: 8 lanes of float32 */

static inline vec load_f16(const char *from)
{
    return of_ps(_mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
}

/* Leaves the 8 halves in the lower half of the vector. */
static inline vec seal_f16(vec value)
{
    return _mm256_castsi128_si256(
        _mm256_cvtps_ph(ps(seal_f32(value)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline void store_f16(char *to, vec value)
{
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128(value));
}

static inline void store_block_f16(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, _mm256_inserti128_si256(a, _mm256_castsi256_si128(b), 1),
              _mm256_inserti128_si256(c, _mm256_castsi256_si128(d), 1), stream);
}

static inline vec load_bf16(const char *from)
{
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from)), 16);
}

/* Leaves the 8 halves in the lower halves of the lanes. */
static inline vec seal_bf16(vec value)
{
    vec odd = _mm256_and_si256(_mm256_srli_epi32(value, 16), _mm256_set1_epi32(1));
    vec rounded = _mm256_add_epi32(_mm256_add_epi32(value, _mm256_set1_epi32(0x7fff)), odd);
    vec nan = of_ps(_mm256_cmp_ps(ps(value), ps(value), _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), _mm256_set1_epi32(BF16_NAN), nan);
}

/* The lower halves of both, `a` first. Packing interleaves them by fours, the permutation undoes that. */
static inline vec lower_words_of_two(vec a, vec b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

static inline void store_bf16(char *to, vec value)
{
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128(lower_words_of_two(value, value)));
}

static inline void store_block_bf16(char *to, vec a, vec b, vec c, vec d, bool stream)
{
    store_two(to, lower_words_of_two(a, b), lower_words_of_two(c, d), stream);
}

#define HALF_FORMAT(type)                                                                                    \
    {                                                                                                        \
        .from_size = 2, .to_size = 2, .lanes = 8, .few = 8, .load = load_##type, .divide = divide_f32,       \
        .seal = seal_##type, .store = store_##type, .store_block = store_block_##type                        \
    }
#define WIDENING_FORMAT(type)                                                                                \
    {                                                                                                        \
        .from_size = 2, .to_size = 4, .lanes = 8, .load = load_##type, .seal = seal_nothing, .store = store, \
        .store_block = store_block                                                                           \
    }
#define NARROWING_FORMAT(type)                                                                               \
    {                                                                                                        \
        .from_size = 4, .to_size = 2, .lanes = 8, .load = load, .divide = divide_f32, .seal = seal_##type,   \
        .store = store_##type, .store_block = store_block_##type                                             \
    }

static const struct format half_f16 = HALF_FORMAT(f16);
static const struct format half_bf16 = HALF_FORMAT(bf16);
static const struct format widening_f16 = WIDENING_FORMAT(f16);
static const struct format widening_bf16 = WIDENING_FORMAT(bf16);
static const struct format narrowing_f16 = NARROWING_FORMAT(f16);
static const struct format narrowing_bf16 = NARROWING_FORMAT(bf16);

/* -------------------------------------------------- 8-bit floats: 8 lanes of float32 */

static inline vec load_bytes(const char *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
}

static inline void store_bytes(char *to, vec value)
{
    __m128i words = _mm256_castsi256_si128(lower_words_of_two(value, value));
    _mm_storel_epi64((void *)to, _mm_packus_epi16(words, words));
}

#include "device/reduce_float8.h"

/* ---------------------------------------------------------------------- the set */

static bool usable(void)
{
    /* Not every compiler's __builtin_cpu_supports() knows f16c; AVX2 stands for the system's consent. */
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

#define SET reduce_set_avx2
#define SET_NAME "avx2"
#include "device/reduce_kernels.h"
