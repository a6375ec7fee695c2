/* Lists of transfers and of messages, first in first out, through their `next`. */
#ifndef PLAIT_TRANSPORT_LISTS_H
#define PLAIT_TRANSPORT_LISTS_H

#include "transport/transport.h"

/* A message that came before its receive, or a large one of which only the announcement came. */
struct message {
    struct message *next;
    int source; /* world rank */
    struct message_key key;
    size_t size;
    bool announced; /* its bytes are still at the sender, who calls it `id` */
    uint32_t id;
    size_t moved;             /* the transport's: bytes that came so far */
    struct transfer *receive; /* set when they meet; the transport sets it NULL when nobody wants the bytes */
    unsigned char bytes[];    /* unless announced */
};

struct transfer_list {
    struct transfer *first, *last;
};

struct message_list {
    struct message *first, *last;
};

static inline void list_append_transfer(struct transfer_list *list, struct transfer *transfer)
{
    transfer->next = NULL;
    if (list->last != NULL)
        list->last->next = transfer;
    else
        list->first = transfer;
    list->last = transfer;
}

/* `before` is the one in front of it; NULL for the first. */
static inline void list_cut_transfer(struct transfer_list *list, struct transfer *before,
                                     struct transfer *transfer)
{
    if (before != NULL)
        before->next = transfer->next;
    else
        list->first = transfer->next;
    if (list->last == transfer)
        list->last = before;
}

/* False if it is not in the list. */
static inline bool list_remove_transfer(struct transfer_list *list, const struct transfer *transfer)
{
    struct transfer *before = NULL, *at = list->first;
    for (; at != NULL && at != transfer; at = at->next)
        before = at;
    if (at != NULL)
        list_cut_transfer(list, before, at);
    return at != NULL;
}

static inline void list_append_message(struct message_list *list, struct message *message)
{
    message->next = NULL;
    if (list->last != NULL)
        list->last->next = message;
    else
        list->first = message;
    list->last = message;
}

/* `before` is the one in front of it; NULL for the first. */
static inline void list_cut_message(struct message_list *list, struct message *before,
                                    struct message *message)
{
    if (before != NULL)
        before->next = message->next;
    else
        list->first = message->next;
    if (list->last == message)
        list->last = before;
}

/* One that is in the list. */
static inline void list_remove_message(struct message_list *list, struct message *message)
{
    struct message *before = NULL, *at = list->first;
    for (; at != message; at = at->next)
        before = at;
    list_cut_message(list, before, message);
}

#endif
