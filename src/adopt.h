/* Adopting: a caller's private pages become a second view of heap pages, and private again.
 *
 * The view is made by mremap() of shared pages with an old size of 0, which leaves the old view as it is:
 * no file descriptor is needed, and it works in memfds and in memory that threads share alike. */
#ifndef PLAIT_ADOPT_H
#define PLAIT_ADOPT_H

#include "plait.h"

/* Are these whole pages private, anonymous, ordinary memory? Otherwise PLAIT_UNSUPPORTED or
 * PLAIT_INVALID_ARGUMENT, and the sentence says why and what to do. */
plait_status adopt_check(const void *memory, size_t size);

/* Puts the content of `memory` into `shared`, and `shared` at its place too. */
plait_status adopt_pages(void *memory, void *shared, size_t size);

/* Puts private pages with the same content in the place of the view at `memory`. */
plait_status adopt_return(void *memory, size_t size);

#endif
