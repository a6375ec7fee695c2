/* Copies out of another process's memory, by a system call. */
#ifndef PLAIT_DEVICE_PULL_H
#define PLAIT_DEVICE_PULL_H

#include <stddef.h>
#include <stdint.h>

/* Copies `size` bytes from `address` in process `pid`, which may be this one, to `to`. Returns 0 or an errno: ESRCH
 * when the process is gone, EFAULT when it has no such memory, EPERM when the system forbids it. */
int pull(int64_t pid, void *to, uint64_t address, size_t size);

#endif
