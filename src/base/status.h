/* Failures: a status and a sentence for the calling thread. */
#ifndef PLAIT_BASE_STATUS_H
#define PLAIT_BASE_STATUS_H

#include "plait.h"

enum { SENTENCE_BYTES = 1024 }; /* the most that a sentence has, with its end */

/* Writes the calling thread's sentence and returns `status`, so that whoever
 * first knows the cause can say `return failure(PLAIT_..., "rank %d ...", rank)`.
 * Everyone above passes the status on and leaves the sentence alone. */
plait_status failure(plait_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a system call that failed with errno `error`: adds ": No such file or directory (ENOENT)". */
plait_status failure_errno(plait_status status, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The status that fits errno `error`: ENOMEM is out of memory, EMFILE out of resources, the rest a
 * system error. */
plait_status status_of_errno(int error);

/* The calling thread's sentence; "" if it has none. */
const char *failure_text(void);

#endif
