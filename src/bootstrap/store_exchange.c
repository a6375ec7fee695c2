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
 * world is complete can't be told from an early start of the next world; it waits until its deadline.
 *
 * All values are sealed with the base key (job_key.c) for their key's name and their
 * generation. Whoever may write the store can keep a world from starting; without a
 * caller's job key they can also take part in it: the store is the trust boundary. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/store_view.h"

enum { SLICE_FIRST_MS = 5, SLICE_LAST_MS = 50 };

struct meeting {
    struct exchange *exchange;
    const struct store_view *view;
    int64_t number;      /* of the round */
    uint64_t generation; /* of the round */
    int64_t slice_ms;    /* how long to wait for one key before looking at the others */
    bool warned;         /* a joiner's: said already that a value is not for us */
    /* rank 0's */
    bool *there;
    bool *warned_of;
    int missing;
    int64_t decide_by;
    /* a joiner's */
    bool awaited;        /* the round had no outcome yet when it was answered */
    uint64_t over;       /* the generation of a round known to be over, 0 for none */
    struct claim leader; /* of the latest round seen; size 0 for none */
    char heard[SENTENCE_BYTES]; /* how that one ended, if not with us */
};

/* ------------------------------------------------------------ keys, values */

static void key_of(char key[KEY_BYTES], int64_t number, const char *what, int rank)
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

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t slice_end(const struct meeting *meeting)
{
    return sooner(deadline_after_ms(meeting->slice_ms), meeting->exchange->options->deadline);
}

/* A joiner waits for one key, which wakes it; it looks elsewhere only in case of a crash, and
 * the less often the more joiners share the store. Rank 0 waits for many keys. */
static void grow_slice(struct meeting *meeting)
{
    const struct claim *self = &meeting->exchange->self;
    int64_t most = SLICE_LAST_MS + (self->rank > 0 ? self->size / 4 : 0);
    meeting->slice_ms = meeting->slice_ms * 2 < most ? meeting->slice_ms * 2 : most;
}

static plait_status add(struct meeting *meeting, const char *key, int64_t amount, int64_t *sum)
{
    return meeting->view->add(meeting->view->context, key, amount, sum);
}

static plait_status read_rounds(struct meeting *meeting, int64_t *number)
{
    return add(meeting, "plait/rounds", 0, number);
}

/* Seals a frame for its key and sets it. */
static plait_status put(struct meeting *meeting, const char *key, uint64_t generation, unsigned char *frame,
                        size_t size)
{
    struct place place = place_of(key, generation);
    wire_seal(frame, size, meeting->exchange->base, &place);
    return meeting->view->set(meeting->view->context, key, frame, size);
}

/* A frame of `size` bytes with a good seal: PLAIT_OK. Not there in time: PLAIT_IN_PROGRESS.
 * There and not ours: PLAIT_IN_PROGRESS too, with *foreign set. */
static plait_status fetch(struct meeting *meeting, const char *key, uint64_t generation, unsigned char *frame,
                          size_t *size, int64_t deadline, bool *foreign)
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

static plait_status fetch_open(struct meeting *meeting, int64_t number, struct claim *claim,
                               uint64_t *generation, int64_t deadline, bool *foreign)
{
    char key[KEY_BYTES];
    unsigned char frame[OPEN_BYTES];
    size_t size = sizeof frame;
    key_of(key, number, "open", -1);
    plait_status status = fetch(meeting, key, 0, frame, &size, deadline, foreign);
    if (status == PLAIT_OK && !wire_get_open(frame, size, claim, generation)) {
        *foreign = true;
        return PLAIT_IN_PROGRESS;
    }
    return status;
}

static plait_status fetch_card(struct meeting *meeting, int rank, struct claim *claim, struct card *card,
                               int64_t deadline, bool *foreign)
{
    char key[KEY_BYTES];
    unsigned char frame[CARD_FRAME_BYTES];
    size_t size = sizeof frame;
    key_of(key, meeting->number, "card", rank);
    plait_status status = fetch(meeting, key, meeting->generation, frame, &size, deadline, foreign);
    if (status == PLAIT_OK
        && (!wire_get_card(frame, size, claim, card) || claim->rank != rank
            || claim->size != meeting->exchange->options->size)) {
        *foreign = true;
        return PLAIT_IN_PROGRESS;
    }
    return status;
}

static plait_status complain(struct meeting *meeting, int64_t number, uint64_t generation, enum complaint what)
{
    char key[KEY_BYTES];
    unsigned char frame[COMPLAINT_BYTES];
    struct claim claim = exchange_claim(meeting->exchange);
    size_t size = wire_put_complaint(frame, what, &claim);
    int64_t sum;
    key_of(key, number, "complaint", -1);
    plait_status status = put(meeting, key, generation, frame, size);
    key_of(key, number, "complaints", -1);
    return status == PLAIT_OK ? add(meeting, key, 1, &sum) : status;
}

/* ----------------------------------------------------------------- rank 0 */

/* Worlds before the last one. A joiner that is still at the last one's outcome must find it. */
static int stale_key(const char *key, const void *what)
{
    long long number;
    int end = 0;
    return sscanf(key, "plait/%lld/%n", &number, &end) == 1 && end > 0 && number <= *(const int64_t *)what - 4;
}

static plait_status open_round(struct meeting *meeting)
{
    do {
        plait_status status = add(meeting, "plait/rounds", 1, &meeting->number);
        if (status != PLAIT_OK)
            return status;
    } while (meeting->number % 2 == 0);
    if (meeting->number < 0)
        return failure(PLAIT_START_FAILED, "the store's counter \"plait/rounds\" is %" PRId64 ": something else uses it",
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
    key_of(key, meeting->number, "open", -1);
    return put(meeting, key, 0, frame, wire_put_open(frame, &claim, meeting->generation));
}

static plait_status claimed_twice(const struct claim *first, const struct claim *second)
{
    char one[CLAIM_TEXT_BYTES], two[CLAIM_TEXT_BYTES];
    return failure(PLAIT_START_FAILED, "two processes claim rank %d of %d: %s and %s; give each its own number",
                   first->rank, first->size, claim_process(first, one), claim_process(second, two));
}

/* The counter has moved on: another process is rank 0 as well. */
static plait_status meet_other_leader(struct meeting *meeting, int64_t number)
{
    struct claim other;
    uint64_t generation;
    bool foreign;
    int64_t theirs = number % 2 != 0 ? number : number - 1;
    if (theirs > meeting->number
        && fetch_open(meeting, theirs, &other, &generation, deadline_after_ms(200), &foreign) == PLAIT_OK) {
        complain(meeting, theirs, generation, COMPLAINT_LEADER);
        return claimed_twice(&meeting->exchange->self, &other);
    }
    return failure(PLAIT_START_FAILED, "another process claims rank 0 of %d over the same store, beside pid %lld on %s",
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
        return failure(PLAIT_START_FAILED, "%s was started for a world of %d ranks, %s for one of %d",
                       claim_text(claim, one), claim->size, claim_text(self, two), self->size);
    struct claim first;
    struct card card;
    bool foreign;
    if (claim->rank >= self->size)
        return PLAIT_OK;
    if (fetch_card(meeting, claim->rank, &first, &card, deadline_after_ms(200), &foreign) != PLAIT_OK)
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
    plait_status status = read_rounds(meeting, &number);
    if (status != PLAIT_OK)
        return status;
    if (number != meeting->number)
        return number < meeting->number ? PLAIT_IN_PROGRESS : meet_other_leader(meeting, number);

    char key[KEY_BYTES];
    key_of(key, number, "complaints", -1);
    status = add(meeting, key, 0, &complaints);
    if (status != PLAIT_OK || complaints == 0)
        return status;

    unsigned char frame[COMPLAINT_BYTES];
    size_t size = sizeof frame;
    bool foreign;
    enum complaint what;
    struct claim claim;
    key_of(key, number, "complaint", -1);
    status = fetch(meeting, key, meeting->generation, frame, &size, deadline_after_ms(200), &foreign);
    if (status == PLAIT_IN_PROGRESS || (status == PLAIT_OK && !wire_get_complaint(frame, size, &what, &claim)))
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
    plait_status status = fetch_card(meeting, rank, &claim, &exchange->cards[rank], deadline, &foreign);
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
    meeting->decide_by = sooner(meeting->decide_by, claim_decide_by(&claim));
    return PLAIT_OK;
}

/* One look at each missing rank. Waits for each up to a slice, so one that is there is not passed over. */
static plait_status sweep(struct meeting *meeting)
{
    for (int rank = 1; rank < meeting->exchange->options->size; rank++) {
        if (meeting->there[rank])
            continue;
        plait_status status = take_card(meeting, rank, sooner(slice_end(meeting), meeting->decide_by));
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
    char who[SENTENCE_BYTES / 2];
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
        grow_slice(meeting);
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
    key_of(key, meeting->number, "outcome", -1);
    plait_status status = put(meeting, key, meeting->generation, frame, size);
    free(frame);
    if (status == PLAIT_OK)
        status = read_rounds(meeting, &number);
    if (status == PLAIT_OK && number == meeting->number)
        status = add(meeting, "plait/rounds", 1, &number);
    return status;
}

static plait_status lead(struct meeting *meeting)
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
            status = failure(PLAIT_START_FAILED, "the %s lost what rank 0 had put there, again and again, for %.1f s",
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

/* ---------------------------------------------------------------- joiners */

/* Takes this rank's place in the round, or says why it can't. */
static plait_status answer(struct meeting *meeting)
{
    struct exchange *exchange = meeting->exchange;
    const struct claim *self = &exchange->self;
    if (meeting->leader.size != self->size)
        return complain(meeting, meeting->number, meeting->generation, COMPLAINT_SIZE);

    char key[KEY_BYTES];
    int64_t claims;
    key_of(key, meeting->number, "claims", self->rank);
    plait_status status = add(meeting, key, 1, &claims);
    if (status != PLAIT_OK)
        return status;
    if (claims != 1)
        return complain(meeting, meeting->number, meeting->generation, COMPLAINT_TAKEN);

    unsigned char frame[CARD_FRAME_BYTES];
    struct claim claim = exchange_claim(exchange);
    size_t size = wire_put_card(frame, &claim, exchange->mine);
    key_of(key, meeting->number, "card", self->rank);
    return put(meeting, key, meeting->generation, frame, size);
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
    key_of(key, meeting->number, "outcome", -1);
    plait_status status = fetch(meeting, key, meeting->generation, frame, &size, deadline, &foreign);
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

/* Waits in a round that was answered. PLAIT_IN_PROGRESS: the round is over without us, or the deadline passed. */
static plait_status await_outcome(struct meeting *meeting)
{
    /* A refusal may come from a world of another size than ours. */
    size_t ours = wire_outcome_size(PLAIT_OK, meeting->exchange->options->size);
    size_t theirs = wire_outcome_size(PLAIT_START_FAILED, meeting->leader.size);
    size_t room = ours > theirs ? ours : theirs;
    unsigned char *frame = malloc(room);
    if (frame == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the cards of %d ranks", meeting->exchange->options->size);

    int64_t number = meeting->number, by = exchange_last_word_by(meeting->exchange);
    plait_status status = PLAIT_IN_PROGRESS;
    meeting->awaited = false;
    meeting->slice_ms = 4 * SLICE_FIRST_MS;
    while (status == PLAIT_IN_PROGRESS && meeting->over != meeting->generation) {
        /* The round moved on, or time is up: its outcome is there by now or will never be. */
        bool last = number != meeting->number || deadline_passed(by);
        status = read_outcome(meeting, frame, room, sooner(deadline_after_ms(meeting->slice_ms), by));
        if (status != PLAIT_IN_PROGRESS || last)
            break;
        meeting->awaited = meeting->over != meeting->generation;
        grow_slice(meeting);
        status = read_rounds(meeting, &number);
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
    plait_status status = read_rounds(meeting, &number);
    if (status != PLAIT_OK)
        return status;
    meeting->number = number % 2 != 0 ? number : number + 1;
    struct claim leader;
    uint64_t generation;
    status = fetch_open(meeting, meeting->number, &leader, &generation, slice_end(meeting), &foreign);
    if (status == PLAIT_OK && generation == meeting->over) {
        /* Its rank 0 died before it closed the round; the next one will be two further. */
        status = fetch_open(meeting, meeting->number + 2, &leader, &generation, slice_end(meeting), &foreign);
        meeting->number += 2;
    }
    if (foreign && !meeting->warned) {
        meeting->warned = true;
        log_warn("rank %d found a round of another job key, or something else, in the store; it waits for its own",
                 meeting->exchange->self.rank);
    }
    if (foreign && !deadline_passed(slice_end(meeting)))
        nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
    if (status == PLAIT_OK) {
        meeting->leader = leader;
        meeting->generation = generation;
        meeting->heard[0] = '\0';
    }
    return status;
}

static plait_status nobody_led(struct meeting *meeting)
{
    const struct exchange *exchange = meeting->exchange;
    const char *way = way_of(exchange->options)->name;
    int rank = exchange->self.rank;
    double seconds = exchange_seconds(exchange);
    char leader[CLAIM_TEXT_BYTES];
    claim_text(&meeting->leader, leader);
    if (meeting->leader.size == 0 && meeting->warned)
        return failure(PLAIT_START_FAILED, "rank %d found a rank 0 in the %s within %.1f s, but not with its job key",
                       rank, way, seconds);
    if (meeting->leader.size == 0)
        return failure(PLAIT_START_FAILED, "rank 0 did not come within %.1f s: rank %d of %d waited for it at the %s",
                       seconds, rank, exchange->options->size, way);
    if (meeting->heard[0] != '\0')
        return failure(PLAIT_START_FAILED, "no new world began within %.1f s for rank %d; of the last one over this %s, "
                       "led by %s: %s", seconds, rank, way, leader, meeting->heard);
    return failure(PLAIT_START_FAILED, "the world did not come together within %.1f s: rank %d is there, %s has not "
                   "said who is missing", seconds, rank, leader);
}

static plait_status join(struct meeting *meeting)
{
    plait_status status = PLAIT_IN_PROGRESS;
    meeting->slice_ms = SLICE_FIRST_MS;
    do {
        status = find_round(meeting);
        if (status == PLAIT_IN_PROGRESS)
            grow_slice(meeting);
        if (status != PLAIT_OK)
            continue;
        status = answer(meeting);
        if (status == PLAIT_OK)
            status = await_outcome(meeting);
        meeting->slice_ms = SLICE_FIRST_MS;
    } while (status == PLAIT_IN_PROGRESS && !deadline_passed(meeting->exchange->options->deadline));
    return status == PLAIT_IN_PROGRESS ? nobody_led(meeting) : status;
}

plait_status store_exchange(struct exchange *exchange, const struct store_view *view)
{
    struct meeting meeting = { .exchange = exchange, .view = view };
    return exchange->self.rank == 0 ? lead(&meeting) : join(&meeting);
}
