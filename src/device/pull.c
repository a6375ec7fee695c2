#include "device/pull.h"

#include <errno.h>
#include <sys/uio.h>

int pull(int64_t pid, void *to, uint64_t address, size_t size)
{
    unsigned char *place = to;
    while (size > 0) {
        struct iovec mine = { place, size }, theirs = { (void *)(uintptr_t)address, size };
        ssize_t moved = process_vm_readv((pid_t)pid, &mine, 1, &theirs, 1, 0);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return moved < 0 ? errno : EFAULT;
        place += moved;
        address += (uint64_t)moved;
        size -= (size_t)moved;
    }
    return 0;
}
