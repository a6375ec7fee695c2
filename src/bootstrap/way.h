/* What the ways to find each other share. Inside the bootstrap only. */
#ifndef PLAIT_BOOTSTRAP_WAY_H
#define PLAIT_BOOTSTRAP_WAY_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

/* One rank's part in one exchange: what it knows at the start, and what comes out. */
struct exchange {
    const struct bootstrap_options *options;
    const struct card *mine;
    struct card *cards;
    struct claim self; /* left_ms: see exchange_claim() */
    unsigned char base[JOB_KEY_BYTES];
    int64_t start;          /* clock_ns() */
    char toward[RESULT_ADDRESS_BYTES]; /* as in the result */
    struct outcome outcome; /* nonces and cards are there from the start */
};

struct bootstrap_way {
    const char *name;
    /* Fills exchange->outcome, with the cards, and returns its status. */
    plait_status (*meet)(struct exchange *exchange);
};

extern const struct bootstrap_way way_threads, way_store, way_file, way_environment, way_launcher;

/* The first whose option is set. */
const struct bootstrap_way *way_of(const struct bootstrap_options *options);

/* The own claim, with the time that is left now. */
struct claim exchange_claim(const struct exchange *exchange);

/* Seconds since the exchange began. */
double exchange_seconds(const struct exchange *exchange);

/* When rank 0 has to decide because a rank with this claim will give up: a
 * little earlier, so that the claimant still hears why. */
int64_t claim_decide_by(const struct claim *claim);

/* Until when a joiner that is taken in waits for rank 0's last word. A little past its
 * deadline: on a busy machine rank 0 may be late, and it alone knows who is missing. */
int64_t exchange_last_word_by(const struct exchange *exchange);

/* For rank 0: makes the outcome a failure with this thread's sentence, and returns its status. */
plait_status exchange_failed(struct exchange *exchange, plait_status status);

/* For rank 0: draws generation and secret. */
void exchange_draw(struct exchange *exchange);

/* The base key and the world's: see job_key.c. */
void job_key_base(const struct bootstrap_options *options, unsigned char key[JOB_KEY_BYTES]);
void job_key_of_world(const unsigned char base[JOB_KEY_BYTES], const struct outcome *outcome,
                      struct bootstrap_result *result);

#endif
