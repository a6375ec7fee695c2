/* Stands in for the transport over libfabric where its headers were not there at build time. */
#include "base/status.h"
#include "transport/transport.h"

static plait_status refuse(const struct endpoint_setup *setup, struct endpoint **endpoint,
                           unsigned char blob[TRANSPORT_BLOB_BYTES])
{
    (void)setup;
    (void)endpoint;
    (void)blob;
    return failure(PLAIT_UNSUPPORTED,
                   "this build of Plait has no libfabric in it, which ranks on several hosts need: install "
                   "libfabric-dev and configure with PLAIT_WITH_LIBFABRIC=ON");
}

const struct transport transport_ofi = { .name = "ofi", .open = refuse };
