/* A rank's heap: which parts of its segment's last region are a caller's, and where the caller sees them.
 *
 * Peers name a byte of it by its offset. Most memory is seen at the heap's own addresses; a
 * caller's private buffer that was *adopted* has its pages in the heap and stays at its address, a second
 * view. Whoever changes the list holds `turn` meanwhile, and reads it without `lock`. */
#ifndef PLAIT_TRANSPORT_HEAP_H
#define PLAIT_TRANSPORT_HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"

struct region {
    struct region *next;    /* by offset */
    size_t offset, size;    /* in the heap, whole pages */
    size_t wanted;          /* bytes that the caller asked for */
    unsigned char *address; /* where the caller sees it */
    bool adopted;
    int registrations; /* an adopted one ends with its last */
};

struct heap {
    pthread_mutex_t turn;   /* of callers, one after another; the functions below but heap_ticket() want it */
    pthread_mutex_t lock;   /* the list, while it changes */
    unsigned char *base;    /* NULL: there is none */
    size_t size;            /* bytes of addresses */
    struct region *regions; /* in order of offset */
    _Atomic int adopted;    /* regions that are */
};

enum { HEAP_PAGE = 4096, HEAP_HUGE_PAGE = 2 << 20 };

void heap_open(struct heap *heap, unsigned char *base, size_t size);
/* Forgets all regions; nothing happens to their memory. */
void heap_close(struct heap *heap);

/* A new region of `size` bytes in the first gap that holds it, in whole huge pages from that size on; or
 * NULL with a sentence. Only addresses: the memory behind them is the transport's. */
struct region *heap_add(struct heap *heap, size_t size);
/* Has peers find a region at its caller's `address`, too. */
void heap_adopt(struct heap *heap, struct region *region, unsigned char *address);
/* Takes a region off the list and frees it. */
void heap_remove(struct heap *heap, struct region *region);
/* The region that has any byte of these, as the caller sees them; NULL: none. */
struct region *heap_touched(const struct heap *heap, const void *memory, size_t size);

/* By what number peers find `size` bytes at `memory`: 1 more than their offset; 0: they can't. Any thread. */
uint64_t heap_ticket(struct heap *heap, const void *memory, size_t size);

#endif
