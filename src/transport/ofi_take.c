/* What a link takes: the peer's packets in their order, and its pieces as they land. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/link.h"
#include "transport/ofi.h"
#include "transport/ofi_link.h"

static struct ofi_incoming *find_incoming(const struct ofi_link *link, uint32_t id)
{
    struct ofi_incoming *incoming = link->incoming;
    while (incoming != NULL && incoming->id != id)
        incoming = incoming->next;
    return incoming;
}

/* -------------------------------------------------------------------- pieces */

static void put(struct transfer *receive, size_t offset, const void *bytes, size_t size)
{
    if (receive == NULL)
        return;
    if (receive->sink != NULL)
        receive->sink(receive, offset, bytes, size);
    else
        memcpy((unsigned char *)receive->data + offset, bytes, size);
}

static void end_incoming(struct ofi_link *link, struct ofi_incoming *incoming)
{
    if (incoming->receive != NULL)
        ofi_settle(incoming->receive, PLAIT_OK);
    ofi_drop_incoming(link, incoming);
}

void ofi_link_piece(struct ofi_link *link, struct ofi_incoming *incoming, uint32_t piece, const void *bytes)
{
    size_t most = ofi_piece_size(incoming->size), offset = piece * most;
    size_t left = incoming->size - offset;
    put(incoming->receive, offset, bytes, left < most ? left : most);
    incoming->came++;
    if (incoming->came == incoming->pieces)
        end_incoming(link, incoming);
    ofi_mark_busy(link->ofi, link->rank);
}

/* Packets come in order, so the last byte ends the message. */
static bool take_piece(struct ofi_link *link, const struct ofi_packet *packet)
{
    struct ofi_incoming *incoming = find_incoming(link, packet->id);
    if (incoming == NULL) /* withdrawn */
        return true;
    if (packet->size >= incoming->size || packet->length > incoming->size - packet->size ||
        packet->length == 0 || packet->size % 64 != 0)
        return false;
    put(incoming->receive, packet->size, packet->payload, packet->length);
    if (packet->size + packet->length == incoming->size)
        end_incoming(link, incoming);
    return true;
}

/* ------------------------------------------------------------------- answers */

static bool add_grants(struct ofi_outgoing *outgoing, const struct ofi_packet *packet)
{
    uint32_t count = packet->length / (uint32_t)sizeof(uint32_t);
    size_t pieces = ofi_piece_count(outgoing->send->size);
    if (packet->first != outgoing->granted || count > OFI_WINDOW - (outgoing->granted - outgoing->written) ||
        count > pieces - outgoing->granted)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t immediate;
        memcpy(&immediate, packet->payload + i * sizeof immediate, sizeof immediate);
        if (ofi_immediate_slot(immediate) >= OFI_SLOTS)
            return false;
        outgoing->immediates[outgoing->granted++ % OFI_WINDOW] = immediate;
    }
    return true;
}

/* One that is not known was withdrawn meanwhile. */
static bool take_grant(struct ofi_link *link, const struct ofi_packet *packet)
{
    struct ofi_outgoing *outgoing = ofi_take_outgoing(&link->announced, NULL, packet->id);
    if (outgoing != NULL)
        ofi_append_outgoing(&link->streams, outgoing);
    for (outgoing = link->streams; outgoing != NULL && outgoing->id != packet->id; outgoing = outgoing->next)
        ;
    return outgoing == NULL || add_grants(outgoing, packet);
}

static void take_discard(struct ofi_link *link, uint32_t id)
{
    struct ofi_outgoing *outgoing = ofi_take_outgoing(&link->announced, NULL, id);
    if (outgoing == NULL)
        outgoing = ofi_take_outgoing(&link->streams, NULL, id);
    if (outgoing == NULL)
        return;
    outgoing->send->moved = outgoing->send->size;
    ofi_settle(outgoing->send, PLAIT_OK);
    free(outgoing);
}

static void give_up(struct ofi_link *link, struct transfer *receive, size_t size)
{
    if (receive != NULL)
        ofi_settle(receive,
                   failure(PLAIT_ABORTED, "rank %d gave up a message of %zu bytes", link->rank, size));
}

/* The sender gave a message up after `written` pieces, of which some may still be on their way. */
static bool take_withdrawal(struct ofi_link *link, uint32_t id, uint32_t written)
{
    for (struct message *message = link->answers.first; message != NULL; message = message->next) {
        if (message->id == id) {
            give_up(link, message->receive, message->size);
            list_remove_message(&link->answers, message);
            free(message);
            return true;
        }
    }
    struct ofi_incoming *incoming = find_incoming(link, id);
    if (incoming == NULL) {
        match_withdraw(&link->ofi->match, link->rank, id);
        return true;
    }
    if (written > incoming->granted || written < incoming->came)
        return false;
    give_up(link, incoming->receive, incoming->size);
    incoming->receive = NULL;
    incoming->withdrawn = true;
    incoming->pieces = incoming->granted = written;
    ofi_free_slots(link->ofi, incoming, written);
    if (incoming->came == written || !link->ofi->rails[0].writes)
        ofi_drop_incoming(link, incoming);
    return true;
}

/* ------------------------------------------------------------------- packets */

/* All messages of a packet; when memory runs out in between, again later from there. */
static enum arrival take_messages(struct ofi_link *link, const struct ofi_packet *packet)
{
    struct ofi_further next = { .key = packet->key, .size = packet->size };
    size_t offset = 0;
    for (uint32_t i = 0;; i++) {
        if (next.size > packet->length - offset)
            return ARRIVAL_NONSENSE;
        enum arrival arrival = ARRIVAL_TAKEN;
        if (i >= link->took)
            arrival =
                match_arrive(&link->ofi->match, link->rank, &next.key, packet->payload + offset, next.size);
        if (arrival != ARRIVAL_TAKEN)
            return arrival;
        link->took = i >= link->took ? i + 1 : link->took;
        offset += next.size;
        if (i == packet->first)
            break;
        if (ofi_padded(offset) + sizeof next > packet->length)
            return ARRIVAL_NONSENSE;
        memcpy(&next, packet->payload + ofi_padded(offset), sizeof next);
        offset = ofi_padded(offset) + sizeof next;
    }
    link->took = 0;
    return offset == packet->length ? ARRIVAL_TAKEN : ARRIVAL_NONSENSE;
}

static enum arrival take_packet(struct ofi_link *link, const struct ofi_packet *packet)
{
    bool sense = true;
    switch (packet->kind) {
    case OFI_HELLO:
        link->greeted = true;
        if (link->rank > link->ofi->rank) /* the later rank began */
            ofi_link_hello(link);
        break;
    case OFI_MESSAGE: return take_messages(link, packet);
    case OFI_ANNOUNCE:
        if (packet->size <= OFI_EAGER_BYTES || packet->size > PTRDIFF_MAX)
            return ARRIVAL_NONSENSE;
        return match_announce(&link->ofi->match, link->rank, &packet->key, packet->size, packet->id);
    case OFI_GRANT: sense = take_grant(link, packet); break;
    case OFI_PIECE: sense = take_piece(link, packet); break;
    case OFI_DISCARD: take_discard(link, packet->id); break;
    case OFI_WITHDRAW: sense = take_withdrawal(link, packet->id, packet->first); break;
    case OFI_CREDIT: break;
    default: sense = false;
    }
    return sense ? ARRIVAL_TAKEN : ARRIVAL_NONSENSE;
}

/* Takes the packets whose turn has come. */
bool ofi_take_parked(struct ofi_link *link)
{
    bool took = false;
    struct ofi_op **place;
    while (!link->lost && *(place = &link->parked[link->sequence_in % OFI_PARKED]) != NULL) {
        struct ofi_op *op = *place;
        const struct ofi_packet *packet = (const struct ofi_packet *)(const void *)op->bytes;
        enum arrival arrival = take_packet(link, packet);
        if (arrival == ARRIVAL_NO_MEMORY)
            break; /* again later; its sender runs out of credits */
        link->credits += packet->credits;
        if (arrival == ARRIVAL_NONSENSE || link->credits > link->ofi->credits)
            ofi_link_nonsense(link, "a packet of kind", packet->kind);
        link->owed += packet->kind != OFI_CREDIT;
        link->taken++;
        link->sequence_in++;
        *place = NULL;
        rail_give(&link->ofi->rails[0], op);
        took = true;
    }
    return took;
}

void ofi_link_packet(struct ofi_link *link, struct ofi_op *op)
{
    const struct ofi_packet *packet = (const struct ofi_packet *)(const void *)op->bytes;
    uint32_t ahead = packet->sequence - link->sequence_in;
    struct ofi_op **place = &link->parked[packet->sequence % OFI_PARKED];
    if (link->lost || ahead >= OFI_PARKED || *place != NULL) {
        if (!link->lost)
            ofi_link_nonsense(link, "a packet ahead by", ahead);
        rail_give(&link->ofi->rails[0], op);
        return;
    }
    *place = op;
    ofi_take_parked(link);
    ofi_mark_busy(link->ofi, link->rank);
}
