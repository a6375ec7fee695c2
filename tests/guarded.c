#include "guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MARGIN = 64, FILL = 0xa7 };

bool guarded_open(struct guarded *guarded, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded->room_size = (size + MARGIN + page - 1) / page * page;
    unsigned char *pages = mmap(NULL, guarded->room_size + 2 * page, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    guarded->room = pages + page;
    guarded->data = guarded->room;
    guarded->size = 0;
    return mprotect(guarded->room, guarded->room_size, PROT_READ | PROT_WRITE) == 0;
}

void guarded_close(struct guarded *guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (guarded->room != NULL)
        munmap(guarded->room - page, guarded->room_size + 2 * page);
    guarded->room = NULL;
}

/* Bytes of the margins that fit before and after the buffer. */
static size_t margin_before(const struct guarded *guarded)
{
    size_t before = (size_t)(guarded->data - guarded->room);
    return before < MARGIN ? before : MARGIN;
}

static size_t margin_after(const struct guarded *guarded)
{
    size_t after = guarded->room_size - (size_t)(guarded->data - guarded->room) - guarded->size;
    return after < MARGIN ? after : MARGIN;
}

void *guarded_place(struct guarded *guarded, size_t size, size_t shift, bool upper)
{
    guarded->size = size;
    guarded->data = upper ? guarded->room + guarded->room_size - size - shift : guarded->room + shift;
    memset(guarded->data - margin_before(guarded), FILL, margin_before(guarded));
    memset(guarded->data + size, FILL, margin_after(guarded));
    return guarded->data;
}

void guarded_seal(struct guarded *guarded, bool sealed)
{
    if (mprotect(guarded->room, guarded->room_size, sealed ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
        abort();
}

static bool filled(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != FILL)
            return false;
    return true;
}

bool guarded_intact(const struct guarded *guarded)
{
    return filled(guarded->data - margin_before(guarded), margin_before(guarded)) &&
           filled(guarded->data + guarded->size, margin_after(guarded));
}
