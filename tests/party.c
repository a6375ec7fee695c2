#include "party.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "chaos.h"
#include "check.h"

static const unsigned char job_key[32] = "a key for tests";

bool is_network(const struct subject *subject)
{
    return subject->transport == &transport_ofi;
}

static void set_variables(const char *environment, bool set)
{
    char text[200], *rest = text, *word;
    snprintf(text, sizeof text, "%s", environment != NULL ? environment : "");
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        if (set)
            setenv(word, value + 1, 1);
        else
            unsetenv(word);
    }
}

void set_environment(const struct subject *subject)
{
    static const char *before;
    set_variables(before, false);
    set_variables(subject->environment, true);
    before = subject->environment;
}

uint32_t party_seed(void)
{
    static uint32_t seed;
    const char *wanted = getenv("PLAIT_TEST_SEED");
    if (seed == 0) {
        seed = wanted != NULL ? (uint32_t)strtoul(wanted, NULL, 0) : (uint32_t)clock_ns() % 1000000 + 1;
        printf("PLAIT_TEST_SEED=%u\n", seed);
    }
    return seed;
}

struct arrival_thread {
    struct party *party;
    int rank;
};

static void *connect_one(void *argument)
{
    struct arrival_thread *arrival = argument;
    struct party *party = arrival->party;
    party->connected[arrival->rank] = party->transport->connect(
        party->endpoints[arrival->rank], party->peers, party->size, 77, job_key, deadline_after_ms(10000));
    if (party->connected[arrival->rank] != PLAIT_OK)
        printf("rank %d: %s\n", arrival->rank, plait_last_error());
    return NULL;
}

struct endpoint_setup setup_of(const struct subject *subject, int rank, int size)
{
    return (struct endpoint_setup){ .rank = rank,
                                    .size = size,
                                    .lane_size = 64 << 10,
                                    .provider = subject->provider,
                                    .no_writes = subject->no_writes };
}

void party_open(struct party *party, const struct subject *subject, int size)
{
    const struct transport *transport =
        subject->chaos ? chaos_over(subject->transport, party_seed()) : subject->transport;
    set_environment(subject);
    *party = (struct party){ .subject = subject, .transport = transport, .size = size };
    for (int i = 0; i < size; i++) {
        struct endpoint_setup setup = setup_of(subject, i, size);
        assert_int_equal(transport->open(&setup, &party->endpoints[i], party->blobs[i]), PLAIT_OK);
        party->peers[i] = (struct peer){ .rank = i, .pid = getpid(), .blob = party->blobs[i] };
    }
    pthread_t threads[RANKS_MAX];
    struct arrival_thread arrivals[RANKS_MAX];
    for (int i = 0; i < size; i++) {
        arrivals[i] = (struct arrival_thread){ party, i };
        assert_int_equal(pthread_create(&threads[i], NULL, connect_one, &arrivals[i]), 0);
    }
    for (int i = 0; i < size; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < size; i++)
        assert_int_equal(party->connected[i], PLAIT_OK);
}

bool party_progress(struct party *party)
{
    bool moved = false;
    for (int i = 0; i < party->size; i++)
        if (party->endpoints[i] != NULL)
            moved |= party->transport->progress(party->endpoints[i]);
    return moved;
}

void party_settle(struct party *party)
{
    /* So many turns, too, for this process may not have run for most of the time. */
    enum { TURNS = 300 };
    int64_t quiet = is_network(party->subject) ? 2000000 : 0, last = clock_ns();
    int turns = 0;
    bool moved;
    do {
        moved = party_progress(party);
        turns = moved ? 0 : turns + 1;
        if (moved)
            last = clock_ns();
    } while (moved || clock_ns() - last < quiet || (quiet > 0 && turns < TURNS));
}

/* Over a network, all take leave before the first goes: who goes waits until the others have what it sent. */
static void take_leave(struct party *party)
{
    for (int i = 0; i < party->size; i++)
        if (party->endpoints[i] != NULL)
            party->transport->leave(party->endpoints[i]);
    party_settle(party);
    for (int i = 0; i < party->size * party->size; i++)
        if (party->endpoints[i / party->size] != NULL)
            party->transport->life(party->endpoints[i / party->size], i % party->size);
}

void party_close(struct party *party)
{
    if (is_network(party->subject))
        take_leave(party);
    for (int i = 0; i < party->size; i++)
        party->transport->close(party->endpoints[i]);
}

void fill(unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

void assert_filled(const unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed))
            fail_msg("byte %zu of %zu is wrong", i, size);
}

struct transfer message_to(int peer, uint64_t operation, void *data, size_t size)
{
    return (struct transfer){ .peer = peer, .key = { 5, operation, 1 }, .data = data, .size = size };
}

struct transfer callers_message(int peer, uint64_t tag, void *data, size_t size)
{
    return (
        struct transfer){ .peer = peer, .key = { CONTEXT_CALLERS | 5, tag, 0 }, .data = data, .size = size };
}
