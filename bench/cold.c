#include "cold.h"

#include <limits.h>
#include <stdint.h>

enum { LINE = 64, PAGE = 4096 };

size_t cold_stride(size_t size)
{
    /* Whole pages: what follows a place in memory, and the processor fetches ahead, is nobody's then. */
    return (size / PAGE + 1) * PAGE;
}

int cold_places(size_t size, size_t room)
{
    if (room < size)
        return 1;
    size_t places = (room - size) / cold_stride(size) + 1;
    return places < INT_MAX ? (int)places : INT_MAX;
}

static void flush_line(const void *line)
{
#if defined(__x86_64__)
    __builtin_ia32_clflush(line);
#elif defined(__aarch64__)
    __asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
#else
    (void)line;
#endif
}

static void await_flushes(void)
{
#if defined(__x86_64__)
    __builtin_ia32_mfence();
#elif defined(__aarch64__)
    __asm__ volatile("dsb ish" : : : "memory");
#endif
}

void cold_flush(const void *bytes, size_t size)
{
    uintptr_t first = (uintptr_t)bytes / LINE * LINE;
    for (uintptr_t line = first; line < (uintptr_t)bytes + size; line += LINE)
        flush_line((const void *)line);
    await_flushes();
}
