/* A joiner's side of the exchange over a store: see store_exchange.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/store_meeting.h"

/* Takes this rank's place in the round, or says why it can't. */
static plait_status answer(struct meeting *meeting)
{
    struct exchange *exchange = meeting->exchange;
    const struct claim *self = &exchange->self;
    if (meeting->leader.size != self->size)
        return meeting_complain(meeting, meeting->number, meeting->generation, COMPLAINT_SIZE);

    char key[KEY_BYTES];
    int64_t claims;
    meeting_key(key, meeting->number, "claims", self->rank);
    plait_status status = meeting_add(meeting, key, 1, &claims);
    if (status != PLAIT_OK)
        return status;
    if (claims != 1)
        return meeting_complain(meeting, meeting->number, meeting->generation, COMPLAINT_TAKEN);

    unsigned char frame[CARD_FRAME_BYTES];
    struct claim claim = exchange_claim(exchange);
    size_t size = wire_put_card(frame, &claim, exchange->mine);
    meeting_key(key, meeting->number, "card", self->rank);
    return meeting_put(meeting, key, meeting->generation, frame, size);
}

/* Whether a decoded outcome is for this process; if so *status is what it says. */
static bool outcome_is_ours(struct meeting *meeting, plait_status *status)
{
    struct exchange *exchange = meeting->exchange;
    struct outcome *outcome = &exchange->outcome;
    const unsigned char *nonce = exchange->self.nonce;
    bool placed = memcmp(outcome->nonces[exchange->self.rank], nonce, NONCE_BYTES) == 0;
    bool named = memcmp(outcome->outsider, nonce, NONCE_BYTES) == 0;
    /* A failure that came after our answer is a living rank 0's, even if it overlooked us. */
    bool concerns = placed || (outcome->status != PLAIT_OK && (named || meeting->awaited));
    if (outcome->generation != meeting->generation || !concerns)
        return false;
    *status = outcome->status;
    if (outcome->status != PLAIT_OK)
        failure(outcome->status, "%s", outcome->sentence);
    return true;
}

/* The outcome, if it is there by `deadline`. Sets meeting->over when it is there and not for us. */
static plait_status read_outcome(struct meeting *meeting, unsigned char *frame, size_t room, int64_t deadline)
{
    char key[KEY_BYTES];
    size_t size = room;
    bool foreign;
    meeting_key(key, meeting->number, "outcome", -1);
    plait_status status = meeting_fetch(meeting, key, meeting->generation, frame, &size, deadline, &foreign);
    if (status == PLAIT_IN_PROGRESS && foreign)
        meeting->over = meeting->generation;
    if (status != PLAIT_OK)
        return status;
    struct outcome *outcome = &meeting->exchange->outcome;
    if (wire_get_outcome(frame, size, outcome) && outcome_is_ours(meeting, &status))
        return status;
    meeting->over = meeting->generation;
    snprintf(meeting->heard, sizeof meeting->heard, "%s",
             outcome->status == PLAIT_OK ? "it came together without this process" : outcome->sentence);
    return PLAIT_IN_PROGRESS;
}

/* Waits in a round that was answered. PLAIT_IN_PROGRESS: it is over without us, or the deadline passed. */
static plait_status await_outcome(struct meeting *meeting)
{
    /* A refusal may come from a world of another size than ours. */
    size_t ours = wire_outcome_size(PLAIT_OK, meeting->exchange->options->size);
    size_t theirs = wire_outcome_size(PLAIT_START_FAILED, meeting->leader.size);
    size_t room = ours > theirs ? ours : theirs;
    unsigned char *frame = malloc(room);
    if (frame == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the cards of %d ranks",
                       meeting->exchange->options->size);

    int64_t number = meeting->number, by = exchange_last_word_by(meeting->exchange);
    plait_status status = PLAIT_IN_PROGRESS;
    meeting->awaited = false;
    meeting->slice_ms = 4 * SLICE_FIRST_MS;
    while (status == PLAIT_IN_PROGRESS && meeting->over != meeting->generation) {
        /* The round moved on, or time is up: its outcome is there by now or will never be. */
        bool last = number != meeting->number || deadline_passed(by);
        status = read_outcome(meeting, frame, room, meeting_sooner(deadline_after_ms(meeting->slice_ms), by));
        if (status != PLAIT_IN_PROGRESS || last)
            break;
        meeting->awaited = meeting->over != meeting->generation;
        meeting_grow_slice(meeting);
        status = meeting_rounds(meeting, &number);
        status = status == PLAIT_OK ? PLAIT_IN_PROGRESS : status;
    }
    free(frame);
    return status;
}

/* Waits up to a slice for the round that is open or opens next. */
static plait_status find_round(struct meeting *meeting)
{
    int64_t number;
    bool foreign;
    plait_status status = meeting_rounds(meeting, &number);
    if (status != PLAIT_OK)
        return status;
    meeting->number = number % 2 != 0 ? number : number + 1;
    struct claim leader;
    uint64_t generation;
    status = meeting_fetch_open(meeting, meeting->number, &leader, &generation, meeting_slice_end(meeting),
                                &foreign);
    if (status == PLAIT_OK && generation == meeting->over) {
        /* Its rank 0 died before it closed the round; the next one will be two further. */
        status = meeting_fetch_open(meeting, meeting->number + 2, &leader, &generation,
                                    meeting_slice_end(meeting), &foreign);
        meeting->number += 2;
    }
    if (foreign && !meeting->warned) {
        meeting->warned = true;
        log_warn(
            "rank %d found a round of another job key, or something else, in the store; it waits for its own",
            meeting->exchange->self.rank);
    }
    if (foreign && !deadline_passed(meeting_slice_end(meeting)))
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    if (status == PLAIT_OK) {
        meeting->leader = leader;
        meeting->generation = generation;
        meeting->heard[0] = '\0';
    }
    return status;
}

/* "; in the last world over the store rank 1 was pid 4711 on node7: ...", or "". A process that comes when its
 * world is complete finds nothing else to tell it from one that is early for the next. */
static const char *former_holder(struct meeting *meeting, char *text, size_t text_size)
{
    int rank = meeting->exchange->self.rank;
    struct claim leader, holder;
    struct card card;
    bool foreign;
    char process[CLAIM_TEXT_BYTES];
    text[0] = '\0';
    meeting->number -= 2;
    if (meeting->number > 0 &&
        meeting_fetch_open(meeting, meeting->number, &leader, &meeting->generation, clock_ns(), &foreign) ==
            PLAIT_OK &&
        meeting_fetch_card(meeting, rank, &holder, &card, clock_ns(), &foreign) == PLAIT_OK)
        snprintf(text, text_size,
                 "; in the last world over it rank %d was %s: if that still runs, the number is taken", rank,
                 claim_process(&holder, process));
    return text;
}

static plait_status nobody_led(struct meeting *meeting)
{
    const struct exchange *exchange = meeting->exchange;
    const char *way = way_of(exchange->options)->name;
    int rank = exchange->self.rank;
    double seconds = exchange_seconds(exchange);
    char leader[CLAIM_TEXT_BYTES], former[CLAIM_TEXT_BYTES + 100];
    claim_text(&meeting->leader, leader);
    if (meeting->leader.size == 0 && meeting->warned)
        return failure(
            PLAIT_START_FAILED,
            "rank %d found a rank 0 in the %s within %.1f s, but not with its job key; set PLAIT_JOB_KEY "
            "alike on all ranks",
            rank, way, seconds);
    if (meeting->leader.size == 0)
        return failure(PLAIT_START_FAILED,
                       "rank 0 did not come within %.1f s: rank %d of %d waited for it at the %s%s", seconds,
                       rank, exchange->options->size, way, former_holder(meeting, former, sizeof former));
    if (meeting->heard[0] != '\0')
        return failure(PLAIT_START_FAILED,
                       "no new world began within %.1f s for rank %d; of the last one over this %s, "
                       "led by %s: %s",
                       seconds, rank, way, leader, meeting->heard);
    return failure(PLAIT_START_FAILED,
                   "the world did not come together within %.1f s: rank %d is there, %s has not "
                   "said who is missing",
                   seconds, rank, leader);
}

plait_status meeting_join(struct meeting *meeting)
{
    plait_status status = PLAIT_IN_PROGRESS;
    meeting->slice_ms = SLICE_FIRST_MS;
    do {
        status = find_round(meeting);
        if (status == PLAIT_IN_PROGRESS)
            meeting_grow_slice(meeting);
        if (status != PLAIT_OK)
            continue;
        status = answer(meeting);
        if (status == PLAIT_OK)
            status = await_outcome(meeting);
        meeting->slice_ms = SLICE_FIRST_MS;
    } while (status == PLAIT_IN_PROGRESS && !deadline_passed(meeting->exchange->options->deadline));
    return status == PLAIT_IN_PROGRESS ? nobody_led(meeting) : status;
}
