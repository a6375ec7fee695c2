/* Rank 0's side of the exchange over a store: see store_exchange.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/store_meeting.h"

enum { TRIES_MOST = 100 }; /* to get an odd number, while others count too */

/* Worlds before the last one. A joiner that is still at the last one's outcome must find it. */
static int stale_key(const char *key, const void *what)
{
    long long number;
    int end = 0;
    return sscanf(key, "plait/%lld/%n", &number, &end) == 1 && end > 0 &&
           number <= *(const int64_t *)what - 4;
}

static plait_status open_round(struct meeting *meeting)
{
    int tries = 0;
    do {
        plait_status status = meeting_add(meeting, "plait/rounds", 1, &meeting->number);
        if (status != PLAIT_OK)
            return status;
    } while (meeting->number >= 0 && meeting->number % 2 == 0 && ++tries < TRIES_MOST);
    if (meeting->number < 0 || tries == TRIES_MOST)
        return failure(PLAIT_START_FAILED,
                       "the store's counter \"plait/rounds\" is %" PRId64 ": something else uses it",
                       meeting->number);
    if (meeting->view->forget != NULL) {
        plait_status status = meeting->view->forget(meeting->view->context, stale_key, &meeting->number);
        if (status != PLAIT_OK)
            return status;
    }

    exchange_draw(meeting->exchange);
    meeting->generation = meeting->exchange->outcome.generation;
    char key[KEY_BYTES];
    unsigned char frame[OPEN_BYTES];
    struct claim claim = exchange_claim(meeting->exchange);
    meeting_key(key, meeting->number, "open", -1);
    return meeting_put(meeting, key, 0, frame, wire_put_open(frame, &claim, meeting->generation));
}

static plait_status claimed_twice(const struct claim *first, const struct claim *second)
{
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    return failure(PLAIT_START_FAILED,
                   "two processes claim rank %d of %d: %s and %s; give each its own number", first->rank,
                   first->size, claim_process(first, one), claim_process(second, two));
}

/* The counter has moved on: another process is rank 0 as well. */
static plait_status meet_other_leader(struct meeting *meeting, int64_t number)
{
    struct claim other;
    uint64_t generation;
    bool foreign;
    int64_t theirs = number % 2 != 0 ? number : number - 1;
    if (theirs > meeting->number && meeting_fetch_open(meeting, theirs, &other, &generation,
                                                       deadline_after_ms(200), &foreign) == PLAIT_OK) {
        meeting_complain(meeting, theirs, generation, COMPLAINT_LEADER);
        return claimed_twice(&meeting->exchange->self, &other);
    }
    return failure(PLAIT_START_FAILED,
                   "another process claims rank 0 of %d over the same store, beside pid %lld on %s",
                   meeting->exchange->options->size, (long long)meeting->exchange->self.pid,
                   meeting->exchange->self.host);
}

/* The failure that a complaint stands for, or PLAIT_OK if there is nothing to it. */
static plait_status judge(struct meeting *meeting, enum complaint what, const struct claim *claim)
{
    const struct claim *self = &meeting->exchange->self;
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    if (what == COMPLAINT_LEADER)
        return claimed_twice(self, claim);
    if (what == COMPLAINT_SIZE)
        return failure(PLAIT_START_FAILED,
                       "%s was started for a world of %d ranks, %s for one of %d; give all of "
                       "them the same size (WORLD_SIZE)",
                       claim_text(claim, one), claim->size, claim_text(self, two), self->size);
    struct claim first;
    struct card card;
    bool foreign;
    if (claim->rank >= self->size)
        return PLAIT_OK;
    if (meeting_fetch_card(meeting, claim->rank, &first, &card, deadline_after_ms(200), &foreign) != PLAIT_OK)
        return failure(PLAIT_START_FAILED, "%s found its number taken by a process that left no card",
                       claim_text(claim, one));
    if (memcmp(first.nonce, claim->nonce, NONCE_BYTES) == 0)
        return PLAIT_OK;
    return claimed_twice(&first, claim);
}

/* What may end the round early. PLAIT_IN_PROGRESS: the store was emptied, so begin again. */
static plait_status look_around(struct meeting *meeting)
{
    int64_t number, complaints;
    plait_status status = meeting_rounds(meeting, &number);
    if (status != PLAIT_OK)
        return status;
    if (number != meeting->number)
        return number < meeting->number ? PLAIT_IN_PROGRESS : meet_other_leader(meeting, number);

    char key[KEY_BYTES];
    meeting_key(key, number, "complaints", -1);
    status = meeting_add(meeting, key, 0, &complaints);
    if (status != PLAIT_OK || complaints == 0)
        return status;

    unsigned char frame[COMPLAINT_BYTES];
    size_t size = sizeof frame;
    bool foreign;
    enum complaint what;
    struct claim claim;
    meeting_key(key, number, "complaint", -1);
    status = meeting_fetch(meeting, key, meeting->generation, frame, &size, deadline_after_ms(200), &foreign);
    if (status == PLAIT_IN_PROGRESS ||
        (status == PLAIT_OK && !wire_get_complaint(frame, size, &what, &claim)))
        return PLAIT_OK;
    if (status != PLAIT_OK)
        return status;
    memcpy(meeting->exchange->outcome.outsider, claim.nonce, NONCE_BYTES);
    return judge(meeting, what, &claim);
}

static plait_status take_card(struct meeting *meeting, int rank, int64_t deadline)
{
    struct exchange *exchange = meeting->exchange;
    struct claim claim;
    bool foreign;
    plait_status status =
        meeting_fetch_card(meeting, rank, &claim, &exchange->cards[rank], deadline, &foreign);
    if (foreign && !meeting->warned_of[rank]) {
        meeting->warned_of[rank] = true;
        log_warn("rank 0 found no good card of rank %d in the store: other job key, or not a card", rank);
    }
    if (foreign && !deadline_passed(deadline))
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    if (status != PLAIT_OK)
        return status;
    memcpy(exchange->outcome.nonces[rank], claim.nonce, NONCE_BYTES);
    meeting->there[rank] = true;
    meeting->missing--;
    meeting->decide_by = meeting_sooner(meeting->decide_by, claim_decide_by(&claim));
    return PLAIT_OK;
}

/* One look at each missing rank. Waits for each up to a slice, so one that is there is not passed over. */
static plait_status sweep(struct meeting *meeting)
{
    for (int rank = 1; rank < meeting->exchange->options->size; rank++) {
        if (meeting->there[rank])
            continue;
        plait_status status =
            take_card(meeting, rank, meeting_sooner(meeting_slice_end(meeting), meeting->decide_by));
        if (status == PLAIT_IN_PROGRESS) {
            status = look_around(meeting);
            if (status == PLAIT_OK && deadline_passed(meeting->decide_by + 50000000))
                return PLAIT_OK; /* a thousand missing ranks are not worth a second's delay */
        }
        if (status != PLAIT_OK)
            return status;
    }
    return PLAIT_OK;
}

static plait_status ranks_missing(struct meeting *meeting)
{
    char who[OUTCOME_TEXT_BYTES / 2];
    missing_text(meeting->there, meeting->exchange->options->size, who, sizeof who);
    return failure(PLAIT_START_FAILED, "%s of %d did not come within %.1f s (over the %s)", who,
                   meeting->exchange->options->size, exchange_seconds(meeting->exchange),
                   way_of(meeting->exchange->options)->name);
}

static plait_status gather(struct meeting *meeting)
{
    struct exchange *exchange = meeting->exchange;
    int size = exchange->options->size;
    memset(meeting->there, 0, (size_t)size * sizeof *meeting->there);
    meeting->there[0] = true;
    meeting->missing = size - 1;
    meeting->decide_by = exchange->options->deadline;
    meeting->slice_ms = SLICE_FIRST_MS;
    exchange->cards[0] = *exchange->mine;
    memcpy(exchange->outcome.nonces[0], exchange->self.nonce, NONCE_BYTES);

    while (meeting->missing > 0) {
        bool last = deadline_passed(meeting->decide_by);
        plait_status status = sweep(meeting);
        if (status != PLAIT_OK)
            return status;
        if (last && meeting->missing > 0)
            return ranks_missing(meeting);
        meeting_grow_slice(meeting);
    }
    return look_around(meeting); /* a complaint that came just before the last card */
}

/* The world has failed: looks for those that answered and were not counted yet, so that they hear it too. */
static void count_the_rest(struct meeting *meeting)
{
    int64_t until = deadline_after_ms(SLICE_LAST_MS);
    for (int rank = 1; rank < meeting->exchange->options->size && !deadline_passed(until); rank++)
        if (!meeting->there[rank])
            take_card(meeting, rank, clock_ns());
}

/* Tells the joiners how it ended, and closes the round unless another rank 0 has moved on. */
static plait_status publish(struct meeting *meeting)
{
    const struct outcome *outcome = &meeting->exchange->outcome;
    size_t size = wire_outcome_size(outcome->status, outcome->size);
    unsigned char *frame = malloc(size);
    if (frame == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the cards of %d ranks", outcome->size);
    char key[KEY_BYTES];
    int64_t number;
    wire_put_outcome(frame, outcome);
    meeting_key(key, meeting->number, "outcome", -1);
    plait_status status = meeting_put(meeting, key, meeting->generation, frame, size);
    free(frame);
    if (status == PLAIT_OK)
        status = meeting_rounds(meeting, &number);
    if (status == PLAIT_OK && number == meeting->number)
        status = meeting_add(meeting, "plait/rounds", 1, &number);
    return status;
}

plait_status meeting_lead(struct meeting *meeting)
{
    struct exchange *exchange = meeting->exchange;
    size_t size = (size_t)exchange->options->size;
    plait_status status;
    meeting->there = calloc(size, sizeof *meeting->there);
    meeting->warned_of = calloc(size, sizeof *meeting->warned_of);
    if (meeting->there == NULL || meeting->warned_of == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory to gather the cards of %zu ranks", size);
        goto cleanup;
    }
    do {
        status = open_round(meeting);
        if (status == PLAIT_OK)
            status = gather(meeting);
        if (status == PLAIT_IN_PROGRESS && deadline_passed(exchange->options->deadline))
            status = failure(PLAIT_START_FAILED,
                             "the %s lost what rank 0 had put there, again and again, for %.1f s",
                             way_of(exchange->options)->name, exchange_seconds(exchange));
    } while (status == PLAIT_IN_PROGRESS);

    if (status == PLAIT_OK) {
        status = publish(meeting);
    } else if (meeting->generation != 0) {
        exchange_failed(exchange, status);
        count_the_rest(meeting);
        publish(meeting);
        failure(status, "%s", exchange->outcome.sentence); /* not what publishing may have said */
    }

cleanup:
    free(meeting->there);
    free(meeting->warned_of);
    return status;
}
