/* Copies, chosen by where the bytes should end up. */
#ifndef PLAIT_DEVICE_COPY_H
#define PLAIT_DEVICE_COPY_H

#include <stddef.h>

/* Ordinary stores: the copy stays in this core's caches. No overlap. */
void copy_cached(void *to, const void *from, size_t size);

/* Non-temporal stores, fenced before return: the copy goes past the caches,
 * which is right for bytes that another core reads next, and for results
 * larger than the caches. Any alignment; falls back to ordinary stores where
 * the machine has no such stores. No overlap. */
void copy_streamed(void *to, const void *from, size_t size);

#endif
