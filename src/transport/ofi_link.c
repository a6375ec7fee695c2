#include "transport/ofi_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/link.h"
#include "transport/ofi.h"

void ofi_link_open(struct ofi_link *link, struct ofi *ofi, int rank)
{
    *link = (struct ofi_link){ .ofi = ofi, .rank = rank, .open = true, .credits = ofi->credits };
}

/* ------------------------------------------------------------------- lists */

void ofi_append_outgoing(struct ofi_outgoing **list, struct ofi_outgoing *outgoing)
{
    outgoing->next = NULL;
    while (*list != NULL)
        list = &(*list)->next;
    *list = outgoing;
}

struct ofi_outgoing *ofi_take_outgoing(struct ofi_outgoing **list, const struct transfer *send, uint32_t id)
{
    for (; *list != NULL; list = &(*list)->next) {
        struct ofi_outgoing *outgoing = *list;
        if (send != NULL ? outgoing->send == send : outgoing->id == id) {
            *list = outgoing->next;
            return outgoing;
        }
    }
    return NULL;
}

void ofi_free_slots(struct ofi *ofi, const struct ofi_incoming *incoming, uint32_t first)
{
    for (uint32_t i = 0; i < OFI_SLOTS; i++) {
        if (ofi->slots[i].owner == incoming && ofi->slots[i].piece >= first) {
            ofi->slots[i].owner = NULL;
            ofi->free_slots[ofi->free_count++] = i;
        }
    }
}

void ofi_drop_incoming(struct ofi_link *link, struct ofi_incoming *incoming)
{
    ofi_free_slots(link->ofi, incoming, 0);
    for (struct ofi_incoming **at = &link->incoming; *at != NULL; at = &(*at)->next) {
        if (*at == incoming) {
            *at = incoming->next;
            break;
        }
    }
    free(incoming);
}

/* ------------------------------------------------------- the end of a link */

void ofi_settle(struct transfer *transfer, plait_status status)
{
    transfer->stage = STAGE_DONE;
    transfer->status = status;
}

void ofi_settle_packet(struct ofi_op *op, plait_status status)
{
    while (op->send != NULL) {
        struct transfer *send = op->send;
        op->send = send->next;
        ofi_settle(send, status);
    }
}

/* Who closes can't know better of what the provider has than that it has left. */
static void settle_handed(struct transfer *send, plait_status status)
{
    ofi_settle(send, status == PLAIT_ABORTED && send->moved == send->size ? PLAIT_OK : status);
}

static void settle_outgoing(struct ofi_outgoing **list, plait_status status)
{
    while (*list != NULL) {
        struct ofi_outgoing *outgoing = *list;
        *list = outgoing->next;
        if (outgoing->send != NULL)
            settle_handed(outgoing->send, status);
        free(outgoing);
    }
}

/* Small messages that the provider has. */
static void settle_packets(const struct ofi_link *link, plait_status status)
{
    struct ofi_rail *rail = &link->ofi->rails[0];
    for (size_t i = 0; i < rail->op_count; i++) {
        struct ofi_op *op = &rail->ops[i];
        if (op->peer == link->rank)
            ofi_settle_packet(op, status == PLAIT_ABORTED ? PLAIT_OK : status);
    }
}

static void settle_all(struct ofi_link *link, plait_status status)
{
    struct transfer *next;
    settle_packets(link, status);
    for (struct transfer *send = link->queue.first; send != NULL; send = next) {
        next = send->next;
        ofi_settle(send, status);
    }
    link->queue = (struct transfer_list){ 0 };
    settle_outgoing(&link->announced, status);
    settle_outgoing(&link->streams, status);
    settle_outgoing(&link->withdrawals, status);
    while (link->answers.first != NULL) {
        struct message *message = link->answers.first;
        link->answers.first = message->next;
        if (message->receive != NULL)
            ofi_settle(message->receive, status);
        free(message);
    }
    link->answers.last = NULL;
    while (link->incoming != NULL) {
        if (link->incoming->receive != NULL)
            ofi_settle(link->incoming->receive, status);
        ofi_drop_incoming(link, link->incoming);
    }
}

void ofi_link_close(struct ofi_link *link)
{
    if (link->open)
        settle_all(link, PLAIT_ABORTED);
}

/* What the provider never took goes back to the rails, which other links need. */
static void free_stalled(struct ofi_link *link)
{
    while (link->stalled != NULL) {
        struct ofi_op *op = link->stalled;
        link->stalled = op->next;
        rail_give(&link->ofi->rails[op->rail], op);
    }
}

void ofi_link_lose(struct ofi_link *link)
{
    if (link->lost)
        return;
    link->lost = true;
    log_error("%s", failure_text());
    free_stalled(link);
    settle_all(link, PLAIT_PEER_LOST);
    match_lose(&link->ofi->match, link->rank);
}

void ofi_link_nonsense(struct ofi_link *link, const char *what, uint64_t value)
{
    failure(PLAIT_PEER_LOST, "rank %d sent nonsense over the network (%s %llu); its memory is damaged",
            link->rank, what, (unsigned long long)value);
    ofi_link_lose(link);
}

/* That the peer is gone is for life() to say: a failing fabric is blamed only if it is not. */
void ofi_link_fail(struct ofi_link *link, const char *trouble)
{
    if (!link->open || link->lost || link->failing_since != 0)
        return;
    link->failing_since = clock_ns();
    snprintf(link->trouble, sizeof link->trouble, "%s", trouble);
    free_stalled(link);
    ofi_mark_busy(link->ofi, link->rank);
}

/* True while it is not known whether the peer lives. */
static bool is_in_doubt(struct ofi_link *link)
{
    enum { DOUBT_NS = 500000000 };
    struct lifeline *line = &link->ofi->lifelines.lines[link->rank];
    lifeline_look(&link->ofi->lifelines, link->rank);
    if (line->ended || line->left)
        return false;
    if (clock_ns() - link->failing_since < DOUBT_NS)
        return true;
    failure(PLAIT_PEER_LOST, "the network to rank %d fails, while its process lives: %s", link->rank,
            link->trouble);
    ofi_link_lose(link);
    return false;
}

/* -------------------------------------------------------------------- turns */

void ofi_link_send(struct ofi_link *link, struct transfer *send)
{
    if (link->lost) {
        ofi_settle(send, failure(PLAIT_PEER_LOST, "the link to rank %d was lost before", link->rank));
        return;
    }
    send->stage = STAGE_QUEUED;
    list_append_transfer(&link->queue, send); /* until the next turn, so that small ones go together */
    ofi_mark_busy(link->ofi, link->rank);
}

void ofi_link_meet(struct ofi_link *link, struct message *message)
{
    struct transfer *receive = message->receive;
    receive->moved = message->size;
    if (message->size > receive->size) {
        ofi_settle(receive, PLAIT_TRUNCATED);
        message->receive = NULL;
    }
    list_append_message(&link->answers, message);
    ofi_mark_busy(link->ofi, link->rank);
}

bool ofi_link_turn(struct ofi_link *link, bool *moved)
{
    if (link->lost)
        return false;
    if (link->failing_since != 0)
        return is_in_doubt(link);
    *moved |= ofi_take_parked(link);
    *moved |= !link->lost && ofi_give(link);
    bool waits_for_slots = false;
    for (const struct ofi_incoming *incoming = link->incoming; incoming != NULL; incoming = incoming->next)
        waits_for_slots |= incoming->granted < incoming->pieces;
    return !link->lost &&
           (link->stalled != NULL || link->queue.first != NULL || link->answers.first != NULL ||
            link->streams != NULL || link->withdrawals != NULL || waits_for_slots ||
            link->owed >= link->ofi->credits / 2 || link->parked[link->sequence_in % OFI_PARKED] != NULL);
}

/* ---------------------------------------------------------------- canceling */

static void forget_handed(const struct ofi_link *link, const struct transfer *send)
{
    struct ofi_rail *rail = &link->ofi->rails[0];
    for (size_t i = 0; i < rail->op_count; i++)
        for (struct transfer **at = &rail->ops[i].send; *at != NULL; at = &(*at)->next)
            if (*at == send) {
                *at = send->next;
                return;
            }
}

bool ofi_link_cancel_send(struct ofi_link *link, struct transfer *send)
{
    if (send->stage == STAGE_QUEUED)
        return list_remove_transfer(&link->queue, send);
    struct ofi_outgoing *outgoing = ofi_take_outgoing(&link->announced, send, 0);
    if (outgoing == NULL)
        outgoing = ofi_take_outgoing(&link->streams, send, 0);
    if (outgoing == NULL) {
        forget_handed(link, send);
        return false;
    }
    if (send->moved == send->size) {
        free(outgoing);
        return false;
    }
    outgoing->send = NULL;
    ofi_append_outgoing(&link->withdrawals, outgoing);
    ofi_mark_busy(link->ofi, link->rank);
    return true;
}

void ofi_link_cancel_receive(struct ofi_link *link, const struct transfer *receive)
{
    for (struct message *message = link->answers.first; message != NULL; message = message->next)
        if (message->receive == receive)
            message->receive = NULL; /* so it will be discarded */
    for (struct ofi_incoming *incoming = link->incoming; incoming != NULL; incoming = incoming->next)
        if (incoming->receive == receive)
            incoming->receive = NULL; /* what still comes of it is swallowed */
    ofi_mark_busy(link->ofi, link->rank);
}
