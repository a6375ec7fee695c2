/* Memory that peers read in place: allocating it, and registering a caller's own. */
#include "memory.h"

#include <inttypes.h>
#include <time.h>

#include "adopt.h"
#include "base/handle.h"
#include "base/log.h"
#include "base/status.h"
#include "uses.h"

void memory_open(struct world *world)
{
    unsigned char *base = NULL;
    size_t size = world->transport->heap(world->endpoint, &base);
    heap_open(&world->heap, base, size);
    world->heap_open = true;
}

static void give_back(struct world *world, struct region *region)
{
    size_t offset = region->offset, size = region->size;
    heap_remove(&world->heap, region);
    world->transport->heap_give(world->endpoint, offset, size);
}

void memory_close(struct world *world)
{
    if (!world->heap_open)
        return;
    for (struct region *region = world->heap.regions; region != NULL; region = region->next)
        if (region->adopted && adopt_return(region->address, region->wanted) != PLAIT_OK)
            log_warn("%zu bytes at %p stay shared memory for good: %s", region->wanted,
                     (void *)region->address, failure_text());
    heap_close(&world->heap);
}

/* The world, and this thread's turn to change what is allocated. A callback runs on the driver's thread, for
 * which whoever has the turn may be waiting. */
static struct world *enter(plait_world *handle, const char *function)
{
    struct world *world = world_hold(handle, function);
    while (world != NULL && pthread_mutex_trylock(&world->heap.turn) != 0) {
        if (engine_calls_back(&world->engine))
            uses_answer(&world->engine);
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    return world;
}

static plait_status leave(struct world *world, plait_status status)
{
    pthread_mutex_unlock(&world->heap.turn);
    world_let_go(world);
    return status;
}

/* ------------------------------------------------------------------ allocating */

static plait_status take(struct world *world, size_t size, struct region **out)
{
    struct region *region = heap_add(&world->heap, size);
    if (region == NULL)
        return PLAIT_OUT_OF_MEMORY;
    plait_status status = world->transport->heap_take(world->endpoint, region->offset, region->size);
    if (status != PLAIT_OK) {
        heap_remove(&world->heap, region);
        return status;
    }
    *out = region;
    return PLAIT_OK;
}

plait_status plait_mem_alloc(plait_world *handle, size_t size, void **memory)
{
    if (memory == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: memory is NULL", __func__);
    if (size == 0)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: size is 0; a buffer of no bytes may be NULL", __func__);
    struct world *world = enter(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    struct region *region;
    plait_status status = take(world, size, &region);
    if (status == PLAIT_OK)
        *memory = region->address;
    return leave(world, status);
}

/* That no work under way uses the region. */
static plait_status check_unused(struct world *world, const struct region *region, const char *function)
{
    char use[USE_TEXT_BYTES];
    if (!uses_find(&world->engine, region->address, region->wanted, use))
        return PLAIT_OK;
    return failure(PLAIT_INVALID_USAGE, "%s: the %zu bytes at %p are in use by %s; wait for it first",
                   function, region->wanted, (void *)region->address, use);
}

static plait_status check_free(const struct region *region, const void *memory)
{
    const char *function = "plait_mem_free";
    if (region == NULL)
        return failure(PLAIT_INVALID_USAGE,
                       "%s: %p was not allocated by plait_mem_alloc() in this world, or is freed already",
                       function, memory);
    if (region->adopted)
        return failure(PLAIT_INVALID_USAGE,
                       "%s: %p was registered, not allocated: plait_mem_deregister() is what ends that",
                       function, memory);
    if (memory != region->address)
        return failure(PLAIT_INVALID_USAGE,
                       "%s: %p is %zu bytes into the %zu bytes allocated at %p; free those by their start",
                       function, memory, (size_t)((const unsigned char *)memory - region->address),
                       region->wanted, (void *)region->address);
    if (region->registrations > 0)
        return failure(PLAIT_INVALID_USAGE, "%s: the memory at %p is still registered; deregister it first",
                       function, memory);
    return PLAIT_OK;
}

plait_status plait_mem_free(plait_world *handle, void *memory)
{
    struct world *world = enter(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    if (memory == NULL)
        return leave(world, PLAIT_OK);
    struct region *region = heap_touched(&world->heap, memory, 1);
    plait_status status = check_free(region, memory);
    if (status == PLAIT_OK)
        status = check_unused(world, region, __func__);
    if (status == PLAIT_OK)
        give_back(world, region);
    return leave(world, status);
}

/* ----------------------------------------------------------------- registering */

static plait_status adopt(struct world *world, void *memory, size_t size)
{
    char use[USE_TEXT_BYTES];
    struct region *region;
    plait_status status = adopt_check(memory, size);
    if (status != PLAIT_OK)
        return status;
    if (uses_find(&world->engine, memory, size, use))
        return failure(PLAIT_INVALID_USAGE,
                       "plait_mem_register: the %zu bytes at %p are in use by %s; wait for it first", size,
                       memory, use);
    status = take(world, size, &region);
    if (status != PLAIT_OK)
        return status;
    status = adopt_pages(memory, world->heap.base + region->offset, size);
    if (status != PLAIT_OK) {
        give_back(world, region);
        return status;
    }
    heap_adopt(&world->heap, region, memory);
    region->registrations = 1;
    return PLAIT_OK;
}

/* The memory, or a part of it, is known already. */
static plait_status register_again(struct region *region, const void *memory, size_t size)
{
    size_t place = (size_t)((const unsigned char *)memory - region->address);
    bool whole = memory == region->address && size == region->wanted;
    bool inside = (const unsigned char *)memory >= region->address && place < region->wanted &&
                  size <= region->wanted - place;
    if (region->adopted ? !whole : !inside)
        return failure(
            PLAIT_INVALID_ARGUMENT,
            "plait_mem_register: the %zu bytes at %p overlap with the %zu bytes %s at %p; %s", size, memory,
            region->wanted, region->adopted ? "registered" : "allocated", (void *)region->address,
            region->adopted ? "register the same again, or none of them" : "register a part of those");
    region->registrations++;
    return PLAIT_OK;
}

static plait_status check_memory(const void *memory, size_t size, const char *function)
{
    if (memory == NULL || size == 0)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: memory is %p and size is %zu; give at least one byte",
                       function, memory, size);
    if ((uintptr_t)memory + size < (uintptr_t)memory)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: memory at %p can't hold %zu bytes", function, memory,
                       size);
    return PLAIT_OK;
}

plait_status plait_mem_register(plait_world *handle, void *memory, size_t size)
{
    plait_status status = check_memory(memory, size, __func__);
    if (status != PLAIT_OK)
        return status;
    struct world *world = enter(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    struct region *region = heap_touched(&world->heap, memory, size);
    status = region != NULL ? register_again(region, memory, size) : adopt(world, memory, size);
    return leave(world, status);
}

/* The last registration of a caller's own buffer ends. */
static plait_status end_adoption(struct world *world, struct region *region)
{
    plait_status status = check_unused(world, region, "plait_mem_deregister");
    if (status == PLAIT_OK)
        status = adopt_return(region->address, region->wanted);
    if (status == PLAIT_OK)
        give_back(world, region);
    return status;
}

static plait_status check_deregister(const struct region *region, const void *memory)
{
    const char *function = "plait_mem_deregister";
    if (region == NULL || region->registrations == 0)
        return failure(PLAIT_INVALID_USAGE, "%s: %p is not registered in this world, or not any more",
                       function, memory);
    if (region->adopted && memory != region->address)
        return failure(
            PLAIT_INVALID_USAGE,
            "%s: %p is %zu bytes into the %zu bytes registered at %p; deregister those by their start",
            function, memory, (size_t)((const unsigned char *)memory - region->address), region->wanted,
            (void *)region->address);
    return PLAIT_OK;
}

plait_status plait_mem_deregister(plait_world *handle, void *memory)
{
    plait_status status = check_memory(memory, 1, __func__);
    if (status != PLAIT_OK)
        return status;
    struct world *world = enter(handle, __func__);
    if (world == NULL)
        return handle_refusal(handle);
    struct region *region = heap_touched(&world->heap, memory, 1);
    status = check_deregister(region, memory);
    if (status == PLAIT_OK && region->adopted && region->registrations == 1)
        status = end_adoption(world, region);
    else if (status == PLAIT_OK)
        region->registrations--;
    return leave(world, status);
}
