/* A transport that routes by peer: the ranks of this host through memory, all others over a network. It is
 * made of two endpoints that were opened before, and is one endpoint itself. */
#ifndef PLAIT_TRANSPORT_ROUTE_H
#define PLAIT_TRANSPORT_ROUTE_H

#include "transport/transport.h"

struct route_part {
    const struct transport *transport;
    struct endpoint *endpoint;
    const unsigned char *blobs; /* TRANSPORT_BLOB_BYTES of each rank, by rank */
};

/* `outside[rank]`: on another host. The parts are the route's on success. */
plait_status route_make(int rank, int size, const bool *outside, const struct route_part *inner,
                        const struct route_part *outer, struct endpoint **endpoint);

extern const struct transport transport_route; /* without open(): route_make() does that */

#endif
