/* The exchange over a key-value store.
 *
 * One store serves one world after another, and earlier ones may have crashed at any
 * point and left their keys. So the store's worlds are numbered rounds, and only rank 0
 * begins one:
 *
 *   plait/rounds            a counter that rank 0 alone moves. Odd: the round of that number is
 *                           open. Even: the one before is over. A rank 0 that finds it odd
 *                           replaces one that crashed (or lives, see below) and adds until it is odd again.
 *   plait/N/open            rank 0's claim and the generation, a number drawn for this round
 *   plait/N/claims/R        a counter: how many processes took rank R of the round
 *   plait/N/card/R          rank R's claim and card
 *   plait/N/complaint       a joiner that can't take its place: its number is taken, ...
 *   plait/N/complaints      a counter, so that rank 0 sees without waiting that there is one
 *   plait/N/outcome         rank 0's last word: all cards, or a sentence; then the counter turns even
 *
 * A joiner reads the counter, waits for the open round or the next, puts its card there and
 * waits for the outcome: O(1) keys a rank. It can't know whether an open round's rank 0
 * lives, and need not: while it waits it looks at the counter, and when that moved on it
 * answers the new round. An outcome counts only if it holds the nonce of the joiner's own
 * claim (or is a failure that came after its answer), so what a dead world has left is
 * recognised and passed over.
 *
 * Two processes with one number: the second claimant complains, rank 0 ends the round with
 * both names. A complaint in a dead round harms nobody. Two rank 0: the first sees the counter move
 * on, complains in the second's round, and both fail. A second process that comes when the
 * world is complete can't be told from an early start of the next world; it waits until its
 * deadline and then hears who had its number.
 *
 * All values are sealed with the base key (job_key.c) for their key's name and their
 * generation. Whoever may write the store can keep a world from starting; without a
 * caller's job key they can also take part in it: the store is the trust boundary. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bootstrap/store_meeting.h"

void meeting_key(char key[KEY_BYTES], int64_t number, const char *what, int rank)
{
    if (rank >= 0)
        snprintf(key, KEY_BYTES, "plait/%" PRId64 "/%s/%d", number, what, rank);
    else
        snprintf(key, KEY_BYTES, "plait/%" PRId64 "/%s", number, what);
}

static struct place place_of(const char *key, uint64_t generation)
{
    struct place place = { 0 };
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(generation >> (8 * i));
    place_add(&place, bytes, sizeof bytes);
    place_add(&place, key, strlen(key));
    return place;
}

int64_t meeting_sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t meeting_slice_end(const struct meeting *meeting)
{
    return meeting_sooner(deadline_after_ms(meeting->slice_ms), meeting->exchange->options->deadline);
}

/* A joiner waits for one key, which wakes it; it looks elsewhere only in case of a crash, and
 * the less often the more joiners share the store. Rank 0 waits for many keys. */
void meeting_grow_slice(struct meeting *meeting)
{
    const struct claim *self = &meeting->exchange->self;
    int64_t most = SLICE_LAST_MS + (self->rank > 0 ? self->size / 4 : 0);
    meeting->slice_ms = meeting->slice_ms * 2 < most ? meeting->slice_ms * 2 : most;
}

plait_status meeting_add(struct meeting *meeting, const char *key, int64_t amount, int64_t *sum)
{
    return meeting->view->add(meeting->view->context, key, amount, sum);
}

plait_status meeting_rounds(struct meeting *meeting, int64_t *number)
{
    return meeting_add(meeting, "plait/rounds", 0, number);
}

plait_status meeting_put(struct meeting *meeting, const char *key, uint64_t generation, unsigned char *frame,
                         size_t size)
{
    struct place place = place_of(key, generation);
    wire_seal(frame, size, meeting->exchange->base, &place);
    return meeting->view->set(meeting->view->context, key, frame, size);
}

plait_status meeting_fetch(struct meeting *meeting, const char *key, uint64_t generation,
                           unsigned char *frame, size_t *size, int64_t deadline, bool *foreign)
{
    size_t room = *size;
    *foreign = false;
    plait_status status = meeting->view->get(meeting->view->context, key, frame, size, deadline);
    if (status != PLAIT_OK)
        return status;
    struct place place = place_of(key, generation);
    if (*size <= room && wire_sealed(frame, *size, meeting->exchange->base, &place))
        return PLAIT_OK;
    *foreign = true;
    return PLAIT_IN_PROGRESS;
}

plait_status meeting_fetch_open(struct meeting *meeting, int64_t number, struct claim *claim,
                                uint64_t *generation, int64_t deadline, bool *foreign)
{
    char key[KEY_BYTES];
    unsigned char frame[OPEN_BYTES];
    size_t size = sizeof frame;
    meeting_key(key, number, "open", -1);
    plait_status status = meeting_fetch(meeting, key, 0, frame, &size, deadline, foreign);
    if (status == PLAIT_OK && !wire_get_open(frame, size, claim, generation)) {
        *foreign = true;
        return PLAIT_IN_PROGRESS;
    }
    return status;
}

plait_status meeting_fetch_card(struct meeting *meeting, int rank, struct claim *claim, struct card *card,
                                int64_t deadline, bool *foreign)
{
    char key[KEY_BYTES];
    unsigned char frame[CARD_FRAME_BYTES];
    size_t size = sizeof frame;
    meeting_key(key, meeting->number, "card", rank);
    plait_status status = meeting_fetch(meeting, key, meeting->generation, frame, &size, deadline, foreign);
    if (status == PLAIT_OK && (!wire_get_card(frame, size, claim, card) || claim->rank != rank ||
                               claim->size != meeting->exchange->options->size)) {
        *foreign = true;
        return PLAIT_IN_PROGRESS;
    }
    return status;
}

plait_status meeting_complain(struct meeting *meeting, int64_t number, uint64_t generation,
                              enum complaint what)
{
    char key[KEY_BYTES];
    unsigned char frame[COMPLAINT_BYTES];
    struct claim claim = exchange_claim(meeting->exchange);
    size_t size = wire_put_complaint(frame, what, &claim);
    int64_t sum;
    meeting_key(key, number, "complaint", -1);
    plait_status status = meeting_put(meeting, key, generation, frame, size);
    meeting_key(key, number, "complaints", -1);
    return status == PLAIT_OK ? meeting_add(meeting, key, 1, &sum) : status;
}

plait_status store_exchange(struct exchange *exchange, const struct store_view *view)
{
    struct meeting meeting = { .exchange = exchange, .view = view };
    return exchange->self.rank == 0 ? meeting_lead(&meeting) : meeting_join(&meeting);
}
