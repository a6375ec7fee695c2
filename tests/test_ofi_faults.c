/* The network transport over a fabric that fails or turns bits (efa_like/): nothing crashes or writes outside a
 * buffer, everything can be canceled and closed, and a link that fails says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "check.h"
#include "party.h"

/* libfabric 1.17 keeps what it knows of a connection that failed; LeakSanitizer asks here what isn't ours. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfabric.so";
}

enum { MESSAGES = 40, MOST = 40000 };

struct traffic {
    struct transfer sends[2][MESSAGES], receives[2][MESSAGES];
    unsigned char *bytes[2][MESSAGES];
};

static size_t size_of(int message)
{
    return message % 3 == 0 ? (size_t)message : message % 3 == 1 ? 3000 : MOST - (size_t)message;
}

/* Both ranks send each other messages of all kinds. Each buffer is one of its own, for sanitizers. */
static void start(struct party *party, struct traffic *traffic, unsigned char *from)
{
    for (int i = 0; i < MESSAGES; i++) {
        for (int rank = 0; rank < 2; rank++) {
            size_t size = size_of(i);
            traffic->bytes[rank][i] = malloc(size + 1);
            traffic->receives[rank][i] = message_to(1 - rank, (uint64_t)i, traffic->bytes[rank][i], size);
            traffic->sends[rank][i] = message_to(1 - rank, (uint64_t)i, from, size);
            party->transport->recv(party->endpoints[rank], &traffic->receives[rank][i]);
            party->transport->send(party->endpoints[rank], &traffic->sends[rank][i]);
        }
    }
}

static int lost_of(const struct traffic *traffic)
{
    int lost = 0;
    for (int i = 0; i < MESSAGES; i++)
        for (int rank = 0; rank < 2; rank++)
            lost += (traffic->sends[rank][i].status == PLAIT_PEER_LOST) +
                    (traffic->receives[rank][i].status == PLAIT_PEER_LOST);
    return lost;
}

static void move_for(struct party *party, const struct traffic *traffic, int most_ms, int until_lost)
{
    int64_t deadline = deadline_after_ms(most_ms);
    while (lost_of(traffic) <= until_lost && !deadline_passed(deadline))
        party_progress(party);
}

static void end(struct party *party, struct traffic *traffic)
{
    for (int i = 0; i < MESSAGES; i++) {
        for (int rank = 0; rank < 2; rank++) {
            party->transport->cancel(party->endpoints[rank], &traffic->sends[rank][i]);
            party->transport->cancel(party->endpoints[rank], &traffic->receives[rank][i]);
            assert_int_not_equal(traffic->sends[rank][i].status, PLAIT_IN_PROGRESS);
            assert_int_not_equal(traffic->receives[rank][i].status, PLAIT_IN_PROGRESS);
            free(traffic->bytes[rank][i]);
        }
    }
    for (int i = 0; i < party->size; i++)
        party->transport->close(party->endpoints[i]);
}

static void say_nothing(void *context, plait_log_level level, const char *line)
{
    (void)context, (void)level, (void)line;
}

/* Turned bits in packets: some are nonsense, some a message nobody waits for. */
static void turned_bits_harm_nobody(void **state)
{
    static unsigned char from[MOST];
    static struct traffic traffic;
    const struct subject subject = { "efa", &transport_ofi, "efa", *state != NULL, NULL, false };
    int lost = 0;
    plait_log_set_sink(say_nothing, NULL);
    for (int round = 0; round < 5 || (lost == 0 && round < 60); round++) { /* what a bit does is chance */
        struct party party;
        unsetenv("EFA_LIKE_CORRUPT");
        party_open(&party, &subject, 2);
        setenv("EFA_LIKE_CORRUPT", "9", 1);
        start(&party, &traffic, from);
        move_for(&party, &traffic, 40, 0);
        lost += lost_of(&traffic);
        end(&party, &traffic);
    }
    unsetenv("EFA_LIKE_CORRUPT");
    plait_log_set_sink(NULL, NULL);
    assert_true(lost > 0);
}

/* Operations that fail while both processes live: the link is lost, after a while in which the peer might have
 * shown that it ended. */
static void a_fabric_that_fails_loses_the_link(void **state)
{
    static unsigned char from[MOST];
    static struct traffic traffic;
    const struct subject subject = { "efa", &transport_ofi, "efa", *state != NULL, NULL, false };
    struct party party;
    party_open(&party, &subject, 2);
    setenv("EFA_LIKE_FAIL", "5", 1);
    plait_log_set_sink(say_nothing, NULL);
    start(&party, &traffic, from);
    int64_t began = clock_ns();
    move_for(&party, &traffic, 20000, 0);
    assert_true(lost_of(&traffic) > 0);
    assert_true(clock_ns() - began > INT64_C(400000000));
    unsetenv("EFA_LIKE_FAIL");
    end(&party, &traffic);
    plait_log_set_sink(NULL, NULL);
}

int main(void)
{
    static bool by_messages = true;
    char seed[20];
    snprintf(seed, sizeof seed, "%u", party_seed());
    setenv("EFA_LIKE_SEED", seed, 1);
    setenv("FI_PROVIDER_PATH", EFA_LIKE_DIR, 1);
    const struct CMUnitTest tests[] = {
        { "turned bits harm nobody", turned_bits_harm_nobody, NULL, NULL, NULL },
        { "turned bits harm nobody, by messages", turned_bits_harm_nobody, NULL, NULL, &by_messages },
        { "a fabric that fails loses the link", a_fabric_that_fails_loses_the_link, NULL, NULL, NULL },
        { "a fabric that fails loses the link, by messages", a_fabric_that_fails_loses_the_link, NULL, NULL,
          &by_messages },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
