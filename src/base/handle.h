/* Public handles. A handle is a number in a pointer's clothes: a slot of a
 * table and the slot's generation. So a handle that has ended, or never was one, is
 * recognised without touching freed memory. */
#ifndef PLAIT_BASE_HANDLE_H
#define PLAIT_BASE_HANDLE_H

#include <stddef.h>

#include "plait.h"

enum handle_kind { HANDLE_WORLD = 1, HANDLE_COMM, HANDLE_WORK, HANDLE_THREADS, HANDLE_PREPARED };

/* A handle for `object`, or NULL when memory or the 16 million slots are used up. Any thread. */
void *handle_new(enum handle_kind kind, void *object);

/* The object of a living handle of that kind, else NULL. Any thread, a few
 * nanoseconds. That nobody ends the handle meanwhile is the caller's matter. */
void *handle_find(enum handle_kind kind, const void *handle);

/* As handle_find(), and handle_end() does not return before handle_let_go(). For a moment
 * only: long enough to count oneself among the object's users. */
void *handle_hold(enum handle_kind kind, const void *handle);
void handle_let_go(const void *handle);

/* The status for a handle that was not found: NULL never was one, any other is used at the wrong time. */
static inline plait_status handle_refusal(const void *handle)
{
    return handle == NULL ? PLAIT_INVALID_ARGUMENT : PLAIT_INVALID_USAGE;
}

/* In the child of a fork: the threads that held handles, or the table, are not there. */
void handle_after_fork(void);

/* Ends a handle and gives its object back; NULL if it was not alive. Of
 * several threads that end one handle, one gets the object. */
void *handle_end(enum handle_kind kind, const void *handle);

#endif
