#include "transport/match.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static bool is_callers(const struct message_key *key)
{
    return (key->context & CONTEXT_CALLERS) != 0;
}

static bool same_key(const struct message_key *a, const struct message_key *b)
{
    return a->context == b->context && a->operation == b->operation && a->place == b->place;
}

/* A caller's messages share a bucket whoever sent them, so that any-source receives find them. */
static unsigned bucket_of(int peer, const struct message_key *key)
{
    uint64_t mix = key->context * UINT64_C(0x9e3779b97f4a7c15) + key->operation;
    if (!is_callers(key))
        mix = (mix ^ mix >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + key->place * 31 + (uint64_t)peer;
    mix = (mix ^ mix >> 32) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)(mix >> 40) % MATCH_BUCKETS;
}

static bool fits(const struct transfer *receive, int source, const struct message_key *key)
{
    if (!is_callers(key))
        return receive->peer == source && same_key(&receive->key, key);
    return receive->key.context == key->context && receive->key.operation == key->operation &&
           (receive->peer == source || receive->peer == PLAIT_ANY_SOURCE);
}

static void free_messages(struct message_list *list)
{
    while (list->first != NULL) {
        struct message *message = list->first;
        list->first = message->next;
        free(message);
    }
    list->last = NULL;
}

plait_status match_open(struct match *match, int size, void (*meet)(void *, struct message *), void *context)
{
    *match = (struct match){ .size = size, .meet = meet, .context = context };
    match->sent = calloc((size_t)size, sizeof *match->sent);
    match->came = calloc((size_t)size, sizeof *match->came);
    if (match->sent != NULL && match->came != NULL)
        return PLAIT_OK;
    match_close(match);
    return failure(PLAIT_OUT_OF_MEMORY, "no memory to count the messages of %d ranks", size);
}

void match_close(struct match *match)
{
    for (int i = 0; i < MATCH_BUCKETS; i++) {
        struct transfer *next;
        for (struct transfer *receive = match->posted[i].first; receive != NULL; receive = next) {
            next = receive->next;
            receive->status = PLAIT_ABORTED;
        }
        match->posted[i] = (struct transfer_list){ 0 };
        free_messages(&match->unexpected[i]);
    }
    free_messages(&match->early);
    free(match->sent);
    free(match->came);
    match->sent = match->came = NULL;
}

void match_number(struct match *match, int peer, struct message_key *key)
{
    if (is_callers(key))
        key->place = match->sent[peer]++;
}

/* Settles a receive with the bytes of a whole message. */
static void deliver(struct transfer *receive, int source, const void *bytes, size_t size)
{
    receive->source = source;
    receive->moved = size;
    if (size > receive->size) {
        receive->status = PLAIT_TRUNCATED;
        return;
    }
    if (size > 0 && receive->sink != NULL)
        receive->sink(receive, 0, bytes, size);
    else if (size > 0)
        memcpy(receive->data, bytes, size);
    receive->status = PLAIT_OK;
}

/* A kept message has met its receive. */
static void meet(struct match *match, struct message *message, struct transfer *receive)
{
    if (message->announced) {
        message->receive = receive;
        receive->source = message->source;
        match->meet(match->context, message);
        return;
    }
    deliver(receive, message->source, message->bytes, message->size);
    free(message);
}

/* Takes the first posted receive that fits off its list. */
static struct transfer *take_receive(struct match *match, int source, const struct message_key *key)
{
    struct transfer_list *list = &match->posted[bucket_of(source, key)];
    struct transfer *before = NULL;
    for (struct transfer *receive = list->first; receive != NULL; before = receive, receive = receive->next) {
        if (fits(receive, source, key)) {
            list_cut_transfer(list, before, receive);
            return receive;
        }
    }
    return NULL;
}

void match_post(struct match *match, struct transfer *receive)
{
    unsigned bucket = bucket_of(receive->peer, &receive->key);
    struct message_list *list = &match->unexpected[bucket];
    struct message *before = NULL;
    for (struct message *message = list->first; message != NULL; before = message, message = message->next) {
        if (fits(receive, message->source, &message->key)) {
            list_cut_message(list, before, message);
            meet(match, message, receive);
            return;
        }
    }
    list_append_transfer(&match->posted[bucket], receive);
}

bool match_unpost(struct match *match, struct transfer *receive)
{
    return list_remove_transfer(&match->posted[bucket_of(receive->peer, &receive->key)], receive);
}

/* A message to keep; NULL without memory. `bytes` is NULL for an announcement, whose bytes come later. */
static struct message *make_message(int source, const struct message_key *key, const void *bytes, size_t size)
{
    struct message *message = malloc(sizeof *message + (bytes != NULL ? size : 0));
    if (message == NULL)
        return NULL;
    *message = (struct message){ .source = source, .key = *key, .size = size, .announced = bytes == NULL };
    if (bytes != NULL)
        memcpy(message->bytes, bytes, size);
    return message;
}

/* A kept message whose turn has come. */
static void admit(struct match *match, struct message *message)
{
    struct transfer *receive = take_receive(match, message->source, &message->key);
    if (receive != NULL)
        meet(match, message, receive);
    else
        list_append_message(&match->unexpected[bucket_of(message->source, &message->key)], message);
}

/* Admits the messages of `source` that waited for the one that has just come. */
static void admit_early(struct match *match, int source)
{
    struct message *before = NULL, *message = match->early.first;
    while (message != NULL) {
        if (message->source != source || message->key.place != match->came[source]) {
            before = message;
            message = message->next;
            continue;
        }
        list_cut_message(&match->early, before, message);
        match->came[source]++;
        admit(match, message);
        before = NULL; /* an earlier entry of the list may be the next */
        message = match->early.first;
    }
}

/* Keeps a message and, when it is its turn, admits it. */
static void keep(struct match *match, struct message *message)
{
    if (!is_callers(&message->key)) {
        admit(match, message);
    } else if (message->key.place != match->came[message->source]) {
        list_append_message(&match->early, message);
    } else {
        match->came[message->source]++;
        int source = message->source;
        admit(match, message);
        admit_early(match, source);
    }
}

static bool came_before(const struct match *match, int source, const struct message_key *key)
{
    if (!is_callers(key))
        return false;
    if (key->place < match->came[source])
        return true;
    for (const struct message *message = match->early.first; message != NULL; message = message->next)
        if (message->source == source && message->key.place == key->place)
            return true;
    return false;
}

enum arrival match_arrive(struct match *match, int source, const struct message_key *key, const void *bytes,
                          size_t size)
{
    if (came_before(match, source, key))
        return ARRIVAL_NONSENSE;
    bool in_turn = !is_callers(key) || key->place == match->came[source];
    struct transfer *receive = in_turn ? take_receive(match, source, key) : NULL;
    if (receive != NULL) { /* the common case, without a copy on the way */
        deliver(receive, source, bytes, size);
        if (is_callers(key)) {
            match->came[source]++;
            admit_early(match, source);
        }
        return ARRIVAL_TAKEN;
    }
    struct message *message = make_message(source, key, bytes != NULL ? bytes : "", size);
    if (message == NULL)
        return ARRIVAL_NO_MEMORY;
    keep(match, message);
    return ARRIVAL_TAKEN;
}

enum arrival match_announce(struct match *match, int source, const struct message_key *key, size_t size,
                            uint32_t id)
{
    if (came_before(match, source, key))
        return ARRIVAL_NONSENSE;
    struct message *message = make_message(source, key, NULL, size);
    if (message == NULL)
        return ARRIVAL_NO_MEMORY;
    message->id = id;
    keep(match, message);
    return ARRIVAL_TAKEN;
}

/* The first announced message of `source` in the list, with that id unless `any`. */
static struct message *take_announced(struct message_list *list, int source, uint32_t id, bool any)
{
    struct message *before = NULL;
    for (struct message *message = list->first; message != NULL; before = message, message = message->next) {
        if (message->announced && message->source == source && (any || message->id == id)) {
            list_cut_message(list, before, message);
            return message;
        }
    }
    return NULL;
}

bool match_withdraw(struct match *match, int source, uint32_t id)
{
    for (int i = 0; i < MATCH_BUCKETS; i++) {
        struct message *message = take_announced(&match->unexpected[i], source, id, false);
        if (message != NULL) {
            free(message);
            return true;
        }
    }
    /* One that overtook others keeps its number in line, as a message nobody can ask for. */
    for (struct message *message = match->early.first; message != NULL; message = message->next) {
        if (message->announced && message->source == source && message->id == id) {
            message->key.operation = UINT64_MAX;
            return true;
        }
    }
    return false;
}

static void lose_receives(struct transfer_list *list, int peer)
{
    struct transfer *before = NULL, *next;
    for (struct transfer *receive = list->first; receive != NULL; receive = next) {
        next = receive->next;
        if (receive->peer != peer) {
            before = receive;
            continue;
        }
        list_cut_transfer(list, before, receive);
        receive->status = PLAIT_PEER_LOST;
    }
}

void match_lose(struct match *match, int peer)
{
    struct message *message;
    for (int i = 0; i < MATCH_BUCKETS; i++) {
        lose_receives(&match->posted[i], peer);
        while ((message = take_announced(&match->unexpected[i], peer, 0, true)) != NULL)
            free(message);
    }
    while ((message = take_announced(&match->early, peer, 0, true)) != NULL)
        free(message);
}
