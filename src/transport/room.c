#include "transport/room.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

static struct room *room_of(struct endpoint *endpoint)
{
    return (struct room *)(void *)endpoint;
}

/* A large message met its receive: the link to its sender takes it on. */
static void meet(void *context, struct message *message)
{
    struct room *room = context;
    int index = room->index_of[message->source];
    link_meet(&room->links[index], message);
    room->busy[index / 64] |= UINT64_C(1) << index % 64;
}

plait_status room_open(struct room *room, const struct endpoint_setup *setup)
{
    *room = (struct room){ .rank = setup->rank, .size = setup->size };
    room->index_of = malloc((size_t)setup->size * sizeof *room->index_of);
    if (room->index_of == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the table of %d ranks", setup->size);
    for (int i = 0; i < setup->size; i++)
        room->index_of[i] = -1;
    plait_status status = match_open(&room->match, setup->size, meet, room);
    if (status != PLAIT_OK)
        room_close(room);
    return status;
}

static int compare_ranks(const void *a, const void *b)
{
    int left = (*(const struct peer *const *)a)->rank, right = (*(const struct peer *const *)b)->rank;
    return (left > right) - (left < right);
}

plait_status room_order(struct room *room, const struct peer *peers, int count, const struct peer **order)
{
    bool has_own = false;
    for (int i = 0; i < count; i++)
        order[i] = &peers[i];
    qsort(order, (size_t)count, sizeof(const struct peer *), compare_ranks);
    for (int i = 0; i < count; i++) {
        has_own |= order[i]->rank == room->rank;
        if (order[i]->rank < 0 || order[i]->rank >= room->size)
            return failure(PLAIT_INTERNAL, "a peer's rank is %d in a world of %d", order[i]->rank,
                           room->size);
        if (i > 0 && order[i]->rank == order[i - 1]->rank)
            return failure(PLAIT_INTERNAL, "rank %d is twice among the peers", order[i]->rank);
    }
    if (!has_own)
        return failure(PLAIT_INTERNAL, "rank %d is not among its %d peers", room->rank, count);
    return PLAIT_OK;
}

plait_status room_join(struct room *room, const struct segment *const *segments, int count)
{
    size_t peers = (size_t)count;
    room->segments = calloc(peers, sizeof(const struct segment *));
    room->links = calloc(peers, sizeof *room->links);
    room->busy = calloc((peers + 63) / 64, sizeof *room->busy);
    if (room->segments == NULL || room->links == NULL || room->busy == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for links to %d ranks", count);
    for (int i = 0; i < count; i++) {
        room->segments[i] = segments[i];
        room->index_of[segments[i]->rank] = i;
    }
    room->own_index = room->index_of[room->rank];
    for (int i = 0; i < count; i++)
        link_open(&room->links[i], segments[room->own_index], segments[i], &room->match, room->own_index, i);
    room->count = count;
    return PLAIT_OK;
}

void room_close(struct room *room)
{
    for (int i = 0; i < room->count; i++)
        link_close(&room->links[i]);
    match_close(&room->match);
    free(room->index_of);
    free(room->segments);
    free(room->links);
    free(room->busy);
    *room = (struct room){ 0 };
}

/* ---------------------------------------------------------------- messages */

/* The link to a transfer's peer, or NULL with the transfer settled. */
static struct link *link_for(struct room *room, struct transfer *transfer)
{
    int index = room_index(room, transfer->peer);
    if (index >= 0)
        return &room->links[index];
    transfer->status = failure(PLAIT_INTERNAL, "rank %d has no link to rank %d", room->rank, transfer->peer);
    return NULL;
}

static void mark_busy(struct room *room, const struct link *link)
{
    room->busy[link->index / 64] |= UINT64_C(1) << link->index % 64;
}

void room_send(struct endpoint *endpoint, struct transfer *transfer)
{
    struct room *room = room_of(endpoint);
    transfer->status = PLAIT_IN_PROGRESS;
    transfer->moved = 0;
    struct link *link = link_for(room, transfer);
    if (link == NULL)
        return;
    link_send(link, transfer);
    if (transfer->stage == STAGE_QUEUED)
        mark_busy(room, link);
}

void room_recv(struct endpoint *endpoint, struct transfer *transfer)
{
    struct room *room = room_of(endpoint);
    transfer->status = PLAIT_IN_PROGRESS;
    transfer->stage = STAGE_POSTED;
    transfer->moved = 0;
    transfer->source = -1;
    bool any = transfer->peer == PLAIT_ANY_SOURCE && (transfer->key.context & CONTEXT_CALLERS) != 0;
    struct link *link = any ? NULL : link_for(room, transfer);
    if (!any && link == NULL)
        return;
    match_post(&room->match, transfer);
    if (link != NULL && link->lost && match_unpost(&room->match, transfer))
        transfer->status = failure(PLAIT_PEER_LOST, "the link to rank %d was lost before", transfer->peer);
}

void room_cancel(struct endpoint *endpoint, struct transfer *transfer)
{
    struct room *room = room_of(endpoint);
    if (transfer->status != PLAIT_IN_PROGRESS)
        return;
    if (transfer->stage != STAGE_POSTED) {
        struct link *link = &room->links[room->index_of[transfer->peer]];
        link_cancel_send(link, transfer);
        mark_busy(room, link);
    } else if (!match_unpost(&room->match, transfer)) {
        link_cancel_receive(&room->links[room->index_of[transfer->source]], transfer);
    }
    transfer->status = PLAIT_ABORTED;
}

static bool take_turn(struct room *room, int word, uint64_t rung)
{
    bool moved = false;
    uint64_t turns = rung | room->busy[word];
    room->busy[word] &= ~turns;
    while (turns != 0) {
        int index = word * 64 + __builtin_ctzll(turns);
        uint64_t bit = turns & -turns;
        turns ^= bit;
        if (index < room->count && link_turn(&room->links[index], (rung & bit) != 0, &moved))
            room->busy[word] |= bit;
    }
    return moved;
}

bool room_progress(struct endpoint *endpoint)
{
    struct room *room = room_of(endpoint);
    if (room->count == 0)
        return false;
    bool moved = false;
    _Atomic uint64_t *doorbells = segment_doorbells(room->segments[room->own_index]);
    for (int word = 0; word * 64 < room->count; word++) {
        uint64_t rung = atomic_load_explicit(&doorbells[word], memory_order_relaxed);
        if (rung != 0)
            rung = atomic_exchange_explicit(&doorbells[word], 0, memory_order_acq_rel);
        if (rung != 0 || room->busy[word] != 0)
            moved |= take_turn(room, word, rung);
    }
    return moved;
}

/* ------------------------------------------------------------------ boards */

plait_status room_channel_open(struct endpoint *endpoint, int channel)
{
    struct room *room = room_of(endpoint);
    if (channel < 0 || channel >= BOARD_CHANNELS)
        return failure(PLAIT_OUT_OF_RESOURCES,
                       "channel %d was asked for: a rank can be in %d communicators at a time", channel,
                       BOARD_CHANNELS);
    if (room->count == 0)
        return failure(PLAIT_INTERNAL, "channel %d was opened before the peers were met", channel);
    uint64_t bit = UINT64_C(1) << channel % 64;
    if (room->open_channels[channel / 64] & bit)
        return PLAIT_OK;
    char what[32];
    snprintf(what, sizeof what, "channel %d", channel);
    const struct segment *own = room->segments[room->own_index];
    plait_status status = segment_reserve(own, segment_channel_offset(own, channel), CHANNEL_SIZE, what);
    if (status == PLAIT_OK)
        room->open_channels[channel / 64] |= bit;
    return status;
}

/* The memory stays: the next communicator that uses the channel goes on counting where this one stops. */
void room_channel_close(struct endpoint *endpoint, int channel)
{
    (void)endpoint;
    (void)channel;
}

plait_status room_lane_open(struct endpoint *endpoint, int lane)
{
    struct room *room = room_of(endpoint);
    if (lane < 0 || lane >= STAGING_LANES)
        return failure(PLAIT_INTERNAL, "lane %d was asked for; there are %d", lane, STAGING_LANES);
    if (room->count == 0)
        return failure(PLAIT_INTERNAL, "lane %d was opened before the peers were met", lane);
    const struct segment *own = room->segments[room->own_index];
    char what[48];
    snprintf(what, sizeof what, "staging lane %d", lane);
    plait_status status = segment_reserve(own, own->layout.lanes + lane_offset(own->layout.lane_size, lane),
                                          lane_bytes(own->layout.lane_size, lane), what);
    if (status != PLAIT_OK)
        room_lane_close(endpoint, lane);
    return status;
}

void room_lane_close(struct endpoint *endpoint, int lane)
{
    struct room *room = room_of(endpoint);
    const struct segment *own = room->segments[room->own_index];
    segment_give(own, own->layout.lanes + lane_offset(own->layout.lane_size, lane),
                 lane_bytes(own->layout.lane_size, lane));
}

size_t room_heap(struct endpoint *endpoint, unsigned char **base)
{
    struct room *room = room_of(endpoint);
    if (room->count == 0)
        return 0;
    const struct segment *own = room->segments[room->own_index];
    *base = segment_heap(own);
    return own->layout.heap_size;
}

plait_status room_heap_take(struct endpoint *endpoint, size_t offset, size_t size)
{
    struct room *room = room_of(endpoint);
    return segment_heap_take(room->segments[room->own_index], offset, size);
}

void room_heap_give(struct endpoint *endpoint, size_t offset, size_t size)
{
    struct room *room = room_of(endpoint);
    segment_heap_give(room->segments[room->own_index], offset, size);
}

struct board *room_board(struct endpoint *endpoint, int channel, const int *ranks, int count)
{
    struct room *room = room_of(endpoint);
    if (count <= 0 || channel < 0 || channel >= BOARD_CHANNELS)
        return NULL;
    const struct segment **segments = malloc((size_t)count * sizeof(const struct segment *));
    struct board *board = NULL;
    if (segments == NULL)
        return NULL;
    for (int i = 0; i < count; i++) {
        int index = room_index(room, ranks[i]);
        if (index < 0)
            goto cleanup;
        segments[i] = room->segments[index];
    }
    board = board_make(channel, segments, count);

cleanup:
    free(segments);
    return board;
}

int room_wait_fd(struct endpoint *endpoint)
{
    (void)endpoint; /* there is a bell */
    return -1;
}

bool room_may_sleep(struct endpoint *endpoint)
{
    (void)endpoint;
    return false;
}

struct bell *room_bell(struct endpoint *endpoint)
{
    struct room *room = room_of(endpoint);
    return room->count == 0 ? NULL : &segment_header(room->segments[room->own_index])->bell;
}

/* ------------------------------------------------------------- here or not */

void room_leave(struct endpoint *endpoint)
{
    struct room *room = room_of(endpoint);
    if (room->count == 0)
        return;
    segment_mark_left(room->segments[room->own_index]);
    for (int i = 0; i < room->count; i++)
        bell_ring(&segment_header(room->segments[i])->bell);
}

bool room_has_left(const struct room *room, int index)
{
    return atomic_load_explicit(&segment_header(room->segments[index])->state, memory_order_acquire) ==
           SEGMENT_LEFT;
}
