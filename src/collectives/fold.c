#include "collectives/fold.h"

#include <string.h>

#include "base/element.h"
#include "collectives/notice.h"
#include "device/running.h"

enum { PIECE_BYTES = 4096 };

struct pieces {
    _Alignas(64) unsigned char one[PIECE_BYTES];
    _Alignas(64) unsigned char other[PIECE_BYTES];
};

static bool is_function(const struct call *call)
{
    return call->made != NULL && call->made->function != NULL;
}

plait_type fold_accumulator(const struct call *call)
{
    return is_function(call) ? call->type : element_accumulator(call->type);
}

/* ------------------------------------------------------------ multiplied sums */

#define MULTIPLY(name, element)                                                                              \
    static void name(void *data, const void *by, size_t count)                                               \
    {                                                                                                        \
        element factor, *elements = data;                                                                    \
        memcpy(&factor, by, sizeof factor);                                                                  \
        for (size_t i = 0; i < count; i++)                                                                   \
            elements[i] = (element)(elements[i] * factor);                                                   \
    }
MULTIPLY(multiply_8, uint8_t)
MULTIPLY(multiply_32, uint32_t)
MULTIPLY(multiply_64, uint64_t)
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)

typedef void (*multiply_fn)(void *data, const void *factor, size_t count);

/* By the type that sums are made in; integers of both signs are multiplied modulo 2^bits alike. */
static multiply_fn multiplier(plait_type type)
{
    switch (element_accumulator(type)) {
    case PLAIT_I8:
    case PLAIT_U8: return multiply_8;
    case PLAIT_I32:
    case PLAIT_U32: return multiply_32;
    case PLAIT_I64:
    case PLAIT_U64: return multiply_64;
    case PLAIT_F32: return multiply_f32;
    case PLAIT_F64: return multiply_f64;
    default: return NULL;
    }
}

bool fold_multiplies(plait_type type)
{
    return multiplier(type) != NULL;
}

static const void *factor_of(const struct execution *x, int rank)
{
    return rank == x->group->rank ? x->call.made->factor : call_factor(notice_of(x, rank)->call);
}

/* The sum of one piece of all sources, each multiplied by its rank's factor, in the accumulator's type. */
static void sum_piece(const struct execution *x, const struct reduction *r, size_t first, size_t count,
                      struct pieces *pieces)
{
    plait_type type = x->call.type, accumulator = element_accumulator(type);
    const void *sources[2] = { pieces->one, pieces->other };
    struct reduction sum = { .result = pieces->one, .sources = sources, .source_count = 2, .count = count };
    for (int rank = 0; rank < r->source_count; rank++) {
        unsigned char *to = rank == 0 ? pieces->one : pieces->other;
        reduce_widen(type, to, (const unsigned char *)r->sources[rank] + first * x->element_size, count);
        multiplier(type)(to, factor_of(x, rank), count);
        if (rank > 0)
            reduce_find(accumulator, PLAIT_SUM)(&sum);
    }
    reduce_narrow(type, (unsigned char *)r->result + first * x->element_size, pieces->one, count, 0);
}

/* -------------------------------------------------------- a caller's functions */

/* right = left op right, unless the function has failed before: then this rank only keeps step. */
static void call_function(struct execution *x, const void *left, void *right, size_t count)
{
    const struct made_op *op = x->call.made;
    if (x->verdict == 0 && count > 0)
        x->verdict = op->function(op->context, left, right, count, x->call.type);
}

/* The sources may lie anywhere and the result upon one of them; the function gets aligned memory of our own. */
static void call_piece(struct execution *x, const struct reduction *r, size_t first, size_t count,
                       struct pieces *pieces)
{
    unsigned char *left = pieces->one, *right = pieces->other;
    size_t offset = first * x->element_size, size = count * x->element_size;
    memcpy(left, (const unsigned char *)r->sources[0] + offset, size);
    for (int rank = 1; rank < r->source_count; rank++) {
        memcpy(right, (const unsigned char *)r->sources[rank] + offset, size);
        call_function(x, left, right, count);
        unsigned char *result = right;
        right = left;
        left = result;
    }
    memcpy((unsigned char *)r->result + offset, left, size);
}

/* ------------------------------------------------------------------- all of it */

void fold_made(struct execution *x, const struct reduction *r)
{
    struct pieces pieces;
    size_t most = PIECE_BYTES / plait_type_size(fold_accumulator(&x->call));
    for (size_t first = 0; first < r->count; first += most) {
        size_t count = r->count - first < most ? r->count - first : most;
        if (is_function(&x->call))
            call_piece(x, r, first, count, &pieces);
        else
            sum_piece(x, r, first, count, &pieces);
    }
    if (r->copy != NULL && r->count > 0)
        memcpy(r->copy, r->result, r->count * x->element_size);
}

void fold_running(struct execution *x, void *first_result, size_t stride, int ranks, size_t count)
{
    const void *const *sources = x->group->sources;
    if (x->call.made == NULL) {
        reduce_running(x->call.type, x->call.op, first_result, stride, sources, ranks, count);
        return;
    }
    for (int i = 0; i < ranks; i++) {
        struct reduction reduction = { .result = (unsigned char *)first_result + (size_t)i * stride,
                                       .sources = sources,
                                       .source_count = i + 1,
                                       .count = count };
        fold_made(x, &reduction);
    }
}

/* The first results of a scan are of one contribution each, and still have a result's form: a truth value is 0 or
 * 1, a NaN canonical. */
static void look_like_result(const struct execution *x, void *partial, size_t count)
{
    const void *source = partial;
    struct reduction r = { .result = partial, .sources = &source, .source_count = 1, .count = count };
    reduce_find(element_accumulator(x->call.type), x->call.op)(&r);
}

void fold_begin(const struct execution *x, void *to, const void *from, size_t count)
{
    if (!is_function(&x->call)) {
        reduce_widen(x->call.type, to, from, count);
        if (x->call.made != NULL)
            multiplier(x->call.type)(to, x->call.made->factor, count);
        else if (collective_scans(x->call.kind))
            look_like_result(x, to, count);
    } else if (to != from && count > 0) {
        memcpy(to, from, count * x->element_size);
    }
}

void fold_end(const struct execution *x, void *to, const void *from, size_t count)
{
    if (!is_function(&x->call))
        reduce_narrow(x->call.type, to, from, count,
                      x->call.op == PLAIT_AVERAGE ? (unsigned)x->group->ranks : 0);
    else if (to != from && count > 0)
        memcpy(to, from, count * x->element_size);
}

void fold_message(struct execution *x, void *mine, const void *message, size_t count, bool message_left)
{
    const void *sources[2] = { message_left ? message : mine, message_left ? mine : message };
    struct reduction r = { .result = mine, .sources = sources, .source_count = 2, .count = count };
    if (is_function(&x->call))
        fold_made(x, &r);
    else
        reduce_find(element_accumulator(x->call.type), x->call.op)(&r);
}
