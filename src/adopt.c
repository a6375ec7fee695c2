#include "adopt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

/* A line of /proc/self/maps. */
struct mapping {
    uintptr_t first, end;
    char mode[5];
    uint64_t inode;
    char name[96];
};

static bool read_mapping(const char *line, struct mapping *mapping)
{
    mapping->name[0] = '\0';
    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64 " %95[^\n]", &mapping->first,
                  &mapping->end, mapping->mode, &mapping->inode, mapping->name) >= 4;
}

/* Why a mapping can't be adopted, or NULL. */
static const char *mapping_trouble(const struct mapping *mapping)
{
    if (mapping->mode[0] != 'r' || mapping->mode[1] != 'w')
        return "can't be read and written";
    if (mapping->mode[2] == 'x')
        return "can be executed";
    if (mapping->mode[3] != 'p')
        return "is shared with other processes already";
    if (mapping->inode != 0 || mapping->name[0] == '/')
        return "belongs to a file, or is made of reserved huge pages";
    if (strncmp(mapping->name, "[stack", 6) == 0)
        return "is a stack";
    return NULL;
}

static plait_status refuse(const void *memory, size_t size, const char *why)
{
    return failure(PLAIT_UNSUPPORTED,
                   "the %zu bytes at %p can't be registered, for a part of them %s; only private memory "
                   "without a file (malloc's, mmap's) can be; or allocate with plait_mem_alloc()",
                   size, memory, why);
}

/* The mappings follow each other by address. */
static plait_status check_mappings(FILE *maps, const void *memory, size_t size)
{
    uintptr_t next = (uintptr_t)memory, end = next + size;
    char line[512];
    struct mapping mapping;
    while (next < end && fgets(line, sizeof line, maps) != NULL) {
        if (!read_mapping(line, &mapping) || mapping.end <= next)
            continue;
        const char *why = mapping.first > next ? "is not mapped" : mapping_trouble(&mapping);
        if (why != NULL)
            return refuse(memory, size, why);
        next = mapping.end;
    }
    return next >= end ? PLAIT_OK : refuse(memory, size, "is not mapped");
}

plait_status adopt_check(const void *memory, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if ((uintptr_t)memory % page != 0 || size % page != 0)
        return failure(PLAIT_UNSUPPORTED,
                       "the %zu bytes at %p are not whole pages of %zu bytes: peers can map pages only; "
                       "align both the address and the size, or allocate with plait_mem_alloc()",
                       size, memory, page);
    const uintptr_t here =
        (uintptr_t)__builtin_frame_address(0); /* other threads' stacks can't be told apart */
    if (here - (uintptr_t)memory < size)
        return refuse(memory, size, "is the stack that this thread runs on");
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return failure_errno(PLAIT_UNSUPPORTED, errno,
                             "can't read /proc/self/maps, which tells whether the memory may be registered; "
                             "allocate with plait_mem_alloc() instead");
    plait_status status = check_mappings(maps, memory, size);
    fclose(maps);
    return status;
}

static void *private_pages(void *at, size_t size)
{
    int fixed = at != NULL ? MAP_FIXED : 0;
    void *pages = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

plait_status adopt_pages(void *memory, void *shared, size_t size)
{
    memcpy(shared, memory, size);
    if (mremap(shared, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED)
        return PLAIT_OK;
    int error = errno;
    /* The system may have taken the old pages away before it found that it can't. */
    if (private_pages(memory, size) != NULL)
        memcpy(memory, shared, size);
    return failure_errno(status_of_errno(error), error, "the system refused to map %zu bytes at %p anew",
                         size, memory);
}

plait_status adopt_return(void *memory, size_t size)
{
    void *pages = private_pages(NULL, size);
    if (pages == NULL)
        return failure_errno(
            PLAIT_OUT_OF_MEMORY, errno,
            "no %zu bytes of private memory to put in the place of the registered ones at %p", size, memory);
    memcpy(pages, memory, size);
    if (mremap(pages, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED)
        return PLAIT_OK;
    int error = errno;
    munmap(pages, size);
    return failure_errno(status_of_errno(error), error, "the system refused to map %zu bytes at %p anew",
                         size, memory);
}
