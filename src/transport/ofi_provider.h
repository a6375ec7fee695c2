/* Which of libfabric's providers carries this rank's messages, and why. */
#ifndef PLAIT_TRANSPORT_OFI_PROVIDER_H
#define PLAIT_TRANSPORT_OFI_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/ofi_address.h"
#include "transport/ofi_library.h"

struct ofi_choice {
    const struct ofi_library *library;
    struct fi_info *info; /* to be freed with the library's freeinfo */
    bool writes;          /* with remote writes that carry immediate data */
    char reason[120];
};

struct ofi_wish {
    const char *provider; /* "tcp;ofi_rxm"; NULL: the best */
    const struct interface_address *address;
    size_t receives; /* buffers that have to be posted at a time */
    bool no_writes;  /* even where they can be had */
};

plait_status ofi_provider_choose(const struct ofi_library *library, const struct ofi_wish *wish,
                                 struct ofi_choice *choice);

#endif
