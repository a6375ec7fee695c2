#include "transport/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "device/copy.h"

/* A message too large for the caches goes past them, on both sides: half as fast again at 64 MiB. */
enum { STREAMED_BYTES = 32 << 20 };
enum { TURN_RECORDS = 4 * MAILBOX_RECORDS, TURN_SLOTS = 2 * MAILBOX_SLOTS };

void link_open(struct link *link, const struct segment *own, const struct segment *peers, struct match *match,
               int own_index, int index)
{
    *link = (struct link){ .own = own,
                           .peers = peers,
                           .match = match,
                           .rank = peers->rank,
                           .index = index,
                           .own_index = own_index };
    outbox_open(&link->out, own, index);
    inbox_open(&link->in, peers, own_index);
}

/* ------------------------------------------------------------------ lists */

static void append_outgoing(struct outgoing_list *list, struct outgoing *outgoing)
{
    outgoing->next = NULL;
    if (list->last != NULL)
        list->last->next = outgoing;
    else
        list->first = outgoing;
    list->last = outgoing;
}

/* Takes the one with `send`, or with `id` where `send` is NULL, off the list; NULL if it is not there. */
static struct outgoing *take_outgoing(struct outgoing_list *list, const struct transfer *send, uint32_t id)
{
    struct outgoing *before = NULL;
    for (struct outgoing *outgoing = list->first; outgoing != NULL;
         before = outgoing, outgoing = outgoing->next) {
        if (send != NULL ? outgoing->send != send : outgoing->id != id)
            continue;
        if (before != NULL)
            before->next = outgoing->next;
        else
            list->first = outgoing->next;
        if (list->last == outgoing)
            list->last = before;
        return outgoing;
    }
    return NULL;
}

static struct message *find_message(const struct message_list *list, uint32_t id)
{
    struct message *message = list->first;
    while (message != NULL && message->id != id)
        message = message->next;
    return message;
}

/* ------------------------------------------------------ the end of a link */

static void settle(struct transfer *transfer, plait_status status)
{
    transfer->stage = STAGE_DONE;
    transfer->status = status;
}

static void settle_sends(struct transfer_list *list, plait_status status)
{
    struct transfer *next;
    for (struct transfer *send = list->first; send != NULL; send = next) {
        next = send->next;
        settle(send, status);
    }
    *list = (struct transfer_list){ 0 };
}

static void settle_outgoing(struct outgoing_list *list, plait_status status)
{
    struct outgoing *next;
    for (struct outgoing *outgoing = list->first; outgoing != NULL; outgoing = next) {
        next = outgoing->next;
        if (outgoing->send != NULL)
            settle(outgoing->send, status);
        free(outgoing);
    }
    *list = (struct outgoing_list){ 0 };
}

static void settle_messages(struct message_list *list, plait_status status)
{
    struct message *next;
    for (struct message *message = list->first; message != NULL; message = next) {
        next = message->next;
        if (message->receive != NULL)
            settle(message->receive, status);
        free(message);
    }
    *list = (struct message_list){ 0 };
}

static void settle_all(struct link *link, plait_status status)
{
    settle_sends(&link->queue, status);
    settle_outgoing(&link->announced, status);
    settle_outgoing(&link->streams, status);
    settle_outgoing(&link->withdrawals, status);
    settle_messages(&link->answers, status);
    settle_messages(&link->incoming, status);
}

void link_close(struct link *link)
{
    settle_all(link, PLAIT_ABORTED);
}

static void lose(struct link *link, const char *what, uint64_t value)
{
    if (link->lost)
        return;
    link->lost = true;
    failure(PLAIT_PEER_LOST,
            "rank %d left nonsense in its mailbox for this rank (%s %llu); its memory is damaged", link->rank,
            what, (unsigned long long)value);
    log_error("%s", failure_text());
    settle_all(link, PLAIT_PEER_LOST);
    match_lose(link->match, link->rank);
}

/* ------------------------------------------------------------------ giving */

static void ring_doorbell(const struct link *link)
{
    atomic_fetch_or_explicit(&segment_doorbells(link->peers)[link->own_index / 64],
                             UINT64_C(1) << link->own_index % 64, memory_order_release);
    bell_ring(&segment_header(link->peers)->bell);
}

static int record_room(struct link *link)
{
    int room = outbox_record_room(&link->out);
    if (room < 0)
        lose(link, "records taken of", link->out.written);
    return room < 0 ? 0 : room;
}

/* Answers announcements. A receive that is too small, or gone, is answered with discard. */
static bool give_answers(struct link *link)
{
    bool gave = false;
    while (link->answers.first != NULL && record_room(link) > 0) {
        struct message *message = link->answers.first;
        plait_status status = outbox_reserve(&link->out, false, false);
        list_remove_message(&link->answers, message);
        if (status != PLAIT_OK) {
            if (message->receive != NULL)
                settle(message->receive, status);
            free(message);
            continue;
        }
        bool wanted = message->receive != NULL;
        struct record record = { .kind = wanted ? RECORD_GRANT : RECORD_DISCARD, .id = message->id };
        outbox_write(&link->out, &record, NULL);
        if (wanted)
            list_append_message(&link->incoming, message);
        else
            free(message);
        gave = true;
    }
    return gave;
}

static bool give_withdrawals(struct link *link)
{
    bool gave = false;
    while (link->withdrawals.first != NULL && record_room(link) > 0) {
        struct outgoing *outgoing = take_outgoing(&link->withdrawals, NULL, link->withdrawals.first->id);
        struct record record = { .kind = RECORD_WITHDRAW, .id = outgoing->id };
        outbox_write(&link->out, &record, NULL);
        free(outgoing);
        gave = true;
    }
    return gave;
}

/* Writes a send's record. False if it has to wait for memory; a send that can't be is settled. */
static bool give_send(struct link *link, struct transfer *send)
{
    bool whole = send->size <= MAILBOX_EAGER_BYTES;
    struct outgoing *outgoing = NULL;
    plait_status status = outbox_reserve(&link->out, whole && send->size > MAILBOX_INLINE_BYTES, !whole);
    if (status == PLAIT_OK && !whole && (outgoing = malloc(sizeof *outgoing)) == NULL)
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory to announce a message of %zu bytes to rank %d",
                         send->size, link->rank);
    if (status != PLAIT_OK) {
        settle(send, status);
        return false;
    }
    struct record record = { .key = send->key, .size = send->size, .kind = RECORD_MESSAGE };
    match_number(link->match, link->rank, &record.key);
    if (whole) {
        outbox_write(&link->out, &record, send->data);
        send->moved = send->size;
        settle(send, PLAIT_OK);
        return true;
    }
    record.kind = RECORD_ANNOUNCE;
    record.id = ++link->last_id;
    outbox_write(&link->out, &record, NULL);
    *outgoing = (struct outgoing){ .send = send, .id = record.id };
    send->stage = STAGE_ANNOUNCED;
    append_outgoing(&link->announced, outgoing);
    return true;
}

static bool give_sends(struct link *link)
{
    bool gave = false;
    while (link->queue.first != NULL && record_room(link) > 0) {
        struct transfer *send = link->queue.first;
        list_cut_transfer(&link->queue, NULL, send);
        gave |= give_send(link, send);
    }
    return gave;
}

/* Fills slots for the first stream. */
static bool give_slots(struct link *link)
{
    bool gave = false;
    for (int i = 0; i < TURN_SLOTS && link->streams.first != NULL; i++) {
        struct outgoing *outgoing = link->streams.first;
        struct transfer *send = outgoing->send;
        int room = outbox_slot_room(&link->out);
        if (room < 0)
            lose(link, "slots drained of", link->out.filled);
        if (room <= 0)
            break;
        size_t left = send->size - send->moved, size = mailbox_piece_size(send->size);
        if (size > left)
            size = left;
        outbox_fill(&link->out, outgoing->id, (const unsigned char *)send->data + send->moved, size,
                    send->size >= STREAMED_BYTES);
        send->moved += size;
        ring_doorbell(link); /* each slot, so that the peer drains while this rank fills */
        gave = true;
        if (send->moved == send->size) {
            take_outgoing(&link->streams, send, 0);
            settle(send, PLAIT_OK);
            free(outgoing);
        }
    }
    return gave;
}

static bool give(struct link *link)
{
    bool gave = give_answers(link);
    gave |= give_withdrawals(link);
    gave |= give_sends(link);
    if (gave)
        ring_doorbell(link);
    return give_slots(link) || gave;
}

void link_send(struct link *link, struct transfer *send)
{
    if (link->lost) {
        settle(send, failure(PLAIT_PEER_LOST, "the link to rank %d was lost before", link->rank));
        return;
    }
    send->stage = STAGE_QUEUED;
    list_append_transfer(&link->queue, send);
    if (link->queue.first == send && give_sends(link))
        ring_doorbell(link);
}

/* ------------------------------------------------------------------ taking */

void link_meet(struct link *link, struct message *message)
{
    struct transfer *receive = message->receive;
    receive->moved = message->size;
    if (message->size > receive->size) {
        settle(receive, PLAIT_TRUNCATED);
        message->receive = NULL;
    }
    list_append_message(&link->answers, message);
}

/* The peer's answer to an announcement. One that is not known was withdrawn meanwhile. */
static void take_answer(struct link *link, const struct record *record)
{
    struct outgoing *outgoing = take_outgoing(&link->announced, NULL, record->id);
    if (outgoing == NULL)
        return;
    if (record->kind == RECORD_GRANT) {
        append_outgoing(&link->streams, outgoing);
        return;
    }
    outgoing->send->moved = outgoing->send->size;
    settle(outgoing->send, PLAIT_OK);
    free(outgoing);
}

static void take_withdrawal(struct link *link, uint32_t id)
{
    struct message_list *lists[] = { &link->answers, &link->incoming };
    for (int i = 0; i < 2; i++) {
        struct message *message = find_message(lists[i], id);
        if (message == NULL)
            continue;
        list_remove_message(lists[i], message);
        if (message->receive != NULL)
            settle(message->receive, failure(PLAIT_ABORTED, "rank %d gave up a message of %zu bytes",
                                             link->rank, message->size));
        free(message);
        return;
    }
    match_withdraw(link->match, link->rank, id);
}

static enum arrival take_record(struct link *link, const struct record *record)
{
    switch (record->kind) {
    case RECORD_MESSAGE:
        if (record->size > MAILBOX_EAGER_BYTES)
            return ARRIVAL_NONSENSE;
        return match_arrive(link->match, link->rank, &record->key, inbox_payload(&link->in, record),
                            record->size);
    case RECORD_ANNOUNCE:
        if (record->size <= MAILBOX_EAGER_BYTES || record->size > PTRDIFF_MAX)
            return ARRIVAL_NONSENSE;
        return match_announce(link->match, link->rank, &record->key, record->size, record->id);
    case RECORD_GRANT:
    case RECORD_DISCARD: take_answer(link, record); return ARRIVAL_TAKEN;
    case RECORD_WITHDRAW: take_withdrawal(link, record->id); return ARRIVAL_TAKEN;
    default: return ARRIVAL_NONSENSE;
    }
}

/* True if records may be left. */
static bool take_records(struct link *link, bool *took)
{
    struct record record;
    for (int i = 0; i < TURN_RECORDS; i++) {
        if (link->lost || !inbox_peek(&link->in, &record))
            return false;
        enum arrival arrival = take_record(link, &record);
        if (arrival == ARRIVAL_NO_MEMORY)
            return true;
        if (arrival == ARRIVAL_NONSENSE) {
            lose(link, "a record of kind", record.kind);
            return false;
        }
        inbox_take(&link->in);
        *took = true;
    }
    return true;
}

/* Hands a slot's bytes on. Those of a message that is not known any more are swallowed. */
static bool take_slot(struct link *link, const struct slot_tag *tag, const void *bytes)
{
    struct message *message = find_message(&link->incoming, tag->id);
    if (message == NULL)
        return true;
    size_t left = message->size - message->moved, size = mailbox_piece_size(message->size);
    if (tag->size != (left < size ? left : size))
        return false;
    struct transfer *receive = message->receive;
    if (receive->sink != NULL)
        receive->sink(receive, message->moved, bytes, tag->size);
    else if (message->size >= STREAMED_BYTES)
        copy_streamed((unsigned char *)receive->data + message->moved, bytes, tag->size);
    else
        memcpy((unsigned char *)receive->data + message->moved, bytes, tag->size);
    message->moved += tag->size;
    if (message->moved == message->size) {
        settle(receive, PLAIT_OK);
        list_remove_message(&link->incoming, message);
        free(message);
    }
    return true;
}

/* True if slots may be left. */
static bool take_slots(struct link *link, bool *took)
{
    struct slot_tag tag;
    for (int i = 0; i < TURN_SLOTS; i++) {
        int ready = link->lost ? 0 : inbox_slots_ready(&link->in);
        if (ready < 0)
            lose(link, "slots filled after", link->in.drained);
        if (ready <= 0)
            return false;
        const void *bytes = inbox_slot(&link->in, &tag);
        if (!take_slot(link, &tag, bytes)) {
            lose(link, "a slot of size", tag.size);
            return false;
        }
        inbox_drain(&link->in);
        *took = true;
    }
    return true;
}

bool link_turn(struct link *link, bool rung, bool *moved)
{
    if (link->lost)
        return false;
    link->heard |= rung;
    bool took = false;
    bool more = link->heard && take_records(link, &took);
    more |= link->heard && take_slots(link, &took);
    if (took) /* a sender that waits for room looks for it itself, once it is awake */
        bell_ring(&segment_header(link->peers)->bell);
    bool gave = !link->lost && give(link);
    *moved |= took || gave;
    return !link->lost && (more || link->queue.first != NULL || link->answers.first != NULL ||
                           link->streams.first != NULL || link->withdrawals.first != NULL);
}

/* --------------------------------------------------------------- canceling */

void link_cancel_send(struct link *link, struct transfer *send)
{
    if (send->stage == STAGE_QUEUED) {
        list_remove_transfer(&link->queue, send);
        return;
    }
    struct outgoing *outgoing = take_outgoing(&link->announced, send, 0);
    if (outgoing == NULL)
        outgoing = take_outgoing(&link->streams, send, 0);
    if (outgoing == NULL)
        return;
    outgoing->send = NULL;
    append_outgoing(&link->withdrawals, outgoing);
}

static struct message *find_receive(const struct message_list *list, const struct transfer *receive)
{
    struct message *message = list->first;
    while (message != NULL && message->receive != receive)
        message = message->next;
    return message;
}

void link_cancel_receive(struct link *link, const struct transfer *receive)
{
    struct message *message = find_receive(&link->answers, receive);
    if (message != NULL) {
        message->receive = NULL; /* so it will be discarded */
        return;
    }
    message = find_receive(&link->incoming, receive);
    if (message == NULL)
        return;
    list_remove_message(&link->incoming, message); /* what still comes of it is swallowed */
    free(message);
}
