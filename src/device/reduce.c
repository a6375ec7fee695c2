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
    if ((unsigned)type >= ELEMENT_TYPES || (unsigned)op >= ELEMENT_OPS)
        return NULL;
    return set->kernels[type][op];
}

reduce_fn reduce_reference(plait_type type, plait_op op)
{
    return look_up(&reduce_set_scalar, type, op);
}

reduce_fn reduce_find(plait_type type, plait_op op)
{
    return look_up(current_set(), type, op);
}

/* By `conversion`, or by copying when there is none. */
static void convert(reduce_fn conversion, const struct reduction *r, plait_type type)
{
    if (conversion != NULL)
        conversion(r);
    else if (r->result != r->sources[0] && r->count > 0)
        memcpy(r->result, r->sources[0], r->count * plait_type_size(type));
}

void reduce_widen(plait_type type, void *to, const void *from, size_t count)
{
    struct reduction r = { .result = to, .sources = &from, .source_count = 1, .count = count };
    convert(current_set()->widen[type], &r, type);
}

void reduce_narrow(plait_type type, void *to, const void *from, size_t count, unsigned divide)
{
    struct reduction r = {
        .result = to, .sources = &from, .source_count = 1, .count = count, .divide = divide
    };
    reduce_fn narrow = current_set()->narrow[type];
    if (narrow == NULL && divide > 1)
        narrow = reduce_find(type, PLAIT_SUM); /* of one source: a division and no more */
    convert(narrow, &r, type);
}
