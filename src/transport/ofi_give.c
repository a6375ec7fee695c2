/* What a link gives: packets as its credits allow, and pieces into the slots it was granted. */
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/link.h"
#include "transport/ofi.h"
#include "transport/ofi_link.h"

/* ------------------------------------------------------------------- posting */

/* Pieces take turns on the rails; packets travel on the first. */
static int rail_for_piece(const struct ofi_link *link, uint32_t piece)
{
    return (int)(piece % (uint32_t)link->ofi->rail_count);
}

static int post(struct ofi_link *link, struct ofi_op *op)
{
    struct ofi_rail *rail = &link->ofi->rails[op->rail];
    fi_addr_t address = link->addresses[op->rail];
    return op->kind == OFI_OP_SEND ? rail_send(rail, op, address)
                                   : rail_write(rail, op, address, link->landings[op->rail].key);
}

static void fail_posting(struct ofi_link *link, int error)
{
    char text[160];
    const struct ofi_rail *rail = &link->ofi->rails[0];
    snprintf(text, sizeof text, "%s takes nothing more for it: %s (%d)", rail->info->fabric_attr->prov_name,
             rail->library->strerror(-error), error);
    ofi_link_fail(link, text);
}

static bool give_stalled(struct ofi_link *link)
{
    bool gave = false;
    while (link->stalled != NULL) {
        struct ofi_op *op = link->stalled, *next = op->next;
        int error = post(link, op);
        if (error != 0) {
            if (error != -FI_EAGAIN)
                fail_posting(link, error);
            break;
        }
        link->stalled = next;
        gave = true;
    }
    return gave;
}

/* Hands an operation to the provider, or keeps it until there is room. */
static void hand_over(struct ofi_link *link, struct ofi_op *op)
{
    link->sent++;
    op->peer = link->rank;
    op->next = NULL;
    if (link->stalled != NULL)
        link->stalled_last->next = op;
    else
        link->stalled = op;
    link->stalled_last = op;
    if (link->stalled == op)
        give_stalled(link);
    if (link->stalled != NULL)
        ofi_mark_busy(link->ofi, link->rank);
}

/* ------------------------------------------------------------------- packets */

static struct ofi_packet *packet_of(const struct ofi_op *op)
{
    return (struct ofi_packet *)(void *)op->bytes;
}

static bool may_send(const struct ofi_link *link)
{
    return link->credits > 0 && link->stalled == NULL && link->ofi->rails[0].packets != NULL &&
           link->failing_since == 0;
}

/* A packet to be filled in and handed over; may_send() has to hold. */
static struct ofi_op *make_packet(struct ofi_link *link, enum ofi_kind kind)
{
    struct ofi_op *op = rail_take_packet(&link->ofi->rails[0]);
    op->size = sizeof(struct ofi_packet);
    *packet_of(op) = (struct ofi_packet){ .token = link->token_out,
                                          .source = link->ofi->rank,
                                          .sequence = link->sequence_out++,
                                          .kind = (uint16_t)kind,
                                          .credits = (uint16_t)link->owed };
    link->owed = 0;
    link->credits -= kind != OFI_CREDIT;
    return op;
}

static void send_about(struct ofi_link *link, enum ofi_kind kind, uint32_t id, uint32_t first)
{
    struct ofi_op *op = make_packet(link, kind);
    packet_of(op)->id = id;
    packet_of(op)->first = first;
    hand_over(link, op);
}

void ofi_link_hello(struct ofi_link *link)
{
    hand_over(link, make_packet(link, OFI_HELLO));
}

/* Buffers that are free again, where no packet has said so. */
static bool give_credits(struct ofi_link *link)
{
    if (link->owed < link->ofi->credits / 2 || link->ofi->rails[0].packets == NULL || link->stalled != NULL)
        return false;
    hand_over(link, make_packet(link, OFI_CREDIT));
    return true;
}

/* -------------------------------------------------------------------- grants */

/* Answers the first announcement: from now on it is incoming, or nobody wants it. */
static void give_answer(struct ofi_link *link)
{
    struct message *message = link->answers.first;
    list_cut_message(&link->answers, NULL, message);
    struct ofi_incoming *incoming = message->receive != NULL ? malloc(sizeof *incoming) : NULL;
    if (incoming == NULL) {
        if (message->receive != NULL)
            ofi_settle(message->receive, failure(PLAIT_OUT_OF_MEMORY,
                                                 "no memory to receive a message of %zu bytes from rank %d",
                                                 message->size, link->rank));
        send_about(link, OFI_DISCARD, message->id, 0);
        free(message);
        return;
    }
    *incoming = (struct ofi_incoming){ .next = link->incoming,
                                       .receive = message->receive,
                                       .size = message->size,
                                       .id = message->id,
                                       .pieces = (uint32_t)ofi_piece_count(message->size) };
    link->incoming = incoming;
    free(message);
    if (!link->ofi->rails[0].writes) { /* its pieces come as packets, under the link's credits */
        incoming->granted = incoming->pieces;
        send_about(link, OFI_GRANT, incoming->id, 0);
    }
}

/* A slot for the next piece; the immediate that the sender is to give back. */
static uint32_t take_slot(struct ofi_link *link, struct ofi_incoming *incoming)
{
    struct ofi *ofi = link->ofi;
    uint32_t index = ofi->free_slots[--ofi->free_count];
    struct ofi_slot *slot = &ofi->slots[index];
    *slot = (struct ofi_slot){
        .owner = incoming, .link = link, .piece = incoming->granted++, .lap = slot->lap + 1
    };
    return ofi_immediate(index, slot->lap);
}

/* Grants further slots, some at a time: a packet a piece would be too many. */
static bool give_grant(struct ofi_link *link, struct ofi_incoming *incoming)
{
    uint32_t left = incoming->pieces - incoming->granted;
    uint32_t window = OFI_WINDOW - (incoming->granted - incoming->came);
    uint32_t count = left < window ? left : window;
    if (count > (uint32_t)link->ofi->free_count)
        count = (uint32_t)link->ofi->free_count;
    if (count == 0 || (count < OFI_WINDOW / 4 && count < left))
        return false;
    struct ofi_op *op = make_packet(link, OFI_GRANT);
    struct ofi_packet *packet = packet_of(op);
    packet->id = incoming->id;
    packet->first = incoming->granted;
    packet->length = count * (uint32_t)sizeof(uint32_t);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t immediate = take_slot(link, incoming);
        memcpy(packet->payload + i * sizeof immediate, &immediate, sizeof immediate);
    }
    op->size += packet->length;
    hand_over(link, op);
    return true;
}

/* A message that nobody wants any more, once all that was granted has come. */
static bool give_up(struct ofi_link *link, struct ofi_incoming *incoming)
{
    if (incoming->receive != NULL || incoming->withdrawn || incoming->came < incoming->granted ||
        !link->ofi->rails[0].writes)
        return false;
    send_about(link, OFI_DISCARD, incoming->id, 0);
    ofi_drop_incoming(link, incoming);
    return true;
}

static bool give_grants(struct ofi_link *link)
{
    bool gave = false;
    while (link->answers.first != NULL && may_send(link)) {
        give_answer(link);
        gave = true;
    }
    struct ofi_incoming *next;
    for (struct ofi_incoming *incoming = link->incoming; incoming != NULL && may_send(link);
         incoming = next) {
        next = incoming->next;
        if (incoming->receive == NULL)
            gave |= give_up(link, incoming);
        else if (incoming->granted < incoming->pieces)
            gave |= give_grant(link, incoming);
    }
    return gave;
}

/* --------------------------------------------------------------------- sends */

static bool give_withdrawals(struct ofi_link *link)
{
    bool gave = false;
    while (link->withdrawals != NULL && may_send(link)) {
        struct ofi_outgoing *outgoing = link->withdrawals;
        link->withdrawals = outgoing->next;
        send_about(link, OFI_WITHDRAW, outgoing->id, outgoing->written);
        free(outgoing);
        gave = true;
    }
    return gave;
}

/* Puts a message's bytes at `offset` of the payload; returns where they end. */
static size_t put_message(struct ofi_op *op, struct transfer *send, size_t offset)
{
    struct ofi_packet *packet = packet_of(op);
    if (send->size > 0)
        memcpy(packet->payload + offset, send->data, send->size);
    send->stage = STAGE_ANNOUNCED;
    send->moved = send->size;
    send->next = op->send;
    op->send = send;
    return offset + send->size;
}

/* Small ones that wait behind the first go with it: a packet is a system call or more at each end. */
static size_t put_further(struct ofi_link *link, struct ofi_op *op, size_t end)
{
    struct ofi_packet *packet = packet_of(op);
    struct transfer *send;
    while (packet->first < OFI_FURTHER_MOST && (send = link->queue.first) != NULL) {
        struct ofi_further further = { .key = send->key, .size = send->size };
        size_t start = ofi_padded(end), bytes = start + sizeof further;
        if (send->size > OFI_TOGETHER_BYTES || bytes + send->size > OFI_TOGETHER_BYTES)
            break;
        list_cut_transfer(&link->queue, NULL, send);
        match_number(&link->ofi->match, link->rank, &further.key);
        memset(packet->payload + end, 0, start - end);
        memcpy(packet->payload + start, &further, sizeof further);
        end = put_message(op, send, bytes);
        packet->first++;
    }
    return end;
}

static void give_whole(struct ofi_link *link, struct transfer *send)
{
    struct ofi_op *op = make_packet(link, OFI_MESSAGE);
    struct ofi_packet *packet = packet_of(op);
    packet->key = send->key;
    match_number(&link->ofi->match, link->rank, &packet->key);
    packet->size = send->size;
    size_t end = put_further(link, op, put_message(op, send, 0));
    packet->length = (uint32_t)end;
    op->size += end;
    hand_over(link, op);
}

static void announce(struct ofi_link *link, struct transfer *send)
{
    struct ofi_outgoing *outgoing = calloc(1, sizeof *outgoing);
    if (outgoing == NULL) {
        ofi_settle(send, failure(PLAIT_OUT_OF_MEMORY, "no memory to announce %zu bytes to rank %d",
                                 send->size, link->rank));
        return;
    }
    struct ofi_op *op = make_packet(link, OFI_ANNOUNCE);
    struct ofi_packet *packet = packet_of(op);
    *outgoing = (struct ofi_outgoing){ .send = send, .id = ++link->last_id };
    packet->key = send->key;
    match_number(&link->ofi->match, link->rank, &packet->key);
    packet->size = send->size;
    packet->id = outgoing->id;
    send->stage = STAGE_ANNOUNCED;
    ofi_append_outgoing(&link->announced, outgoing);
    hand_over(link, op);
}

static bool give_sends(struct ofi_link *link)
{
    bool gave = false;
    while (link->queue.first != NULL && may_send(link)) {
        struct transfer *send = link->queue.first;
        list_cut_transfer(&link->queue, NULL, send);
        if (send->size <= OFI_EAGER_BYTES)
            give_whole(link, send);
        else
            announce(link, send);
        gave = true;
    }
    return gave;
}

/* -------------------------------------------------------------------- pieces */

/* Copies a piece out and writes it to its slot. */
static void write_piece(struct ofi_link *link, struct ofi_outgoing *outgoing, struct ofi_op *op)
{
    const struct transfer *send = outgoing->send;
    size_t most = ofi_piece_size(send->size), offset = outgoing->written * most;
    op->size = send->size - offset < most ? send->size - offset : most;
    op->immediate = outgoing->immediates[outgoing->written % OFI_WINDOW];
    op->to = link->landings[op->rail].address + (uint64_t)ofi_immediate_slot(op->immediate) * OFI_SLOT_BYTES;
    memcpy(op->bytes, (const unsigned char *)send->data + offset, op->size);
    outgoing->written++;
    outgoing->flying++;
    op->id = outgoing->id;
    hand_over(link, op);
}

/* The same as a packet: the next bytes, wherever a piece would end. */
static void send_piece(struct ofi_link *link, struct ofi_outgoing *outgoing)
{
    struct transfer *send = outgoing->send;
    struct ofi_op *op = make_packet(link, OFI_PIECE);
    struct ofi_packet *packet = packet_of(op);
    /* Whole 64 bytes but at the end: a sink is promised that. */
    size_t left = send->size - send->moved, most = OFI_EAGER_BYTES / 64 * 64;
    packet->size = send->moved;
    packet->length = (uint32_t)(left < most ? left : most);
    packet->id = op->id = outgoing->id;
    memcpy(packet->payload, (const unsigned char *)send->data + send->moved, packet->length);
    op->size += packet->length;
    send->moved += packet->length;
    outgoing->flying++;
    hand_over(link, op);
}

/* Gives what can be given of a stream. True if anything could. */
static bool give_stream(struct ofi_link *link, struct ofi_outgoing *outgoing)
{
    struct transfer *send = outgoing->send;
    bool gave = false;
    if (!link->ofi->rails[0].writes) {
        for (; send->moved < send->size && may_send(link); gave = true)
            send_piece(link, outgoing);
        return gave;
    }
    while (outgoing->written < outgoing->granted && link->stalled == NULL) {
        int rail = rail_for_piece(link, outgoing->written);
        struct ofi_op *op = rail_take_piece(&link->ofi->rails[rail]);
        if (op == NULL)
            break;
        write_piece(link, outgoing, op);
        gave = true;
    }
    size_t moved = outgoing->written * ofi_piece_size(send->size);
    send->moved = moved < send->size ? moved : send->size;
    return gave;
}

static bool give_streams(struct ofi_link *link)
{
    bool gave = false;
    for (struct ofi_outgoing *outgoing = link->streams; outgoing != NULL && link->failing_since == 0;
         outgoing = outgoing->next)
        gave |= give_stream(link, outgoing);
    return gave;
}

/* Sends are done only now: some providers move nothing unless they are asked, and who sees its sends done may
 * not ask for long. */
void ofi_link_sent(struct ofi_link *link, struct ofi_op *op)
{
    ofi_settle_packet(op, PLAIT_OK);
    struct ofi_outgoing *outgoing = op->id != 0 ? link->streams : NULL;
    while (outgoing != NULL && outgoing->id != op->id)
        outgoing = outgoing->next;
    if (outgoing == NULL) /* none, or withdrawn, or discarded */
        return;
    outgoing->flying--;
    if (outgoing->flying > 0 || outgoing->send->moved < outgoing->send->size)
        return;
    struct transfer *send = outgoing->send;
    free(ofi_take_outgoing(&link->streams, send, 0));
    ofi_settle(send, PLAIT_OK);
}

bool ofi_give(struct ofi_link *link)
{
    bool gave = give_stalled(link);
    gave |= give_grants(link);
    gave |= give_withdrawals(link);
    gave |= give_sends(link);
    gave |= give_streams(link);
    gave |= give_credits(link);
    return gave;
}
