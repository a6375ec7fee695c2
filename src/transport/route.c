#include "transport/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* A receive from any source waits in both parts; this one stands for it in the network's. */
struct twin {
    struct twin *next;
    struct transfer *receive, outer;
};

/* A stage that no part uses: the receive is the network's alone. */
enum { STAGE_OUTSIDE = -1 };

struct route {
    int rank, size;
    bool *outside;
    struct route_part inner, outer;
    struct twin *twins;
};

static struct route *route_of(struct endpoint *endpoint)
{
    return (struct route *)(void *)endpoint;
}

plait_status route_make(int rank, int size, const bool *outside, const struct route_part *inner,
                        const struct route_part *outer, struct endpoint **endpoint)
{
    struct route *route = calloc(1, sizeof *route);
    bool *copy = malloc((size_t)size * sizeof *copy);
    if (route == NULL || copy == NULL) {
        free(route);
        free(copy);
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the routes to %d ranks", size);
    }
    memcpy(copy, outside, (size_t)size * sizeof *copy);
    *route = (struct route){ .rank = rank, .size = size, .outside = copy, .inner = *inner, .outer = *outer };
    *endpoint = (struct endpoint *)(void *)route;
    return PLAIT_OK;
}

/* Is the receive with the inner part still? */
static bool is_inside(const struct twin *twin)
{
    return twin->receive->stage != STAGE_OUTSIDE;
}

/* Whose a peer is. Ranks that are none are the inner part's, which refuses them. */
static struct route_part *part_for(struct route *route, int peer)
{
    return peer >= 0 && peer < route->size && route->outside[peer] ? &route->outer : &route->inner;
}

/* -------------------------------------------------------------- coming, going */

/* The peers of one part, this rank among them, with that part's blobs. */
static plait_status connect_part(struct route *route, struct route_part *part, const struct peer *peers,
                                 int count, uint64_t generation, const unsigned char job_key[32],
                                 int64_t deadline)
{
    struct peer *chosen = calloc((size_t)count, sizeof *chosen);
    int used = 0;
    if (chosen == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", count);
    for (int i = 0; i < count; i++) {
        int rank = peers[i].rank;
        if (rank != route->rank && part_for(route, rank) != part)
            continue;
        chosen[used] = peers[i];
        chosen[used++].blob = part->blobs + (size_t)rank * TRANSPORT_BLOB_BYTES;
    }
    plait_status status =
        part->transport->connect(part->endpoint, chosen, used, generation, job_key, deadline);
    free(chosen);
    return status;
}

static plait_status route_connect(struct endpoint *endpoint, const struct peer *peers, int count,
                                  uint64_t generation, const unsigned char job_key[32], int64_t deadline)
{
    struct route *route = route_of(endpoint);
    plait_status status = connect_part(route, &route->inner, peers, count, generation, job_key, deadline);
    if (status == PLAIT_OK)
        status = connect_part(route, &route->outer, peers, count, generation, job_key, deadline);
    route->inner.blobs = route->outer.blobs = NULL; /* the caller's, and of no more use */
    return status;
}

static void route_leave(struct endpoint *endpoint)
{
    struct route *route = route_of(endpoint);
    route->inner.transport->leave(route->inner.endpoint);
    route->outer.transport->leave(route->outer.endpoint);
}

static void route_close(struct endpoint *endpoint)
{
    struct route *route = route_of(endpoint);
    if (route == NULL)
        return;
    route->outer.transport->close(route->outer.endpoint);
    route->inner.transport->close(route->inner.endpoint);
    while (route->twins != NULL) {
        struct twin *twin = route->twins;
        route->twins = twin->next;
        if (!is_inside(twin))
            twin->receive->status = PLAIT_ABORTED;
        free(twin);
    }
    free(route->outside);
    free(route);
}

/* ------------------------------------------------------------------ messages */

static void route_send(struct endpoint *endpoint, struct transfer *transfer)
{
    struct route_part *part = part_for(route_of(endpoint), transfer->peer);
    part->transport->send(part->endpoint, transfer);
}

/* What became of a twin is the receive's. */
static void adopt(struct twin *twin)
{
    twin->receive->moved = twin->outer.moved;
    twin->receive->source = twin->outer.source;
    twin->receive->status = twin->outer.status;
}

/* One that both parts are asked for; the first to have a message for it takes the other back. */
static void receive_any(struct route *route, struct transfer *receive)
{
    struct twin *twin = calloc(1, sizeof *twin);
    if (twin == NULL) {
        receive->status = failure(PLAIT_OUT_OF_MEMORY, "no memory for a receive from any rank");
        return;
    }
    twin->receive = receive;
    twin->outer = *receive;
    route->outer.transport->recv(route->outer.endpoint, &twin->outer);
    if (twin->outer.source >= 0) { /* it was there, or is on its way */
        receive->stage = STAGE_OUTSIDE;
        receive->status = PLAIT_IN_PROGRESS;
        receive->source = -1;
    } else {
        route->inner.transport->recv(route->inner.endpoint, receive);
        if (receive->source >= 0 || receive->status != PLAIT_IN_PROGRESS) {
            route->outer.transport->cancel(route->outer.endpoint, &twin->outer);
            free(twin);
            return;
        }
    }
    twin->next = route->twins;
    route->twins = twin;
}

static void route_recv(struct endpoint *endpoint, struct transfer *transfer)
{
    struct route *route = route_of(endpoint);
    if (transfer->peer == PLAIT_ANY_SOURCE && (transfer->key.context & CONTEXT_CALLERS) != 0) {
        receive_any(route, transfer);
        return;
    }
    struct route_part *part = part_for(route, transfer->peer);
    part->transport->recv(part->endpoint, transfer);
}

/* After the network moved: what it has a message for is taken back inside, before anything moves there. */
static void take_back_inside(struct route *route)
{
    for (struct twin *twin = route->twins; twin != NULL; twin = twin->next) {
        if (twin->outer.source < 0 || !is_inside(twin))
            continue;
        route->inner.transport->cancel(route->inner.endpoint, twin->receive);
        twin->receive->stage = STAGE_OUTSIDE;
        twin->receive->status = PLAIT_IN_PROGRESS;
    }
}

/* Settles receives whose network twin is done, and drops twins that have no use any more. True if there were any. */
static bool tidy_twins(struct route *route)
{
    bool tidied = false;
    for (struct twin **at = &route->twins; *at != NULL;) {
        struct twin *twin = *at;
        if (!is_inside(twin) && twin->outer.status == PLAIT_IN_PROGRESS) {
            at = &twin->next;
            continue;
        }
        bool met_inside = is_inside(twin) && twin->receive->source >= 0;
        if (is_inside(twin) && !met_inside && twin->receive->status == PLAIT_IN_PROGRESS) {
            at = &twin->next;
            continue;
        }
        if (is_inside(twin))
            route->outer.transport->cancel(route->outer.endpoint, &twin->outer);
        else
            adopt(twin);
        *at = twin->next;
        free(twin);
        tidied = true;
    }
    return tidied;
}

static bool route_progress(struct endpoint *endpoint)
{
    struct route *route = route_of(endpoint);
    bool moved = route->outer.transport->progress(route->outer.endpoint);
    if (route->twins != NULL)
        take_back_inside(route);
    moved |= route->inner.transport->progress(route->inner.endpoint);
    if (route->twins != NULL)
        moved |= tidy_twins(route);
    return moved;
}

static void route_cancel(struct endpoint *endpoint, struct transfer *transfer)
{
    struct route *route = route_of(endpoint);
    struct twin **at = &route->twins;
    while (*at != NULL && (*at)->receive != transfer)
        at = &(*at)->next;
    if (transfer->status != PLAIT_IN_PROGRESS)
        return;
    struct twin *twin = *at;
    if (twin != NULL) {
        bool inside = is_inside(twin);
        *at = twin->next;
        route->outer.transport->cancel(route->outer.endpoint, &twin->outer);
        free(twin);
        if (!inside) {
            transfer->status = PLAIT_ABORTED;
            return;
        }
    }
    int peer = transfer->peer;
    struct route_part *part = twin != NULL ? &route->inner : part_for(route, peer);
    part->transport->cancel(part->endpoint, transfer);
}

static enum life route_life(struct endpoint *endpoint, int peer)
{
    struct route_part *part = part_for(route_of(endpoint), peer);
    return part->transport->life(part->endpoint, peer);
}

/* ------------------------------------------------------------------- boards */

static plait_status route_channel_open(struct endpoint *endpoint, int channel)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    return inner->transport->channel_open(inner->endpoint, channel);
}

static void route_channel_close(struct endpoint *endpoint, int channel)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    inner->transport->channel_close(inner->endpoint, channel);
}

static plait_status route_lane_open(struct endpoint *endpoint, int lane)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    return inner->transport->lane_open(inner->endpoint, lane);
}

static void route_lane_close(struct endpoint *endpoint, int lane)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    inner->transport->lane_close(inner->endpoint, lane);
}

static size_t route_heap(struct endpoint *endpoint, unsigned char **base)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    return inner->transport->heap(inner->endpoint, base);
}

static plait_status route_heap_take(struct endpoint *endpoint, size_t offset, size_t size)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    return inner->transport->heap_take(inner->endpoint, offset, size);
}

static void route_heap_give(struct endpoint *endpoint, size_t offset, size_t size)
{
    struct route_part *inner = &route_of(endpoint)->inner;
    inner->transport->heap_give(inner->endpoint, offset, size);
}

/* For ranks that are all inside. */
static struct board *route_board(struct endpoint *endpoint, int channel, const int *ranks, int count)
{
    struct route *route = route_of(endpoint);
    for (int i = 0; i < count; i++)
        if (part_for(route, ranks[i]) == &route->outer)
            return NULL;
    return route->inner.transport->board(route->inner.endpoint, channel, ranks, count);
}

/* Who waits may wait for either part, so no bell of one would do. */
static struct bell *route_bell(struct endpoint *endpoint)
{
    (void)endpoint;
    return NULL;
}

/* What comes through memory does not show there. */
static int route_wait_fd(struct endpoint *endpoint)
{
    struct route_part *outer = &route_of(endpoint)->outer;
    return outer->transport->wait_fd(outer->endpoint);
}

static bool route_may_sleep(struct endpoint *endpoint)
{
    struct route_part *outer = &route_of(endpoint)->outer;
    return outer->transport->may_sleep(outer->endpoint);
}

const struct transport transport_route = {
    .name = "shm+ofi",
    .nap_ns = BELL_NAP_NS / 4,
    .maps_apart = true,
    .connect = route_connect,
    .send = route_send,
    .recv = route_recv,
    .cancel = route_cancel,
    .progress = route_progress,
    .life = route_life,
    .channel_open = route_channel_open,
    .channel_close = route_channel_close,
    .lane_open = route_lane_open,
    .lane_close = route_lane_close,
    .heap = route_heap,
    .heap_take = route_heap_take,
    .heap_give = route_heap_give,
    .board = route_board,
    .bell = route_bell,
    .wait_fd = route_wait_fd,
    .may_sleep = route_may_sleep,
    .leave = route_leave,
    .close = route_close,
};
