#include "bootstrap/bootstrap.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/way.h"

const struct bootstrap_way *way_of(const struct bootstrap_options *options)
{
    if (options->threads != NULL)
        return &way_threads;
    if (options->store != NULL)
        return &way_store;
    if (options->file != NULL)
        return &way_file;
    return options->launcher > LAUNCHER_ENVIRONMENT ? &way_launcher : &way_environment;
}

struct claim exchange_claim(const struct exchange *exchange)
{
    struct claim claim = exchange->self;
    claim.left_ms = deadline_left_ms(exchange->options->deadline);
    return claim;
}

double exchange_seconds(const struct exchange *exchange)
{
    return (double)(clock_ns() - exchange->start) / 1e9;
}

int64_t claim_decide_by(const struct claim *claim)
{
    int64_t margin = claim->left_ms / 10 < 100 ? claim->left_ms / 10 : 100;
    return deadline_after_ms(claim->left_ms - margin);
}

int64_t exchange_last_word_by(const struct exchange *exchange)
{
    int64_t deadline = exchange->options->deadline;
    return deadline == NO_DEADLINE ? NO_DEADLINE : deadline + 500000000;
}

plait_status exchange_failed(struct exchange *exchange, plait_status status)
{
    exchange->outcome.status = status;
    snprintf(exchange->outcome.sentence, OUTCOME_TEXT_BYTES, "%.*s", OUTCOME_TEXT_BYTES - 1, failure_text());
    return status;
}

void exchange_draw(struct exchange *exchange)
{
    struct outcome *outcome = &exchange->outcome;
    randombytes_buf(outcome->secret, sizeof outcome->secret);
    do
        randombytes_buf(&outcome->generation, sizeof outcome->generation);
    while (outcome->generation == 0);
}

static struct claim own_claim(const struct bootstrap_options *options)
{
    struct claim claim = { .rank = options->rank, .size = options->size, .pid = getpid() };
    claim.thread = syscall(SYS_gettid);
    randombytes_buf(claim.nonce, sizeof claim.nonce);
    if (gethostname(claim.host, sizeof claim.host - 1) != 0 || claim.host[0] == '\0')
        strcpy(claim.host, "unknown");
    return claim;
}

static plait_status check_options(const struct bootstrap_options *options)
{
    if (options->size < 1 || options->size > WIRE_RANKS_MAX)
        return failure(PLAIT_INVALID_ARGUMENT, "a world of %d ranks: it must be 1 to %d", options->size,
                       WIRE_RANKS_MAX);
    if (options->rank < 0 || options->rank >= options->size)
        return failure(PLAIT_INVALID_ARGUMENT, "rank %d of %d: it must be 0 to %d", options->rank,
                       options->size, options->size - 1);
    if (options->job_key == NULL && options->job_key_size > 0)
        return failure(PLAIT_INVALID_ARGUMENT, "the job key is NULL and has %zu bytes",
                       options->job_key_size);
    return PLAIT_OK;
}

static plait_status meet_nobody(struct exchange *exchange)
{
    exchange_draw(exchange);
    exchange->cards[0] = *exchange->mine;
    return PLAIT_OK;
}

plait_status bootstrap_exchange(const struct bootstrap_options *options, const struct card *mine,
                                struct card *cards, struct bootstrap_result *result)
{
    plait_status status = check_options(options);
    if (status != PLAIT_OK)
        return status;
    if (sodium_init() < 0)
        return failure(PLAIT_SYSTEM_ERROR, "libsodium found no source of random numbers on this machine");

    struct exchange exchange = {
        .options = options,
        .mine = mine,
        .cards = cards,
        .self = own_claim(options),
        .start = clock_ns(),
    };
    job_key_base(options, exchange.base);
    exchange.outcome.size = options->size;
    exchange.outcome.cards = cards;
    exchange.outcome.nonces = calloc((size_t)options->size, NONCE_BYTES);
    if (exchange.outcome.nonces == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for the start of a world of %d ranks", options->size);

    const struct bootstrap_way *way = way_of(options);
    status = options->size == 1 && way != &way_threads ? meet_nobody(&exchange) : way->meet(&exchange);
    if (status == PLAIT_OK) {
        job_key_of_world(exchange.base, &exchange.outcome, result);
        memcpy(result->toward, exchange.toward, sizeof result->toward);
        log_debug("rank %d of %d: all are there after %.1f ms (%s)", options->rank, options->size,
                  exchange_seconds(&exchange) * 1e3, way->name);
    }
    sodium_memzero(&exchange.outcome.secret, sizeof exchange.outcome.secret);
    sodium_memzero(exchange.base, sizeof exchange.base);
    free(exchange.outcome.nonces);
    return status;
}
