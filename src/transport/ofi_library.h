/* libfabric, opened at run time: loading it costs time and, on Debian 12, hooks the signals of a crash
 * (libpsm's constructor does), and some hosts have none. Only its header is needed to build. */
#ifndef PLAIT_TRANSPORT_OFI_LIBRARY_H
#define PLAIT_TRANSPORT_OFI_LIBRARY_H

#include <rdma/fabric.h>

#include "plait.h"

struct ofi_library {
    uint32_t version; /* of the API that both the header and the library know */
    uint32_t running; /* the library's own */
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
};

/* The same for all callers of this process; it stays loaded. */
plait_status ofi_library_open(const struct ofi_library **library);

#endif
