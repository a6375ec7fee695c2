#include "transport/heap.h"

#include <stdlib.h>

#include "base/status.h"

static size_t round_up(size_t size, size_t grain)
{
    return (size + grain - 1) / grain * grain;
}

void heap_open(struct heap *heap, unsigned char *base, size_t size)
{
    *heap = (struct heap){ .base = size > 0 ? base : NULL, .size = size };
    pthread_mutex_init(&heap->turn, NULL);
    pthread_mutex_init(&heap->lock, NULL);
}

void heap_close(struct heap *heap)
{
    while (heap->regions != NULL)
        heap_remove(heap, heap->regions);
    pthread_mutex_destroy(&heap->lock);
    pthread_mutex_destroy(&heap->turn);
}

struct region *heap_add(struct heap *heap, size_t size)
{
    struct region *region = calloc(1, sizeof *region), **link = &heap->regions;
    if (region == NULL) {
        failure(PLAIT_OUT_OF_MEMORY, "no memory to keep account of %zu bytes", size);
        return NULL;
    }
    size_t grain = size >= HEAP_HUGE_PAGE ? HEAP_HUGE_PAGE : HEAP_PAGE, at = 0;
    size_t pages = size <= heap->size ? round_up(size, grain) : size;
    for (; *link != NULL; link = &(*link)->next) {
        if (pages <= (*link)->offset && at <= (*link)->offset - pages)
            break;
        at = round_up((*link)->offset + (*link)->size, grain);
    }
    if (pages > heap->size || at > heap->size - pages) {
        free(region);
        failure(PLAIT_OUT_OF_MEMORY,
                "no %zu bytes in a row are free of the %zu bytes of addresses at which peers can read this "
                "rank's memory; free some%s",
                size, heap->size, heap->size == 0 ? ", or raise the limit of address space (ulimit -v)" : "");
        return NULL;
    }
    *region = (struct region){
        .next = *link, .offset = at, .size = pages, .wanted = size, .address = heap->base + at
    };
    pthread_mutex_lock(&heap->lock);
    *link = region;
    pthread_mutex_unlock(&heap->lock);
    return region;
}

void heap_adopt(struct heap *heap, struct region *region, unsigned char *address)
{
    pthread_mutex_lock(&heap->lock);
    region->address = address;
    region->adopted = true;
    atomic_fetch_add(&heap->adopted, 1);
    pthread_mutex_unlock(&heap->lock);
}

void heap_remove(struct heap *heap, struct region *region)
{
    struct region **link = &heap->regions;
    while (*link != region)
        link = &(*link)->next;
    pthread_mutex_lock(&heap->lock);
    *link = region->next;
    if (region->adopted)
        atomic_fetch_sub(&heap->adopted, 1);
    pthread_mutex_unlock(&heap->lock);
    free(region);
}

static bool overlap(uintptr_t first, size_t first_size, uintptr_t second, size_t second_size)
{
    return first < second + second_size && second < first + first_size;
}

struct region *heap_touched(const struct heap *heap, const void *memory, size_t size)
{
    struct region *region = heap->regions;
    while (region != NULL && !overlap((uintptr_t)memory, size, (uintptr_t)region->address, region->wanted))
        region = region->next;
    return region;
}

static uint64_t adopted_ticket(struct heap *heap, const unsigned char *memory, size_t size)
{
    uint64_t ticket = 0;
    pthread_mutex_lock(&heap->lock);
    const struct region *region = heap_touched(heap, memory, 1);
    if (region != NULL && size <= region->wanted - (size_t)(memory - region->address))
        ticket = region->offset + (uint64_t)(memory - region->address) + 1;
    pthread_mutex_unlock(&heap->lock);
    return ticket;
}

uint64_t heap_ticket(struct heap *heap, const void *memory, size_t size)
{
    size_t offset = (uintptr_t)memory - (uintptr_t)heap->base;
    if (heap->base == NULL || memory == NULL)
        return 0;
    if ((uintptr_t)memory >= (uintptr_t)heap->base && offset < heap->size)
        return size <= heap->size - offset ? offset + 1 : 0;
    if (atomic_load_explicit(&heap->adopted, memory_order_relaxed) == 0)
        return 0;
    return adopted_ticket(heap, memory, size);
}
