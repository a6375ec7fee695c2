#include "base/handle.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* A handle's bits: 1 (so that it is never NULL and never an address that
 * malloc gives), 3 of kind, 24 of slot, the rest generation. A slot's tag is its living
 * handle, or 0. Blocks of slots are made on demand and never freed. */
enum { KIND_SHIFT = 1, SLOT_SHIFT = 4, GENERATION_SHIFT = 28 };
enum { BLOCK_SLOTS = 4096, BLOCKS = 4096 };

struct slot {
    _Atomic(uintptr_t) tag;
    _Atomic(void *) object;
    _Atomic uint32_t holders; /* not 0: whoever ends the handle waits */
    uintptr_t generation;
    uint32_t next_free; /* slot number + 1; under the lock */
};

static _Atomic(struct slot *) blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t first_free; /* slot number + 1, 0 if none */
static uint32_t slots_made;

static struct slot *slot_at(uint32_t number)
{
    struct slot *block = atomic_load_explicit(&blocks[number / BLOCK_SLOTS], memory_order_acquire);
    return block == NULL ? NULL : &block[number % BLOCK_SLOTS];
}

/* Under the lock: a slot number, or UINT32_MAX. */
static uint32_t take_slot(void)
{
    if (first_free != 0) {
        uint32_t number = first_free - 1;
        first_free = slot_at(number)->next_free;
        return number;
    }
    if (slots_made % BLOCK_SLOTS == 0) {
        struct slot *block = slots_made / BLOCK_SLOTS < BLOCKS ? calloc(BLOCK_SLOTS, sizeof *block) : NULL;
        if (block == NULL)
            return UINT32_MAX;
        atomic_store_explicit(&blocks[slots_made / BLOCK_SLOTS], block, memory_order_release);
    }
    return slots_made++;
}

void *handle_new(enum handle_kind kind, void *object)
{
    pthread_mutex_lock(&lock);
    uint32_t number = take_slot();
    pthread_mutex_unlock(&lock);
    if (number == UINT32_MAX)
        return NULL;

    struct slot *slot = slot_at(number);
    uintptr_t tag = 1 | (uintptr_t)kind << KIND_SHIFT | (uintptr_t)number << SLOT_SHIFT |
                    slot->generation++ << GENERATION_SHIFT;
    atomic_store_explicit(&slot->object, object, memory_order_relaxed);
    atomic_store_explicit(&slot->tag, tag, memory_order_release);
    return (void *)tag;
}

/* The slot whose living handle is `handle`, or NULL. */
static struct slot *slot_of(enum handle_kind kind, const void *handle)
{
    uintptr_t tag = (uintptr_t)handle;
    if ((tag & 1) == 0 || (tag >> KIND_SHIFT & 7) != (uintptr_t)kind)
        return NULL;
    struct slot *slot = slot_at((uint32_t)(tag >> SLOT_SHIFT) & (BLOCK_SLOTS * BLOCKS - 1));
    if (slot == NULL || atomic_load_explicit(&slot->tag, memory_order_acquire) != tag)
        return NULL;
    return slot;
}

void *handle_find(enum handle_kind kind, const void *handle)
{
    struct slot *slot = slot_of(kind, handle);
    return slot == NULL ? NULL : atomic_load_explicit(&slot->object, memory_order_relaxed);
}

void *handle_hold(enum handle_kind kind, const void *handle)
{
    struct slot *slot = slot_of(kind, handle);
    if (slot == NULL)
        return NULL;
    /* Either this thread sees that the handle has ended, or the one that ends it sees the holder. */
    atomic_fetch_add(&slot->holders, 1);
    if (atomic_load(&slot->tag) != (uintptr_t)handle) {
        atomic_fetch_sub(&slot->holders, 1);
        return NULL;
    }
    return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

void handle_let_go(const void *handle)
{
    struct slot *slot = slot_at((uint32_t)((uintptr_t)handle >> SLOT_SHIFT) & (BLOCK_SLOTS * BLOCKS - 1));
    atomic_fetch_sub(&slot->holders, 1);
}

void handle_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    for (uint32_t number = 0; number < slots_made; number++) {
        struct slot *slot = slot_at(number);
        if (slot != NULL)
            atomic_store_explicit(&slot->holders, 0, memory_order_relaxed);
    }
}

void *handle_end(enum handle_kind kind, const void *handle)
{
    struct slot *slot = slot_of(kind, handle);
    if (slot == NULL)
        return NULL;
    void *object = atomic_load_explicit(&slot->object, memory_order_relaxed);
    uintptr_t tag = (uintptr_t)handle;
    if (!atomic_compare_exchange_strong(&slot->tag, &tag, 0))
        return NULL;
    while (atomic_load(&slot->holders) > 0)
        sched_yield();

    uint32_t number = (uint32_t)((uintptr_t)handle >> SLOT_SHIFT) & (BLOCK_SLOTS * BLOCKS - 1);
    pthread_mutex_lock(&lock);
    slot->next_free = first_free;
    first_free = number + 1;
    pthread_mutex_unlock(&lock);
    return object;
}
