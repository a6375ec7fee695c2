/* Ranks anywhere, over libfabric: messages only, no board. ofi_wire.h says how they travel. */
#include "transport/ofi.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/link.h"

enum { LINGER_MS = 1000, OVERDUE_MS = 200 };

static struct ofi *ofi_of(struct endpoint *endpoint)
{
    return (struct ofi *)(void *)endpoint;
}

/* ------------------------------------------------------------------ progress */

/* A peer has written a piece to the slot that the immediate names. */
static void take_written(struct ofi *ofi, uint32_t immediate)
{
    uint32_t index = ofi_immediate_slot(immediate);
    if (index >= OFI_SLOTS)
        return;
    struct ofi_slot *slot = &ofi->slots[index];
    if (slot->owner == NULL || ofi_immediate(index, slot->lap) != immediate)
        return; /* of a link that is lost */
    struct ofi_incoming *incoming = slot->owner;
    struct ofi_link *link = slot->link;
    unsigned char *bytes = ofi->rails[0].slots + (size_t)index * OFI_SLOT_BYTES;
    link->taken++;
    slot->owner = NULL;
    ofi_link_piece(link, incoming, slot->piece, bytes);
    ofi->free_slots[ofi->free_count++] = index;
}

/* A stranger can reach the endpoint; it does not know the token. */
static void take_packet(struct ofi *ofi, struct ofi_rail *rail, struct ofi_op *op, size_t size)
{
    const struct ofi_packet *packet = (const struct ofi_packet *)(const void *)op->bytes;
    bool whole = size >= sizeof *packet && packet->length == size - sizeof *packet;
    bool known = whole && packet->source >= 0 && packet->source < ofi->size &&
                 ofi->links[packet->source].open && ofi->links[packet->source].token_in == packet->token;
    if (known) {
        ofi_link_packet(&ofi->links[packet->source], op);
        return;
    }
    log_warn("rank %d dropped %zu bytes from the network that no peer sent", ofi->rank, size);
    rail_give(rail, op);
}

static void take_event(struct ofi *ofi, struct ofi_rail *rail, const struct ofi_event *event)
{
    struct ofi_op *op = event->op;
    switch (event->kind) {
    case OFI_EVENT_WRITTEN: take_written(ofi, event->immediate); break;
    case OFI_EVENT_DONE:
        if (op != NULL && op->kind == OFI_OP_RECEIVE) {
            take_packet(ofi, rail, op, event->size);
            return;
        }
        if (op != NULL)
            ofi_link_sent(&ofi->links[op->peer], op);
        break;
    case OFI_EVENT_FAILED:
        if (op != NULL && op->kind != OFI_OP_RECEIVE)
            ofi_link_fail(&ofi->links[op->peer], event->trouble);
        else
            log_warn("rank %d: the network reports %s", ofi->rank, event->trouble);
    }
    if (op != NULL)
        rail_give(rail, op);
}

static bool turn_links(struct ofi *ofi)
{
    bool moved = false;
    for (int word = 0; word * 64 < ofi->size; word++) {
        for (uint64_t turns = ofi->busy[word]; turns != 0; turns &= turns - 1) {
            int rank = word * 64 + __builtin_ctzll(turns);
            ofi->busy[word] &= ~(turns & -turns);
            if (ofi_link_turn(&ofi->links[rank], &moved))
                ofi_mark_busy(ofi, rank);
        }
    }
    return moved;
}

/* What was queued goes first: asking the provider takes a system call. */
bool ofi_turn(struct ofi *ofi)
{
    enum { EVENTS = 16 };
    struct ofi_event events[EVENTS];
    bool moved = turn_links(ofi), came = false;
    for (int i = 0; i < ofi->rail_count; i++) {
        int count = rail_poll(&ofi->rails[i], events, EVENTS);
        came |= count > 0;
        for (int k = 0; k < count; k++)
            take_event(ofi, &ofi->rails[i], &events[k]);
    }
    if (came)
        turn_links(ofi);
    return came || moved;
}

static bool ofi_progress(struct endpoint *endpoint)
{
    struct ofi *ofi = ofi_of(endpoint);
    return ofi->peer_count > 0 && ofi_turn(ofi);
}

/* ------------------------------------------------------------------- closing */

static void say_goodbye(struct ofi *ofi);

void ofi_close(struct endpoint *endpoint)
{
    struct ofi *ofi = ofi_of(endpoint);
    if (ofi == NULL)
        return;
    say_goodbye(ofi);
    for (int rank = 0; ofi->links != NULL && rank < ofi->size; rank++)
        ofi_link_close(&ofi->links[rank]);
    match_close(&ofi->match);
    for (int i = 0; i < ofi->rail_count; i++)
        rail_close(&ofi->rails[i]);
    lifelines_close(&ofi->lifelines);
    free(ofi->links);
    free(ofi->peers);
    free(ofi->busy);
    free(ofi);
}

/* ------------------------------------------------------------------- leaving */

static void ofi_leave(struct endpoint *endpoint)
{
    struct ofi *ofi = ofi_of(endpoint);
    for (int i = 0; i < ofi->peer_count && !ofi->left; i++)
        lifeline_say_left(&ofi->lifelines, ofi->peers[i], ofi->links[ofi->peers[i]].sent);
    ofi->left = true;
}

/* Whether all that the peer sent was taken; it is told. */
static bool took_all(struct ofi *ofi, int rank)
{
    struct lifeline *line = &ofi->lifelines.lines[rank];
    const struct ofi_link *link = &ofi->links[rank];
    bool all = link->lost || link->taken >= line->left_after;
    if (line->left && all && !line->told_taken)
        lifeline_say_taken(&ofi->lifelines, rank);
    return all;
}

/* Is what a peer sent before it left, and waited for in vain until it was gone, still not here? It may lie in this
 * host's sockets, of which a rank that had no core for a while has not taken anything. */
static bool is_overdue(struct lifeline *line)
{
    if (!line->ended)
        return false;
    if (line->overdue_at == 0)
        line->overdue_at = deadline_after_ms(OVERDUE_MS);
    return deadline_passed(line->overdue_at);
}

static enum life ofi_life(struct endpoint *endpoint, int peer)
{
    struct ofi *ofi = ofi_of(endpoint);
    if (ofi->links == NULL || peer < 0 || peer >= ofi->size || !ofi->links[peer].open)
        return peer == ofi->rank && ofi->left ? LIFE_LEFT : LIFE_HERE;
    struct lifeline *line = &ofi->lifelines.lines[peer];
    lifeline_look(&ofi->lifelines, peer);
    if (line->left) /* not before what it sent has come */
        return took_all(ofi, peer) || is_overdue(line) ? LIFE_LEFT : LIFE_HERE;
    return line->ended ? LIFE_DEAD : LIFE_HERE;
}

/* Has the peer taken all, or will it never? Nothing of it is missing either. */
static bool is_through(struct ofi *ofi, int rank)
{
    struct lifeline *line = &ofi->lifelines.lines[rank];
    lifeline_look(&ofi->lifelines, rank);
    bool took = took_all(ofi, rank);
    return !line->up || line->ended || ofi->links[rank].lost || (line->taken && (took || !line->left));
}

/* What this rank has sent may still lie here; a peer that computes can't be waited for. */
static void say_goodbye(struct ofi *ofi)
{
    ofi_leave((struct endpoint *)(void *)ofi);
    int64_t until = deadline_after_ms(LINGER_MS);
    for (int i = 0; i < ofi->peer_count && ofi->links[ofi->peers[i]].greeted; i++)
        while (!is_through(ofi, ofi->peers[i]) && !deadline_passed(until))
            if (!ofi_turn(ofi))
                nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* ------------------------------------------------------------------ messages */

/* Is there a link to the transfer's peer? Otherwise the transfer is settled. */
static bool has_link(const struct ofi *ofi, struct transfer *transfer)
{
    int peer = transfer->peer;
    if (peer == ofi->rank || (peer >= 0 && peer < ofi->size && ofi->links != NULL && ofi->links[peer].open))
        return true;
    transfer->status = failure(PLAIT_INTERNAL, "rank %d has no link to rank %d", ofi->rank, peer);
    return false;
}

/* To itself: whole, at once. */
static void send_to_self(struct ofi *ofi, struct transfer *send)
{
    struct message_key key = send->key;
    match_number(&ofi->match, ofi->rank, &key);
    send->moved = send->size;
    send->status =
        match_arrive(&ofi->match, ofi->rank, &key, send->data, send->size) == ARRIVAL_TAKEN
            ? PLAIT_OK
            : failure(PLAIT_OUT_OF_MEMORY, "no memory to keep a message of %zu bytes to itself", send->size);
}

static void ofi_send(struct endpoint *endpoint, struct transfer *transfer)
{
    struct ofi *ofi = ofi_of(endpoint);
    transfer->status = PLAIT_IN_PROGRESS;
    transfer->moved = 0;
    if (!has_link(ofi, transfer))
        return;
    if (transfer->peer == ofi->rank)
        send_to_self(ofi, transfer);
    else
        ofi_link_send(&ofi->links[transfer->peer], transfer);
}

static void ofi_recv(struct endpoint *endpoint, struct transfer *transfer)
{
    struct ofi *ofi = ofi_of(endpoint);
    transfer->status = PLAIT_IN_PROGRESS;
    transfer->stage = STAGE_POSTED;
    transfer->moved = 0;
    transfer->source = -1;
    bool any = transfer->peer == PLAIT_ANY_SOURCE && (transfer->key.context & CONTEXT_CALLERS) != 0;
    if (!any && !has_link(ofi, transfer))
        return;
    match_post(&ofi->match, transfer);
    bool lost = !any && transfer->peer != ofi->rank && ofi->links[transfer->peer].lost;
    if (lost && match_unpost(&ofi->match, transfer))
        transfer->status = failure(PLAIT_PEER_LOST, "the link to rank %d was lost before", transfer->peer);
}

static void ofi_cancel(struct endpoint *endpoint, struct transfer *transfer)
{
    struct ofi *ofi = ofi_of(endpoint);
    if (transfer->status != PLAIT_IN_PROGRESS)
        return;
    if (transfer->stage != STAGE_POSTED) {
        transfer->status =
            ofi_link_cancel_send(&ofi->links[transfer->peer], transfer) ? PLAIT_ABORTED : PLAIT_OK;
        return;
    }
    if (!match_unpost(&ofi->match, transfer))
        ofi_link_cancel_receive(&ofi->links[transfer->source], transfer);
    transfer->status = PLAIT_ABORTED;
}

/* ------------------------------------------------------------------ no board */

static plait_status ofi_channel_open(struct endpoint *endpoint, int channel)
{
    (void)endpoint;
    if (channel >= 0 && channel < BOARD_CHANNELS)
        return PLAIT_OK;
    return failure(PLAIT_OUT_OF_RESOURCES,
                   "channel %d was asked for: a rank can be in %d communicators at a time", channel,
                   BOARD_CHANNELS);
}

static void ofi_channel_close(struct endpoint *endpoint, int channel)
{
    (void)endpoint;
    (void)channel;
}

static plait_status ofi_lane_open(struct endpoint *endpoint, int lane)
{
    (void)endpoint;
    (void)lane;
    return PLAIT_OK;
}

static void ofi_lane_close(struct endpoint *endpoint, int lane)
{
    (void)endpoint;
    (void)lane;
}

static size_t ofi_heap(struct endpoint *endpoint, unsigned char **base)
{
    (void)endpoint;
    *base = NULL;
    return 0;
}

static plait_status ofi_heap_take(struct endpoint *endpoint, size_t offset, size_t size)
{
    (void)endpoint;
    return failure(PLAIT_INTERNAL, "%zu bytes at %zu were asked of a network, which shares no memory", size,
                   offset);
}

static void ofi_heap_give(struct endpoint *endpoint, size_t offset, size_t size)
{
    (void)endpoint;
    (void)offset;
    (void)size;
}

static struct board *ofi_board(struct endpoint *endpoint, int channel, const int *ranks, int count)
{
    (void)endpoint;
    (void)channel;
    (void)ranks;
    (void)count;
    return NULL;
}

static struct bell *ofi_bell(struct endpoint *endpoint)
{
    (void)endpoint;
    return NULL;
}

static int ofi_wait_fd(struct endpoint *endpoint)
{
    const struct ofi *ofi = ofi_of(endpoint);
    return ofi->rail_count == 1 ? ofi->rails[0].wait_fd : -1;
}

/* What the provider took nothing of may be taken without a sign. */
static bool ofi_may_sleep(struct endpoint *endpoint)
{
    struct ofi *ofi = ofi_of(endpoint);
    for (int word = 0; ofi->busy != NULL && word * 64 < ofi->size; word++)
        for (uint64_t turns = ofi->busy[word]; turns != 0; turns &= turns - 1)
            if (ofi->links[word * 64 + __builtin_ctzll(turns)].stalled != NULL)
                return false;
    return rail_may_sleep(&ofi->rails[0]);
}

const struct transport transport_ofi = {
    .name = "ofi",
    .nap_ns = BELL_NAP_NS,
    .open = ofi_open,
    .connect = ofi_connect,
    .send = ofi_send,
    .recv = ofi_recv,
    .cancel = ofi_cancel,
    .progress = ofi_progress,
    .life = ofi_life,
    .channel_open = ofi_channel_open,
    .lane_open = ofi_lane_open,
    .lane_close = ofi_lane_close,
    .channel_close = ofi_channel_close,
    .heap = ofi_heap,
    .heap_take = ofi_heap_take,
    .heap_give = ofi_heap_give,
    .board = ofi_board,
    .bell = ofi_bell,
    .wait_fd = ofi_wait_fd,
    .may_sleep = ofi_may_sleep,
    .leave = ofi_leave,
    .close = ofi_close,
};
