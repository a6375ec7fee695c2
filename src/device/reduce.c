/* Which set of kernels serves this process, and what needs no kernel of its own. */
#include "device/reduce.h"

#include <stdatomic.h>
#include <string.h>

#include "device/reduce_set.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Best first. */
static const struct reduce_set *const sets[] = {
#if defined(__x86_64__)
    &reduce_set_avx512,
    &reduce_set_avx2,
#elif defined(__aarch64__)
    &reduce_set_neon,
#endif
    &reduce_set_scalar,
};

/* Threads that meet NULL at once all store the same pointer. */
static const struct reduce_set *_Atomic chosen;

static const struct reduce_set *find_set(const char *name)
{
    for (size_t i = 0; i < LENGTH(sets); i++) {
        if ((strcmp(name, "auto") == 0 || strcmp(name, sets[i]->name) == 0) && sets[i]->usable())
            return sets[i];
    }
    return NULL;
}

static const struct reduce_set *current_set(void)
{
    const struct reduce_set *set = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (set == NULL) {
        set = find_set("auto");
        atomic_store_explicit(&chosen, set, memory_order_relaxed);
    }
    return set;
}

bool reduce_use(const char *name)
{
    const struct reduce_set *set = find_set(name);
    if (set == NULL)
        return false;
    atomic_store_explicit(&chosen, set, memory_order_relaxed);
    return true;
}

const char *reduce_set_name(void)
{
    return current_set()->name;
}

static reduce_fn look_up(const struct reduce_set *set, plait_type type, plait_op op)
{
    if (type < PLAIT_I8 || type > PLAIT_F64 || op < PLAIT_SUM || op > PLAIT_AVERAGE)
        return NULL;
    return set->kernels[type][op == PLAIT_AVERAGE ? PLAIT_SUM : op];
}

reduce_fn reduce_reference(plait_type type, plait_op op)
{
    return look_up(&reduce_set_scalar, type, op);
}

reduce_fn reduce_find(plait_type type, plait_op op)
{
    return look_up(current_set(), type, op);
}

plait_type reduce_accumulator(plait_type type)
{
    return type == PLAIT_F16 || type == PLAIT_BF16 ? PLAIT_F32 : type;
}

/* Not plait_type_size(): that belongs to the front, and includes point downwards. */
static size_t size_of(plait_type type)
{
    static const unsigned char sizes[] = {
        [PLAIT_I8] = 1,  [PLAIT_U8] = 1,  [PLAIT_I32] = 4,  [PLAIT_U32] = 4, [PLAIT_I64] = 8,
        [PLAIT_U64] = 8, [PLAIT_F16] = 2, [PLAIT_BF16] = 2, [PLAIT_F32] = 4, [PLAIT_F64] = 8,
    };
    return sizes[type];
}

void reduce_widen(plait_type type, void *to, const void *from, size_t count)
{
    struct reduction r = { .result = to, .sources = &from, .source_count = 1, .count = count };
    if (type == PLAIT_F16)
        current_set()->widen_f16(&r);
    else if (type == PLAIT_BF16)
        current_set()->widen_bf16(&r);
    else if (to != from && count > 0)
        memcpy(to, from, count * size_of(type));
}

void reduce_narrow(plait_type type, void *to, const void *from, size_t count, unsigned divide)
{
    struct reduction r = {
        .result = to, .sources = &from, .source_count = 1, .count = count, .divide = divide
    };
    if (type == PLAIT_F16)
        current_set()->narrow_f16(&r);
    else if (type == PLAIT_BF16)
        current_set()->narrow_bf16(&r);
    else if (divide > 1)
        reduce_find(type, PLAIT_SUM)(&r); /* of one source: a division and no more */
    else if (to != from && count > 0)
        memcpy(to, from, count * size_of(type));
}
