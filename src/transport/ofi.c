/* Ranks anywhere, over libfabric: messages only, no board. ofi_wire.h says how they travel. */
#include "transport/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/link.h"

/* What a rank describes to the others. */
struct blob {
    char provider[24];
    struct lifeline_place place;
    uint32_t name_size;
    unsigned char name[OFI_NAME_BYTES];
};
_Static_assert(sizeof(struct blob) <= TRANSPORT_BLOB_BYTES, "a blob holds it");

enum { LINGER_MS = 1000 };

static struct ofi *ofi_of(struct endpoint *endpoint)
{
    return (struct ofi *)(void *)endpoint;
}

/* Packets on their way over one link: fewer in large worlds, for each has its buffer at the receiver.
 * All ranks of a world reckon the same. */
static int credits_for(int size)
{
    enum { BUFFERS = 512 };
    int credits = BUFFERS / size / 2 * 2;
    if (credits > OFI_CREDITS_MOST)
        credits = OFI_CREDITS_MOST;
    return credits < OFI_CREDITS_LEAST ? OFI_CREDITS_LEAST : credits;
}

static size_t receives_for(int peers, int credits)
{
    return (size_t)peers * (size_t)(credits + OFI_FREE_PACKETS);
}

/* A large message met its receive: the link to its sender takes it on. */
static void meet(void *context, struct message *message)
{
    struct ofi *ofi = context;
    ofi_link_meet(&ofi->links[message->source], message);
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

bool ofi_turn(struct ofi *ofi)
{
    enum { EVENTS = 16 };
    struct ofi_event events[EVENTS];
    bool moved = false;
    for (int i = 0; i < ofi->rail_count; i++) {
        int count = rail_poll(&ofi->rails[i], events, EVENTS);
        moved |= count > 0;
        for (int k = 0; k < count; k++)
            take_event(ofi, &ofi->rails[i], &events[k]);
    }
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

static bool ofi_progress(struct endpoint *endpoint)
{
    struct ofi *ofi = ofi_of(endpoint);
    return ofi->peer_count > 0 && ofi_turn(ofi);
}

/* ------------------------------------------------------------------- opening */

static void say_goodbye(struct ofi *ofi);

static void ofi_close(struct endpoint *endpoint)
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

static plait_status open_rail(struct ofi *ofi, const struct endpoint_setup *setup,
                              const struct ofi_address *address)
{
    const struct ofi_library *library;
    struct ofi_choice choice;
    struct ofi_wish wish = { .provider = setup->provider,
                             .address = address,
                             .receives = receives_for(setup->size, ofi->credits),
                             .no_writes = setup->no_writes };
    plait_status status = ofi_library_open(&library);
    if (status == PLAIT_OK)
        status = ofi_provider_choose(library, &wish, &choice);
    if (status != PLAIT_OK)
        return status;
    ofi->rail_count = 1;
    status = rail_open(&ofi->rails[0], &choice, wish.receives);
    if (status != PLAIT_OK)
        return status;
    log_info("rank %d: libfabric %u.%u (compiled against %d.%d), provider %s on %s: %s; address %s of %s: "
             "%s; large messages go by %s",
             ofi->rank, FI_MAJOR(library->running), FI_MINOR(library->running), FI_MAJOR_VERSION,
             FI_MINOR_VERSION, ofi->rails[0].info->fabric_attr->prov_name,
             ofi->rails[0].info->domain_attr->name, choice.reason, address->text, address->interface,
             address->reason, ofi->rails[0].writes ? "remote writes" : "messages");
    return PLAIT_OK;
}

static plait_status ofi_open(const struct endpoint_setup *setup, struct endpoint **endpoint,
                             unsigned char bytes[TRANSPORT_BLOB_BYTES])
{
    struct ofi_address address;
    struct blob blob = { .name_size = 0 };
    struct ofi *ofi = calloc(1, sizeof *ofi);
    if (ofi == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the endpoint of rank %d", setup->rank);
    ofi->rank = setup->rank;
    ofi->size = setup->size;
    ofi->lifelines.listener = -1;
    ofi->credits = credits_for(setup->size);
    plait_status status = match_open(&ofi->match, setup->size, meet, ofi);
    if (status == PLAIT_OK)
        status = ofi_address_choose(setup->interface, setup->toward, &address);
    if (status == PLAIT_OK)
        status = open_rail(ofi, setup, &address);
    if (status == PLAIT_OK)
        status = lifelines_open(&ofi->lifelines, setup->rank, setup->size, &address, &blob.place);
    if (status != PLAIT_OK) {
        ofi_close((struct endpoint *)(void *)ofi);
        return status;
    }
    const struct ofi_rail *rail = &ofi->rails[0];
    snprintf(blob.provider, sizeof blob.provider, "%s", rail->info->fabric_attr->prov_name);
    blob.name_size = (uint32_t)rail->name_size;
    memcpy(blob.name, rail->name, rail->name_size);
    memset(bytes, 0, TRANSPORT_BLOB_BYTES);
    memcpy(bytes, &blob, sizeof blob);
    *endpoint = (struct endpoint *)(void *)ofi;
    return PLAIT_OK;
}

/* ---------------------------------------------------------------- connecting */

static plait_status make_tables(struct ofi *ofi, const struct peer *peers, int count)
{
    size_t size = (size_t)ofi->size;
    ofi->links = calloc(size, sizeof *ofi->links);
    ofi->peers = calloc(size, sizeof *ofi->peers);
    ofi->busy = calloc(size / 64 + 1, sizeof *ofi->busy);
    if (ofi->links == NULL || ofi->peers == NULL || ofi->busy == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for links to %d ranks", count);
    for (uint32_t i = 0; i < OFI_SLOTS; i++)
        ofi->free_slots[ofi->free_count++] = i;
    for (int i = 0; i < count; i++) {
        int rank = peers[i].rank;
        if (rank < 0 || rank >= ofi->size || ofi->links[rank].open)
            return failure(PLAIT_INTERNAL, "a peer's rank is %d, which is none or there twice", rank);
        if (rank == ofi->rank)
            continue;
        ofi_link_open(&ofi->links[rank], ofi, rank);
        ofi->peers[ofi->peer_count++] = rank;
    }
    return PLAIT_OK;
}

static plait_status check_blob(const struct ofi *ofi, int rank, struct blob *blob)
{
    const char *own = ofi->rails[0].info->fabric_attr->prov_name;
    blob->provider[sizeof blob->provider - 1] = '\0';
    if (strncmp(blob->provider, own, sizeof blob->provider - 1) != 0)
        return failure(PLAIT_INVALID_SETTING,
                       "rank %d uses libfabric's provider %s and rank %d %s; PLAIT_OFI_PROVIDER on all ranks "
                       "makes it one",
                       ofi->rank, own, rank, blob->provider);
    if (blob->name_size > OFI_NAME_BYTES)
        return failure(PLAIT_START_FAILED, "rank %d describes an endpoint that can't be", rank);
    return PLAIT_OK;
}

/* Trades greetings with all peers, over lifelines. */
static plait_status greet(struct ofi *ofi, struct lifelines_meeting *meeting,
                          const struct ofi_landing *landing)
{
    struct lifeline_greeting mine = { .credits = (uint32_t)ofi->credits,
                                      .rails = (uint32_t)ofi->rail_count,
                                      .slots = OFI_SLOTS,
                                      .landings = { *landing } };
    for (int i = 0; i < ofi->peer_count; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        if (getentropy(&link->token_in, sizeof link->token_in) != 0)
            return failure(PLAIT_SYSTEM_ERROR, "the kernel gives no random numbers");
        ofi->lifelines.lines[link->rank].saying.token = link->token_in;
    }
    plait_status status = lifelines_meet(&ofi->lifelines, meeting, &mine);
    for (int i = 0; i < ofi->peer_count && status == PLAIT_OK; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        const struct lifeline_greeting *theirs = &ofi->lifelines.lines[link->rank].greeting;
        if (theirs->credits != mine.credits || theirs->rails != mine.rails || theirs->slots != mine.slots)
            return failure(PLAIT_START_FAILED, "rank %d and rank %d are different builds of Plait", ofi->rank,
                           link->rank);
        memcpy(link->landings, theirs->landings, sizeof link->landings);
        link->token_out = theirs->token;
    }
    return status;
}

static plait_status not_greeted(struct ofi *ofi, const struct ofi_link *link)
{
    if (ofi->lifelines.lines[link->rank].ended)
        return failure(PLAIT_START_FAILED, "rank %d went away while the ranks met", link->rank);
    return failure(PLAIT_START_FAILED,
                   "libfabric's %s does not reach rank %d from rank %d, though a TCP connection does%s%s",
                   ofi->rails[0].info->fabric_attr->prov_name, link->rank, ofi->rank,
                   link->trouble[0] != '\0' ? ": " : "", link->trouble);
}

/* The first packets: what the fabric refuses shows here and not in the first collective. The later rank
 * begins, for `net` of libfabric 1.17 loses connections that both ends open at the same time. */
static plait_status say_hello(struct ofi *ofi, int64_t deadline)
{
    for (int i = 0; i < ofi->peer_count; i++)
        if (ofi->peers[i] < ofi->rank)
            ofi_link_hello(&ofi->links[ofi->peers[i]]);
    for (int i = 0; i < ofi->peer_count; i++) {
        struct ofi_link *link = &ofi->links[ofi->peers[i]];
        while (!link->greeted) {
            if (!ofi_turn(ofi))
                nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
            lifeline_look(&ofi->lifelines, link->rank);
            if (!link->greeted && (ofi->lifelines.lines[link->rank].ended || link->lost ||
                                   link->failing_since != 0 || deadline_passed(deadline)))
                return not_greeted(ofi, link);
        }
    }
    return PLAIT_OK;
}

static plait_status connect_peers(struct ofi *ofi, struct lifelines_meeting *meeting,
                                  struct lifeline_place *places)
{
    struct ofi_rail *rail = &ofi->rails[0];
    struct ofi_landing landing;
    plait_status status = rail_equip(rail, receives_for(ofi->peer_count, ofi->credits), &landing);
    for (int i = 0; i < meeting->count && status == PLAIT_OK; i++) {
        struct blob blob;
        memcpy(&blob, meeting->peers[i].blob, sizeof blob);
        places[i] = blob.place;
        int rank = meeting->peers[i].rank;
        if (rank == ofi->rank)
            continue;
        status = check_blob(ofi, rank, &blob);
        if (status == PLAIT_OK)
            status = rail_add_peer(rail, blob.name, &ofi->links[rank].addresses[0]);
    }
    meeting->places = places;
    if (status == PLAIT_OK)
        status = greet(ofi, meeting, &landing);
    return status == PLAIT_OK ? say_hello(ofi, meeting->deadline) : status;
}

static plait_status ofi_connect(struct endpoint *endpoint, const struct peer *peers, int count,
                                uint64_t generation, const unsigned char job_key[32], int64_t deadline)
{
    struct ofi *ofi = ofi_of(endpoint);
    struct lifelines_meeting meeting = {
        .peers = peers, .count = count, .generation = generation, .job_key = job_key, .deadline = deadline
    };
    plait_status status = make_tables(ofi, peers, count);
    if (status != PLAIT_OK || ofi->peer_count == 0)
        return status;
    struct lifeline_place *places = calloc((size_t)count, sizeof *places);
    if (places == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for %d peers", count);
    status = connect_peers(ofi, &meeting, places);
    free(places);
    return status;
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

static enum life ofi_life(struct endpoint *endpoint, int peer)
{
    struct ofi *ofi = ofi_of(endpoint);
    if (ofi->links == NULL || peer < 0 || peer >= ofi->size || !ofi->links[peer].open)
        return peer == ofi->rank && ofi->left ? LIFE_LEFT : LIFE_HERE;
    struct lifeline *line = &ofi->lifelines.lines[peer];
    lifeline_look(&ofi->lifelines, peer);
    if (line->left) /* not before what it sent has come */
        return took_all(ofi, peer) || line->ended ? LIFE_LEFT : LIFE_HERE;
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
    if (transfer->stage != STAGE_POSTED)
        ofi_link_cancel_send(&ofi->links[transfer->peer], transfer);
    else if (!match_unpost(&ofi->match, transfer))
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

const struct transport transport_ofi = {
    .name = "ofi",
    .open = ofi_open,
    .connect = ofi_connect,
    .send = ofi_send,
    .recv = ofi_recv,
    .cancel = ofi_cancel,
    .progress = ofi_progress,
    .life = ofi_life,
    .channel_open = ofi_channel_open,
    .lane_open = ofi_lane_open,
    .channel_close = ofi_channel_close,
    .board = ofi_board,
    .bell = ofi_bell,
    .leave = ofi_leave,
    .close = ofi_close,
};
